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


GAE = {
    # delta2 = 3 + 0.5 * 8 - 2 = 5        A2 = 5
    # delta1 = 2 + 0.5 * 2 - 4 = -1       A1 = -1 + 0.25 * 5 = 0.25
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * 0.25 = 1.0625
    "the rollout's end bootstraps the last value": ([1, 2, 3], [2, 4, 2], 8, {}, [1.0625, 0.25, 5]),
    # delta1 = 2 + 0 - 4 = -2             A1 = -2, the new episode's A2 is dropped
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * -2 = 0.5
    "a termination has no next value": ([1, 2, 3], [2, 4, 2], 8, {"terminated": (1,)}, [0.5, -2, 5]),
    # delta1 = 2 + 0.5 * 6 - 4 = 1        A1 = 1: V(final) = 6, not V(next episode's first) = 2
    # delta0 = 1 + 0.5 * 4 - 2 = 1        A0 = 1 + 0.25 * 1 = 1.25
    "a truncation bootstraps the final observation": (
        [1, 2, 3], [2, 4, 2], 8, {"truncated": (1,), "final": {1: 6}}, [1.25, 1, 5],
    ),
    # delta0 = 1 + 0.5 * 6 - 2 = 2
    "a truncation at the last step ignores the last value": ([1], [2], NAN, {"truncated": (0,), "final": {0: 6}}, [2]),
    # delta0 = 1 + 0 - 2 = -1
    "a termination takes precedence": ([1], [2], NAN, {"terminated": (0,), "truncated": (0,), "final": {0: 6}}, [-1]),
    # dies at 0: delta0 = 1 + 0 - 2 = -1; dead at 1 and 2, whatever stands there; alive again in a new episode at 3:
    # delta3 = 3 + 0.5 * 8 - 2 = 5
    "dead steps are zero and do not affect others": (
        [1, NAN, 1e9, 3], [2, NAN, 1e9, 2], 8, {"terminated": (0,), "invalid": (1, 2)}, [-1, 0, 0, 5],
    ),
    # truncated at 0: delta0 = 1 + 0.5 * 6 - 2 = 2, then dead
    "an agent dead at the rollout's end does not read the last value": (
        [1, NAN], [2, NAN], NAN, {"truncated": (0,), "final": {0: 6}, "invalid": (1,)}, [2, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GAE)
def test_gae_matches_hand_computation(case):
    reward, value, last, ends, expected = GAE[case]
    advantage, returns = run(column(*map(float, reward)), column(*map(float, value)), float(last), **ends)
    dead = ends.get("invalid", ())
    assert advantage == expected
    assert returns == [0 if t in dead else a + value[t] for t, a in enumerate(expected)]


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


def test_n_step_returns_stop_at_episode_ends():
    # columns: continues; terminated at step 1; truncated at step 1; terminated and truncated at 0; invalid; valid
    # until 1
    reward = torch.tensor([[1.0] * 6, [2.0] * 6, [4.0] * 6])
    terminated, truncated, valid = torch.zeros(3, 6).bool(), torch.zeros(3, 6).bool(), torch.ones(3, 6).bool()
    terminated[1, 1] = truncated[1, 2] = terminated[0, 3] = truncated[0, 3] = True
    valid[0, 4] = valid[1, 5] = False
    reward[2, 1] = torch.nan  # after the end: never read
    returns, last, discount, is_known = n_step(reward, terminated, truncated, valid, 0.5)
    assert returns[:4].tolist() == [1 + 1 + 1, 1 + 1, 1 + 1, 1]
    assert last[:4].tolist() == [2, 1, 1, 0]
    assert discount[:4].tolist() == [0.125, 0.0, 0.25, 0.0]
    assert is_known.tolist() == [True, True, True, True, False, False]
