"""V-trace: returns and advantages of a policy from steps that another policy, or older weights, has sampled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Correction(NamedTuple):
    """Importance ratios of V-trace, and where they are cut."""

    log_ratio: Tensor
    """(T, ...) log-probability of the action under the policy that is valued, minus that under the one that sampled.
    Values are read only at valid decisions."""
    rho_max: float
    """Largest ratio of temporal differences and advantages, in (0, inf]: it sets the policy that returns belong to."""
    c_max: float
    """Largest ratio that carries a later difference back, in (0, inf]: it sets the variance of returns."""

    def ratios(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return rho and c (T, ...), 0 where `counts` (T, ...) is False."""
        ratio = self.log_ratio.masked_fill(~counts, 0.0).exp()
        return tuple(ratio.clamp(max=limit).masked_fill(~counts, 0.0) for limit in (self.rho_max, self.c_max))  # pyright: ignore[reportReturnType]


def vtrace(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_value: Tensor,
    valid: Tensor,
    correction: Correction,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Compute V-trace returns and advantages, bootstrapped at truncations from the true last observation.

    Source: Espeholt et al. 2018, "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner
    Architectures", eq. 1 and 4, with the decay of remark 2: with `rho_t` and `c_t` the cut ratios,

    - `delta_t = rho_t * (r_t + gamma * V(s_{t+1}) - V(s_t))`,
    - `v_t = V(s_t) + delta_t + gamma * lam * c_t * (v_{t+1} - V(s_{t+1}))`,
    - `A_t = rho_t * (r_t + gamma * v_{t+1} - V(s_t))`.

    Where all ratios are 1 and `lam` is 1, `v_t` is the n-step return. Ends of episodes, dead agents and other arguments
    are as in `trainers.buffers.returns.gae`. After a truncation `v_{t+1}` is `final_value`.

    Args:
        reward: (T, ...) reward of step t.
        value: (T, ...) V of the observation before step t.
        last_value: (...) V of the observation after the last step.
        terminated: (T, ...) bool, the agent's episode ended by the rules at step t.
        truncated: (T, ...) bool, the agent's episode was cut at step t.
        final_value: (T, ...) V of the final observation; read only where truncated and not terminated.
        valid: (T, ...) bool, the agent was alive before step t.
        correction: Importance ratios.
        gamma: Discount per step, in [0, 1].
        lam: Decay of the estimator, in [0, 1].

    Returns:
        (advantage, returns), both (T, ...), zero where invalid; `returns` is v, the critic's target.
    """
    rho, c = correction.ratios(valid)
    next_value = torch.cat([value[1:], last_value.unsqueeze(0)])
    next_value = torch.where(truncated, final_value, next_value).masked_fill(terminated, 0.0)
    difference = (reward + gamma * next_value - value).masked_fill(~valid, 0.0)
    going = valid & ~(terminated | truncated)
    advantage, returns = torch.empty_like(difference), torch.empty_like(difference)
    following = torch.zeros_like(difference[0])  # v - V after step t
    for t in range(len(reward) - 1, -1, -1):
        following = following.masked_fill(~going[t], 0.0)
        advantage[t] = rho[t] * (difference[t] + gamma * following)
        following = rho[t] * difference[t] + (gamma * lam) * c[t] * following
        returns[t] = following
    return advantage, returns + value.masked_fill(~valid, 0.0)


def vtrace_by_turns(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    to_move: Tensor,
    correction: Correction,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `vtrace` for turn-based games, in which an agent's time steps are its own decisions.

    Rewards between decisions, and decisions without a known outcome, are treated as in
    `trainers.buffers.returns.gae_by_turns`. Ratios of other agents' moves do not matter.

    Args:
        reward: (T, ...) reward of step t.
        value: (T, ...) V before step t; read only at decisions.
        last_value: (...) V after the last step; read only for agents to move then.
        terminated: (T, ...) bool, the agent's episode ended by the rules, on any turn.
        truncated: (T, ...) bool, the agent's episode was cut, on any turn.
        valid: (T, ...) bool, the agent was alive, whether to move or not.
        to_move: (T + 1, ...) bool, agents to move at step t; the last row is the turn after the rollout.
        correction: Importance ratios.
        gamma: Discount per decision.
        lam: Decay of the estimator, in [0, 1].

    Returns:
        (advantage, returns, is_known), all (T, ...), zero where `is_known` is False, as in `gae_by_turns`.
    """
    decisions = valid & to_move[:-1]
    rho, c = correction.ratios(decisions)
    advantage, returns = torch.zeros_like(reward), torch.zeros_like(reward)
    is_known = torch.zeros_like(valid)
    # after step t, per agent: rewards until its next decision, and V and v - V of that decision
    coming, following = torch.zeros_like(last_value), torch.zeros_like(last_value)
    next_value, settled = last_value, to_move[-1]
    for t in range(len(reward) - 1, -1, -1):
        done, decided = (terminated | truncated)[t], decisions[t]
        next_value = next_value.masked_fill(terminated[t], 0.0)
        coming = reward[t] + coming.masked_fill(done, 0.0)
        following = following.masked_fill(done, 0.0)
        settled = settled & ~truncated[t] | terminated[t]
        is_known[t] = decided & settled
        difference = coming + gamma * next_value - value[t]
        advantage[t] = (rho[t] * (difference + gamma * following)).masked_fill(~is_known[t], 0.0)
        gain = (rho[t] * difference + (gamma * lam) * c[t] * following).masked_fill(~is_known[t], 0.0)
        returns[t] = gain + value[t].masked_fill(~is_known[t], 0.0)
        following = torch.where(decided, gain, following)
        coming = coming.masked_fill(decided, 0.0)
        next_value = torch.where(decided, value[t], next_value)
        settled = settled | decided
    return advantage, returns, is_known
