"""V-trace against hand computation (gamma = 0.5, so that all numbers are exact) and against its definition."""

import math

import pytest
import torch
from torch import Tensor

from trainers.buffers.returns import gae, gae_by_turns
from trainers.buffers.vtrace import Correction, vtrace, vtrace_by_turns

NAN = float("nan")


def column(*values: float) -> Tensor:
    return torch.tensor(values).unsqueeze(1)


def flags(length: int, steps: tuple[int, ...]) -> Tensor:
    return torch.tensor([[t in steps] for t in range(length)])


def run(
    ratio: tuple[float, ...],
    last: float = 8.0,
    terminated: tuple[int, ...] = (),
    truncated: tuple[int, ...] = (),
    final: dict[int, float] | None = None,
    invalid: tuple[int, ...] = (),
    rho_max: float = 1.0,
    c_max: float = 1.0,
    lam: float = 1.0,
) -> tuple[list[float], list[float]]:
    """Compute V-trace of one agent with rewards 1, 2, 3 and values 2, 4, 2; NaN where it is dead."""
    reward, value = column(1.0, 2.0, 3.0), column(2.0, 4.0, 2.0)
    dead = flags(3, invalid)
    final_value = column(*[(final or {}).get(t, NAN) for t in range(3)])
    advantage, returns = vtrace(
        reward.masked_fill(dead, NAN), value.masked_fill(dead, NAN), torch.tensor([last]), flags(3, terminated),
        flags(3, truncated), final_value, ~dead, Correction(column(*ratio).log(), rho_max, c_max), 0.5, lam,
    )  # fmt: skip
    return advantage[:, 0].tolist(), returns[:, 0].tolist()


ONE = (1.0, 1.0, 1.0)
CASES = {
    # v2 = 3 + 0.5 * 8 = 7;  v1 = 2 + 0.5 * 7 = 5.5;  v0 = 1 + 0.5 * 5.5 = 3.75;  A = v - V
    "ratios of one give n-step returns": (ONE, {}, [3.75, 5.5, 7], [1.75, 1.5, 5]),
    # delta2 = 0.5 * (3 + 4 - 2) = 2.5                              v2 = 2 + 2.5 = 4.5
    # delta1 = 0.25 * (2 + 1 - 4) = -0.25                           v1 = 4 - 0.25 + 0.5 * 0.25 * 2.5 = 4.0625
    # delta0 = 1 * (1 + 2 - 2) = 1                                  v0 = 2 + 1 + 0.5 * 1 * 0.0625 = 3.03125
    # A2 = 0.5 * (3 + 4 - 2) = 2.5; A1 = 0.25 * (2 + 0.5 * 4.5 - 4) = 0.0625; A0 = 1 + 0.5 * 4.0625 - 2 = 1.03125
    "small ratios weight what follows": ((1.0, 0.25, 0.5), {}, [3.03125, 4.0625, 4.5], [1.03125, 0.0625, 2.5]),
    # rho = 2, 2, 2 and c = 1, 1, 1:
    # v2 = 2 + 2 * 5 = 12; v1 = 4 + 2 * -1 + 0.5 * 1 * 10 = 7; v0 = 2 + 2 * 1 + 0.5 * 1 * 3 = 5.5
    # A2 = 10; A1 = 2 * (2 + 0.5 * 12 - 4) = 8; A0 = 2 * (1 + 0.5 * 7 - 2) = 5
    "large ratios are cut at each limit": ((4.0, 4.0, 4.0), {"rho_max": 2.0, "c_max": 1.0}, [5.5, 7, 12], [5, 8, 10]),
    # terminated at 1: v1 = 4 + 1 * (2 - 4) = 2; A0 = 1 + 0.5 * 2 - 2 = 0; v0 = 2 + 1 + 0.5 * -2 = 2
    "the end of an episode carries nothing back": (ONE, {"terminated": (1,)}, [2, 2, 7], [0, -2, 5]),
    # v1 = 4 + (2 + 0.5 * 6 - 4) = 5; A1 = 1; v0 = 1 + 0.5 * 5 = 3.5
    "a truncation bootstraps the final observation": (
        ONE, {"truncated": (1,), "final": {1: 6}}, [3.5, 5, 7], [1.5, 1, 5],
    ),
    "a termination takes precedence": (
        ONE, {"terminated": (1,), "truncated": (1,), "final": {1: 6}}, [2, 2, 7], [0, -2, 5],
    ),
    "dead steps are zero": ((1.0, NAN, 1.0), {"terminated": (0,), "invalid": (1,)}, [1, 0, 7], [-1, 0, 5]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_vtrace_matches_hand_computation(case):
    ratio, settings, returns, advantage = CASES[case]
    assert run(ratio, **settings) == (advantage, returns)


def random_steps(seed: int, shape=(12, 5, 3)) -> dict[str, Tensor]:
    """Return random steps in which agents die, episodes end and turns change."""
    draw = torch.Generator().manual_seed(seed)
    number = lambda *size: torch.randn(size, generator=draw, dtype=torch.float64)  # noqa: E731
    chance = lambda share, *size: torch.rand(size, generator=draw) < share  # noqa: E731
    terminated, truncated = chance(0.1, *shape), chance(0.1, *shape)
    return {
        "reward": number(*shape), "value": number(*shape), "last_value": number(*shape[1:]), "terminated": terminated,
        "truncated": truncated, "final_value": number(*shape), "valid": ~chance(0.1, *shape),
        "to_move": chance(0.6, shape[0] + 1, *shape[1:]), "log_ratio": 0.7 * number(*shape),
    }  # fmt: skip


def plain(steps: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in steps.items() if name not in ("to_move", "log_ratio")}


@pytest.mark.parametrize("seed", range(5))
def test_on_policy_and_lambda_one_equal_generalized_advantages(seed):
    steps = random_steps(seed)
    correction = Correction(torch.zeros_like(steps["log_ratio"]), 1.0, 1.0)
    _, returns = vtrace(**plain(steps), correction=correction, gamma=0.9, lam=0.8)
    torch.testing.assert_close(returns, gae(**plain(steps), gamma=0.9, lam=0.8)[1])
    advantage, _ = vtrace(**plain(steps), correction=correction, gamma=0.9, lam=1.0)
    torch.testing.assert_close(advantage, gae(**plain(steps), gamma=0.9, lam=1.0)[0])
    turns = {name: value for name, value in steps.items() if name not in ("final_value", "log_ratio")}
    results = vtrace_by_turns(**turns, correction=correction, gamma=0.9, lam=1.0)
    for actual, expected in zip(results, gae_by_turns(**turns, gamma=0.9, lam=1.0), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("rho_max", "c_max", "lam"), [(1.0, 1.0, 1.0), (1.5, 0.7, 0.9), (math.inf, math.inf, 1.0)])
def test_returns_equal_the_sum_of_equation_1(seed, rho_max, c_max, lam):
    """`v_s = V_s + sum_t gamma^(t-s) (prod of c) delta_t`, until the first end, term by term."""
    steps = random_steps(seed)
    gamma, ratio = 0.9, steps["log_ratio"].exp()
    advantage, returns = vtrace(
        **plain(steps), correction=Correction(steps["log_ratio"], rho_max, c_max), gamma=gamma, lam=lam
    )
    for index in torch.cartesian_prod(torch.arange(5), torch.arange(3)).tolist():
        sequence = {name: value[(..., *index)].tolist() for name, value in steps.items() if name != "to_move"}
        expected = definition(sequence, ratio[(..., *index)].tolist(), gamma, lam, rho_max, c_max)
        actual = torch.stack([advantage[(..., *index)], returns[(..., *index)]])
        torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64).T, atol=1e-12, rtol=0)


