"""GAE against hand computation: gamma = lambda = 0.5, so that gamma * lambda = 0.25 and all numbers are exact."""

import pytest
import torch
from torch import Tensor

from trainers.buffers.returns import gae, gae_by_turns, n_step

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
    """Compute GAE of one agent; steps are given by their index."""

    def flags(steps: tuple[int, ...]) -> Tensor:
        return torch.tensor([[t in steps] for t in range(len(reward))])

    final_value = column(*[(final or {}).get(t, NAN) for t in range(len(reward))])
    advantage, returns = gae(
        reward, value, torch.tensor([last]), flags(terminated), flags(truncated), final_value, ~flags(invalid), 0.5, 0.5
    )
    return advantage[:, 0].tolist(), returns[:, 0].tolist()


def test_rollout_end_bootstraps_the_last_value():
    # delta2 = 3 + 0.5 * 8 - 2 = 5        A2 = 5
    # delta1 = 2 + 0.5 * 2 - 4 = -1       A1 = -1 + 0.25 * 5 = 0.25
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * 0.25 = 1.0625
    advantage, returns = run(column(1, 2, 3), column(2, 4, 2), last=8)
    assert advantage == [1.0625, 0.25, 5]
    assert returns == [3.0625, 4.25, 7]  # advantage + value


def test_termination_has_no_next_value_and_ends_the_trajectory():
    # delta1 = 2 + 0 - 4 = -2             A1 = -2, the new episode's A2 is dropped
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * -2 = 0.5
    # delta2 = 3 + 0.5 * 8 - 2 = 5        A2 = 5
    advantage, _ = run(column(1, 2, 3), column(2, 4, 2), last=8, terminated=(1,))
    assert advantage == [0.5, -2, 5]


def test_truncation_bootstraps_the_final_observation_and_ends_the_trajectory():
    # delta1 = 2 + 0.5 * 6 - 4 = 1        A1 = 1: V(final) = 6, not V(next episode's first) = 2
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * 1 = 1.25
    advantage, _ = run(column(1, 2, 3), column(2, 4, 2), last=8, truncated=(1,), final={1: 6})
    assert advantage == [1.25, 1, 5]


def test_truncation_at_the_last_step_ignores_the_last_value():
    # delta0 = 1 + 0.5 * 6 - 2 = 2
    assert run(column(1.0), column(2.0), last=NAN, truncated=(0,), final={0: 6})[0] == [2]


def test_termination_takes_precedence_over_truncation():
    # delta0 = 1 + 0 - 2 = -1
    assert run(column(1.0), column(2.0), last=NAN, terminated=(0,), truncated=(0,), final={0: 6})[0] == [-1]


def test_dead_steps_are_zero_and_do_not_affect_others():
    # dies at 0: delta0 = 1 + 0 - 2 = -1; dead at 1 and 2, whatever stands there; alive again in a new episode at 3:
    # delta3 = 3 + 0.5 * 8 - 2 = 5
    advantage, returns = run(column(1, NAN, 1e9, 3), column(2, NAN, 1e9, 2), last=8, terminated=(0,), invalid=(1, 2))
    assert advantage == [-1, 0, 0, 5]
    assert returns == [1, 0, 0, 7]


def test_agent_dead_at_the_rollouts_end_does_not_read_the_last_value():
    # truncated at 0: delta0 = 1 + 0.5 * 6 - 2 = 2, then dead
    advantage, _ = run(column(1, NAN), column(2, NAN), last=NAN, truncated=(0,), final={0: 6}, invalid=(1,))
    assert advantage == [2, 0]


def turns(rows: list[dict], last: float, last_to_move: int, lam: float = 0.5) -> tuple[list, list, list]:
    """Compute GAE by turns of one agent, gamma = 0.5; a row has r (reward), v (value), mine, end ("t" or "c"), dead."""
    flags = {name: torch.tensor([[row.get("end") == name] for row in rows]) for name in "tc"}
    advantage, returns, is_known = gae_by_turns(
        column(*(float(row["r"]) for row in rows)), column(*(float(row.get("v", NAN)) for row in rows)),
        torch.tensor([last]), flags["t"], flags["c"],
        torch.tensor([["dead" not in row] for row in rows]),
        torch.tensor([[bool(row.get("mine"))] for row in rows] + [[bool(last_to_move)]]), 0.5, lam,
    )  # fmt: skip
    return advantage[:, 0].tolist(), returns[:, 0].tolist(), is_known[:, 0].tolist()


def test_rewards_between_two_turns_belong_to_the_first():
    # decisions at 0, 2, 4 and after the rollout; the opponent moves at 1, 3, 5
    # delta4 = (5 + 6) + 0.5 * 8 - 2 = 13         A4 = 13
    # delta2 = (3 + 4) + 0.5 * 2 - 4 = 4          A2 = 4 + 0.25 * 13 = 7.25
    # delta0 = (1 + 2) + 0.5 * 4 - 2 = 3          A0 = 3 + 0.25 * 7.25 = 4.8125
    mine = [{"r": 1, "v": 2, "mine": 1}, {"r": 3, "v": 4, "mine": 1}, {"r": 5, "v": 2, "mine": 1}]
    rows = [mine[0], {"r": 2}, mine[1], {"r": 4}, mine[2], {"r": 6}]
    advantage, returns, is_known = turns(rows, last=8, last_to_move=1)
    assert advantage == [4.8125, 0, 7.25, 0, 13, 0]
    assert returns == [6.8125, 0, 11.25, 0, 15, 0]
    assert is_known == [True, False] * 3


