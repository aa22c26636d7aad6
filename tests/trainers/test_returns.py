"""GAE against hand arithmetic: gamma = 0.5, lambda = 0.5, so that gamma * lambda = 0.25 and all numbers are exact."""

import pytest
import torch
from torch import Tensor

from trainers.returns import gae

NAN = float("nan")


def column(*values: float) -> Tensor:
    return torch.tensor(values).unsqueeze(1)


def run(
    reward: Tensor,
    value: Tensor,
    last: float,
    terminated: tuple[int, ...] = (),
    truncated: tuple[int, ...] = (),
    final: dict[int, float] | None = None,
    invalid: tuple[int, ...] = (),
) -> tuple[list[float], list[float]]:
    """One agent; steps are named by their index."""

    def flags(steps: tuple[int, ...]) -> Tensor:
        return torch.tensor([[t in steps] for t in range(len(reward))])

    final_value = column(*[(final or {}).get(t, NAN) for t in range(len(reward))])
    advantage, returns = gae(
        reward, value, torch.tensor([last]), flags(terminated), flags(truncated), final_value, ~flags(invalid), 0.5, 0.5
    )
    return advantage[:, 0].tolist(), returns[:, 0].tolist()


def test_no_end_bootstraps_the_last_value():
    # delta2 = 3 + 0.5 * 8 - 2 = 5        A2 = 5
    # delta1 = 2 + 0.5 * 2 - 4 = -1       A1 = -1 + 0.25 * 5 = 0.25
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * 0.25 = 1.0625
    advantage, returns = run(column(1, 2, 3), column(2, 4, 2), last=8)
    assert advantage == [1.0625, 0.25, 5]
    assert returns == [3.0625, 4.25, 7]  # advantage + value


def test_termination_is_worth_nothing_and_cuts():
    # delta1 = 2 + 0 - 4 = -2             A1 = -2, the new episode's A2 is dropped
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * -2 = 0.5
    # delta2 = 3 + 0.5 * 8 - 2 = 5        A2 = 5
    advantage, _ = run(column(1, 2, 3), column(2, 4, 2), last=8, terminated=(1,))
    assert advantage == [0.5, -2, 5]


def test_truncation_bootstraps_the_final_observation_and_cuts():
    # delta1 = 2 + 0.5 * 6 - 4 = 1        A1 = 1: V(final) = 6, not V(next episode's first) = 2
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * 1 = 1.25
    advantage, _ = run(column(1, 2, 3), column(2, 4, 2), last=8, truncated=(1,), final={1: 6})
    assert advantage == [1.25, 1, 5]


def test_truncation_at_the_last_step_ignores_the_last_value():
    # delta0 = 1 + 0.5 * 6 - 2 = 2
    assert run(column(1.0), column(2.0), last=NAN, truncated=(0,), final={0: 6})[0] == [2]


def test_termination_wins_where_both_are_set():
    # delta0 = 1 + 0 - 2 = -1
    assert run(column(1.0), column(2.0), last=NAN, terminated=(0,), truncated=(0,), final={0: 6})[0] == [-1]


def test_dead_steps_are_zero_and_do_not_leak():
    # dies at 0: delta0 = 1 + 0 - 2 = -1; dead at 1 and 2, whatever stands there; alive again in a new episode at 3:
    # delta3 = 3 + 0.5 * 8 - 2 = 5
    advantage, returns = run(column(1, NAN, 1e9, 3), column(2, NAN, 1e9, 2), last=8, terminated=(0,), invalid=(1, 2))
    assert advantage == [-1, 0, 0, 5]
    assert returns == [1, 0, 0, 7]


def test_dead_at_the_end_of_the_rollout_never_reads_the_last_value():
    # truncated at 0: delta0 = 1 + 0.5 * 6 - 2 = 2, then dead
    advantage, _ = run(column(1, NAN), column(2, NAN), last=NAN, truncated=(0,), final={0: 6}, invalid=(1,))
    assert advantage == [2, 0]


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_extremes_are_one_step_and_monte_carlo(lam):
    reward, value = torch.randn(5, 3, 2), torch.randn(5, 3, 2)
    last = torch.randn(3, 2)
    never, always = torch.zeros(5, 3, 2, dtype=torch.bool), torch.ones(5, 3, 2, dtype=torch.bool)
    _, returns = gae(reward, value, last, never, never, torch.full_like(value, NAN), always, 0.9, lam)
    if lam == 0.0:
        expected = reward + 0.9 * torch.cat([value[1:], last[None]])
    else:
        expected, following = torch.empty_like(reward), last
        for t in reversed(range(5)):
            following = expected[t] = reward[t] + 0.9 * following
    torch.testing.assert_close(returns, expected)
