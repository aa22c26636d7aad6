"""Estimators of advantages and returns from the steps of a rollout: GAE, V-trace and Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from trainers.buffers.returns import gae, gae_by_turns
from trainers.buffers.vtrace import Correction, vtrace, vtrace_by_turns


class Estimates(NamedTuple):
    """Advantages and returns of decisions, zero where a decision has none."""

    advantage: Tensor
    """(T, E, n) advantages, with the ratio as a factor."""
    returns: Tensor
    """(T, E, n) targets of the critic."""
    known: Tensor
    """(T, E, n) bool, whether the decision has them."""
    ratio: Tensor | None = None
    """(T, E, n) cut importance ratios; None: all are 1."""


@dataclass(frozen=True)
class Steps:
    """Steps of a rollout with their values, see `trainers.buffers.returns.gae`."""

    reward: Tensor
    """(T, E, n) scaled reward."""
    value: Tensor
    """(T, E, n) value before the step."""
    last_value: Tensor
    """(E, n) value after the last step."""
    final_value: Tensor
    """(T, E, n) value of the final observation, where one was cut off."""
    terminated: Tensor
    """(T, E, n) bool."""
    truncated: Tensor
    """(T, E, n) bool."""
    valid: Tensor
    """(T, E, n) bool, the agent was alive."""
    to_move: Tensor | None
    """(T + 1, E, n) bool, agents to act; None: all act at every step."""
    log_ratio: Tensor | None = None
    """(T, E, n) log-probability of the action under the valued policy minus that at sampling; None: they are equal."""


def generalized(steps: Steps, gamma: float, lam: float) -> Estimates:
    """Return generalized advantage estimates, see `trainers.buffers.returns.gae`."""
    s = steps
    if s.to_move is None:
        advantage, returns = gae(
            s.reward, s.value, s.last_value, s.terminated, s.truncated, s.final_value, s.valid, gamma, lam
        )
        return Estimates(advantage, returns, s.valid)
    arguments = (s.reward, s.value, s.last_value, s.terminated, s.truncated)
    return Estimates(*gae_by_turns(*arguments, s.valid, s.to_move, gamma, lam))


def importance_weighted(steps: Steps, gamma: float, lam: float, rho_max: float, c_max: float) -> Estimates:
    """Return V-trace advantages and returns of the valued policy, see `trainers.buffers.vtrace.vtrace`."""
    s = steps
    assert s.log_ratio is not None
    correction = Correction(s.log_ratio, rho_max, c_max)
    arguments = (s.reward, s.value, s.last_value, s.terminated, s.truncated)
    if s.to_move is None:
        advantage, returns = vtrace(*arguments, s.final_value, s.valid, correction, gamma, lam)
        return Estimates(advantage, returns, s.valid, correction.ratios(s.valid)[0])
    advantage, returns, is_known = vtrace_by_turns(*arguments, s.valid, s.to_move, correction, gamma, lam)
    return Estimates(advantage, returns, is_known, correction.ratios(is_known)[0])


def monte_carlo(steps: Steps, gamma: float, baseline: bool) -> Estimates:
    """Return the discounted rewards until the end of the episode, less the value if `baseline` is set.

    Source: Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning".
    Decisions whose episode does not end within the rollout have no estimate. The rewards after a truncation are the
    value of the final observation with `baseline`, and 0 without.
    """
    s = steps
    values = (s.value, s.last_value, s.final_value)
    value, last_value, final_value = values if baseline else (torch.zeros_like(x) for x in values)
    masked = Steps(s.reward, value, last_value, final_value, s.terminated, s.truncated, s.valid, s.to_move)
    advantage, returns, is_known, _ = generalized(masked, gamma, 1.0)
    ends = (s.terminated | s.truncated).to(torch.uint8)
    is_known = is_known & ends.flip(0).cummax(0).values.flip(0).bool()
    return Estimates(advantage.masked_fill(~is_known, 0.0), returns.masked_fill(~is_known, 0.0), is_known)