def definition(steps, ratio, gamma, lam, rho_max, c_max) -> list[tuple[float, float]]:
    """Return (A, v) of every step of one agent, written as in the source; steps are lists."""
    length, results = len(ratio), []

    def value_after(t):
        if steps["terminated"][t]:
            return 0.0
        if steps["truncated"][t]:
            return steps["final_value"][t]
        return steps["last_value"] if t + 1 == length else steps["value"][t + 1]

    def returns(s):
        total, factor = steps["value"][s], 1.0
        for t in range(s, length):
            if not steps["valid"][t]:
                break
            difference = steps["reward"][t] + gamma * value_after(t) - steps["value"][t]
            total += factor * min(rho_max, ratio[t]) * difference
            factor *= gamma * lam * min(c_max, ratio[t])
            if steps["terminated"][t] or steps["truncated"][t]:
                break
        return total

    for s in range(length):
        if not steps["valid"][s]:
            results.append((0.0, 0.0))
            continue
        ended = steps["terminated"][s] or steps["truncated"][s] or s + 1 == length or not steps["valid"][s + 1]
        following = value_after(s) if ended else returns(s + 1)
        gain = steps["reward"][s] + gamma * following - steps["value"][s]
        results.append((min(rho_max, ratio[s]) * gain, returns(s)))
    return results


@pytest.mark.parametrize("seed", range(3))
def test_by_turns_equals_vtrace_of_the_decisions_alone(seed):
    """One agent: leaving out the other's moves, with rewards added to the decision before, changes nothing."""
    steps = random_steps(seed, (20, 1, 1))
    steps |= {"truncated": torch.zeros_like(steps["truncated"]), "valid": torch.ones_like(steps["valid"])}
    steps["to_move"][0] = steps["to_move"][-1] = True
    correction = Correction(steps["log_ratio"], 1.2, 0.9)
    turns = {name: value for name, value in steps.items() if name not in ("final_value", "log_ratio")}
    results = vtrace_by_turns(**turns, correction=correction, gamma=0.9, lam=0.95)
    decisions = steps["to_move"][:-1].flatten().nonzero().flatten().tolist()
    reward, ended = [], []
    for now, following in zip(decisions, [*decisions[1:], 20], strict=True):
        ends = [t for t in range(now, following) if bool(steps["terminated"][t])]
        last = ends[0] if ends else following - 1
        reward.append(steps["reward"][now : last + 1].sum())
        ended.append(bool(ends))
    alone = vtrace(
        torch.stack(reward).view(-1, 1), steps["value"][decisions].view(-1, 1), steps["last_value"].view(-1),
        torch.tensor(ended).view(-1, 1), torch.zeros(len(decisions), 1, dtype=torch.bool),
        torch.full((len(decisions), 1), NAN, dtype=torch.float64), torch.ones(len(decisions), 1, dtype=torch.bool),
        Correction(steps["log_ratio"][decisions].view(-1, 1), 1.2, 0.9), 0.9, 0.95,
    )  # fmt: skip
    for actual, expected in zip(results, alone, strict=False):
        torch.testing.assert_close(actual.flatten()[decisions], expected.flatten())