def test_end_on_the_opponents_move_ends_the_last_decision():
    # the opponent wins at 1: delta0 = (0 - 1) + 0 - 2 = -3; the next episode starts with the opponent's move 2
    # decision 3 wins at once: delta3 = 1 + 0 - 4 = -3; the opponent starts the next at 4
    # decision 5 runs on to the one after the rollout: delta5 = 5 + 0.5 * 8 - 2 = 7
    rows = [
        {"r": 0, "v": 2, "mine": 1}, {"r": -1, "end": "t"}, {"r": 7}, {"r": 1, "v": 4, "mine": 1, "end": "t"},
        {"r": 1}, {"r": 5, "v": 2, "mine": 1},
    ]  # fmt: skip
    advantage, returns, is_known = turns(rows, last=8, last_to_move=1)
    assert advantage == [-3, 0, 0, -3, 0, 7]
    assert returns == [-1, 0, 0, 1, 0, 9]
    assert is_known == [True, False, False, True, False, True]


def test_truncation_leaves_the_last_decision_out():
    # cut on the opponent's move 3 and on the own move 5: who was to move then is not known, nor what it is worth
    # decision 0 continues to decision 2: delta0 = (1 + 2) + 0.5 * 4 - 2 = 3
    rows = [
        {"r": 1, "v": 2, "mine": 1}, {"r": 2}, {"r": 3, "v": 4, "mine": 1}, {"r": 4, "end": "c"},
        {"r": 5}, {"r": 6, "v": 2, "mine": 1, "end": "c"},
    ]  # fmt: skip
    advantage, returns, is_known = turns(rows, last=8, last_to_move=1)
    assert advantage == [3, 0, 0, 0, 0, 0]
    assert returns == [5, 0, 0, 0, 0, 0]
    assert is_known == [True, False, False, False, False, False]


def test_decision_with_unknown_outcome_is_left_out():
    # the opponent is to move after the rollout: nothing is known of decision 2 but its value, where decision 0 ends
    # delta0 = (1 + 2) + 0.5 * 4 - 2 = 3
    rows = [{"r": 1, "v": 2, "mine": 1}, {"r": 2}, {"r": 3, "v": 4, "mine": 1}, {"r": 4}]
    advantage, returns, is_known = turns(rows, last=NAN, last_to_move=0)
    assert advantage == [3, 0, 0, 0]
    assert returns == [5, 0, 0, 0]
    assert is_known == [True, False, False, False]


def test_turns_of_dead_agents_do_not_affect_others():
    # dies at 0 on its own move, dead at 1 and 2, a new episode at 3: delta0 = 1 - 2 = -1, delta3 = 3 + 0.5 * 8 - 2 = 5
    rows = [
        {"r": 1, "v": 2, "mine": 1, "end": "t"}, {"r": NAN, "dead": 1, "mine": 1}, {"r": 1e9, "dead": 1},
        {"r": 3, "v": 2, "mine": 1},
    ]  # fmt: skip
    advantage, _, is_known = turns(rows, last=8, last_to_move=1)
    assert advantage == [-1, 0, 0, 5]
    assert is_known == [True, False, False, True]


def test_turns_with_all_agents_to_move_equal_gae():
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(2, 9, 4, generator=generator)
    terminated = torch.rand(9, 4, generator=generator) < 0.2
    last, always = torch.randn(4, generator=generator), torch.ones(10, 4, dtype=torch.bool)
    steps = (reward, value, last, terminated, torch.zeros_like(terminated))
    advantage, returns, is_known = gae_by_turns(*steps, always[1:], always, 0.9, 0.8)
    plain_advantage, plain_returns = gae(*steps, torch.full_like(value, NAN), always[1:], 0.9, 0.8)
    torch.testing.assert_close(advantage, plain_advantage)
    torch.testing.assert_close(returns, plain_returns)
    assert is_known.all()


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_lambda_zero_is_one_step_and_one_is_monte_carlo(lam):
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


def test_n_step_returns_stop_at_the_end_of_an_episode():
    """Three worlds: one goes on, one terminates and one is truncated in the second of three steps."""
    reward = torch.tensor([[8.0, 8.0, 8.0], [4.0, 4.0, 4.0], [2.0, 2.0, 2.0]])
    terminated, truncated = torch.zeros(2, 3, 3, dtype=torch.bool)
    terminated[1, 1] = truncated[1, 2] = True
    returns, last, discount, is_known = n_step(reward, terminated, truncated, torch.ones_like(terminated), 0.5)
    assert returns.tolist() == [8.0 + 0.5 * 4.0 + 0.25 * 2.0, 10.0, 10.0]
    assert last.tolist() == [2, 1, 1]
    assert discount.tolist() == [0.125, 0.0, 0.25]
    assert is_known.all()
