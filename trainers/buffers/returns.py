"""Returns and advantages as pure functions of time-major tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_value: Tensor,
    valid: Tensor,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Compute generalized advantage estimates, bootstrapped at truncations from the true last observation.

    Source: Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage Estimation", eq. 16:
    `A_t = delta_t + gamma * lam * A_{t+1}` with `delta_t = r_t + gamma * V(s_{t+1}) - V(s_t)`. The value after a step
    is

    - terminated: `V(s_{t+1}) = 0`, even if `truncated` is set too;
    - truncated: `final_value`, the value of the true last observation, and `A_{t+1}` is dropped;
    - otherwise: `value[t + 1]`, and `last_value` after the last step of the rollout.

    An agent that died stays invalid until its world resets. Invalid steps get zero and do not affect other steps, even
    if they hold NaN.

    Args:
        reward: (T, ...) reward of step t.
        value: (T, ...) V of the observation before step t.
        last_value: (...) V of the observation after the last step; read only where the agent's episode continues.
        terminated: (T, ...) bool, the agent's episode ended by the rules at step t.
        truncated: (T, ...) bool, the agent's episode was cut at step t.
        final_value: (T, ...) V of the final observation; read only where truncated and not terminated.
        valid: (T, ...) bool, the agent was alive before step t.
        gamma: Discount per step, in [0, 1].
        lam: Decay of the estimator, in [0, 1]: 0 is one-step, 1 is Monte Carlo.

    Returns:
        (advantage, returns), both (T, ...), zero where invalid; `returns` = advantage + value is the critic's target.
    """
    next_value = torch.cat([value[1:], last_value.unsqueeze(0)])
    next_value = torch.where(truncated, final_value, next_value).masked_fill(terminated, 0.0)
    delta = (reward + gamma * next_value - value).masked_fill(~valid, 0.0)
    decay = (gamma * lam) * (valid & ~(terminated | truncated)).to(delta.dtype)
    advantage = torch.empty_like(delta)
    following = torch.zeros_like(delta[0])
    for t in range(delta.shape[0] - 1, -1, -1):
        following = torch.addcmul(delta[t], decay[t], following, out=advantage[t])
    return advantage, advantage + value.masked_fill(~valid, 0.0)


def gae_by_turns(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    to_move: Tensor,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `gae` for turn-based games, in which an agent's time steps are its own decisions.

    The reward of a decision is the sum of its agent's rewards until its next decision. That decision, or the end of the
    agent's episode on any turn, follows it. A critic learns only from observations of agents to move, so it can value
    no others. Hence a decision has no known outcome if its agent does not move again before the episode is cut or the
    rollout ends. If all agents move at every step and none is truncated, the result equals `gae`.

    Args:
        reward: (T, ...) reward of step t.
        value: (T, ...) V before step t; read only at decisions.
        last_value: (...) V after the last step; read only for agents to move then.
        terminated: (T, ...) bool, the agent's episode ended by the rules, on any turn.
        truncated: (T, ...) bool, the agent's episode was cut, on any turn.
        valid: (T, ...) bool, the agent was alive, whether to move or not.
        to_move: (T + 1, ...) bool, agents to move at step t; the last row is the turn after the rollout.
        gamma: Discount per decision.
        lam: As in `gae`.

    Returns:
        (advantage, returns, is_known), all (T, ...). `is_known` is True at valid decisions with a known outcome. All
        other entries are zero: unknown outcomes, at most one per agent and episode, and steps without a decision.
    """
    advantage, is_known = torch.zeros_like(reward), torch.zeros_like(valid)
    # after step t, per agent: rewards until its next decision, and value and advantage of that decision
    coming, following = torch.zeros_like(last_value), torch.zeros_like(last_value)
    next_value, settled = last_value, to_move[-1]
    for t in range(reward.shape[0] - 1, -1, -1):
        done, decided = (terminated | truncated)[t], valid[t] & to_move[t]
        next_value = next_value.masked_fill(terminated[t], 0.0)
        coming = reward[t] + coming.masked_fill(done, 0.0)
        following = following.masked_fill(done, 0.0)
        settled = settled & ~truncated[t] | terminated[t]
        is_known[t] = decided & settled
        gain = coming + gamma * next_value - value[t] + (gamma * lam) * following
        advantage[t] = gain.masked_fill(~is_known[t], 0.0)
        # a decision with an unknown outcome still has a value and ends the previous decision
        following = torch.where(decided, advantage[t], following)
        coming = coming.masked_fill(decided, 0.0)
        next_value = torch.where(decided, value[t], next_value)
        settled = settled | decided
    return advantage, advantage + value.masked_fill(~is_known, 0.0), is_known


def n_step(
    reward: Tensor, terminated: Tensor, truncated: Tensor, valid: Tensor, gamma: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute discounted sums of up to n rewards, and the place of the value to bootstrap from.

    Source: Sutton and Barto 2018, section 7.1: `G = r_0 + ... + gamma^(k-1) r_{k-1} + gamma^k V(s_k)`, with k = n or,
    if the agent's episode ends earlier, the number of its steps. There is no value after a termination. After a
    truncation it is the value of the true last observation.

    Args:
        reward: (n, ...) rewards of n consecutive steps.
        terminated: (n, ...) bool, the agent's episode ended by the rules.
        truncated: (n, ...) bool, the agent's episode was cut.
        valid: (n, ...) bool, the step counts.
        gamma: Discount per step.

    Returns:
        (returns, last, discount, is_known), all (...): the sum of rewards; the index k - 1 of the last step; gamma^k,
        or 0 after a termination; whether all summed steps are valid.
    """
    going, is_known = torch.ones_like(valid[0]), torch.ones_like(valid[0])
    returns, discount = torch.zeros_like(reward[0]), torch.ones_like(reward[0])
    last = torch.zeros_like(reward[0], dtype=torch.int64)
    for k in range(reward.shape[0]):
        is_known = is_known & (valid[k] | ~going)
        returns = returns + (gamma**k) * reward[k].masked_fill(~going, 0.0)
        last = torch.where(going, k, last)
        discount = torch.where(going, gamma ** (k + 1), discount).masked_fill(going & terminated[k], 0.0)
        going = going & ~(terminated[k] | truncated[k])
    return returns, last, discount, is_known


def one_decision(
    reward: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, decides_next: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    """Compute one-step targets for turn-based games, in which an agent's time steps are its own decisions.

    The target of a decision is the sum of its agent's rewards until its next decision plus the discounted value then,
    or until the end of its episode. It is unknown if the episode is cut or the steps end before.

    Args:
        reward: (T, ...) reward of step t.
        next_value: (T, ...) value of the observation after step t; read only where the agent decides next.
        terminated: (T, ...) bool, the agent's episode ended by the rules, on any turn.
        truncated: (T, ...) bool, the agent's episode was cut, on any turn.
        decides_next: (T, ...) bool, the agent decides at step t + 1 of the same episode.
        gamma: Discount per decision.

    Returns:
        (target, is_known), both (T, ...).
    """
    target, is_known = torch.zeros_like(reward), torch.zeros_like(terminated)
    value, is_settled = torch.zeros_like(reward[0]), torch.zeros_like(terminated[0])
    for t in range(reward.shape[0] - 1, -1, -1):
        value = torch.where(decides_next[t], gamma * next_value[t], value).masked_fill(terminated[t], 0.0)
        value = target[t] = reward[t] + value
        is_settled = is_known[t] = terminated[t] | decides_next[t] | (is_settled & ~truncated[t])
    return target, is_known
