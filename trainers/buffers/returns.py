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
    """Generalised advantage estimation with a true bootstrap at truncations.

    Source: Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage Estimation", eq. 16:
    `A_t = delta_t + gamma * lam * A_{t+1}` with `delta_t = r_t + gamma * V(s_{t+1}) - V(s_t)`. What follows a step is

    - terminated: nothing, `V(s_{t+1}) = 0`, even where `truncated` is set too;
    - truncated: `final_value`, the value of the true last observation; the trajectory is cut, `A_{t+1}` is dropped;
    - else: `value[t + 1]`, and `last_value` after the last step of the rollout.

    An agent that died stays invalid until its world resets. Invalid steps get zero and hand nothing to their
    neighbours: whatever stands in their other rows, NaN included, is never read into a result.

    Args:
        reward: (T, ...) reward of step t.
        value: (T, ...) V of the observation the agent acted on at step t.
        last_value: (...) V of the observation after the last step; read only where the agent is still in its episode.
        terminated: (T, ...) bool event, True on the step the agent's episode ended by the rules.
        truncated: (T, ...) bool event, True on the step the agent's episode was cut.
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
    """`gae` for games in which agents take turns: the time of an agent counts its own decisions.

    A decision's reward is all that its agent gets until its next decision, and what follows it is that next decision or
    the end of the agent's episode, on whosever turn it came. A critic can value only what an agent sees on its own
    turn, as it learns from nothing else. So a decision after which the agent was not asked again, because the episode
    was cut or the rollout ended, has no known outcome. With all agents to move at every step and no truncation it
    equals `gae`.

    Args:
        reward: As for `gae`, and so are the next five; there is no value of final observations.
        value: Read only at decisions.
        last_value: Read only of agents whose turn it is then.
        terminated: On whosever turn the end comes.
        truncated: Likewise.
        valid: The agent was alive, moving or not.
        to_move: (T + 1, ...) bool, whose turn was step t; its last row is the turn after the rollout.
        gamma: Discount per decision.
        lam: As for `gae`.

    Returns:
        (advantage, returns, known), all (T, ...). `known` is True at valid decisions of which the rollout shows what
        followed; the others, one per agent and episode at most, and all steps without a decision are zero.
    """
    advantage, known = torch.zeros_like(reward), torch.zeros_like(valid)
    # what follows step t for its agent: rewards until it moves again, value and advantage of that decision
    coming, following = torch.zeros_like(last_value), torch.zeros_like(last_value)
    next_value, settled = last_value, to_move[-1]
    for t in range(reward.shape[0] - 1, -1, -1):
        done, decided = (terminated | truncated)[t], valid[t] & to_move[t]
        next_value = next_value.masked_fill(terminated[t], 0.0)
        coming = reward[t] + coming.masked_fill(done, 0.0)
        following = following.masked_fill(done, 0.0)
        settled = settled & ~truncated[t] | terminated[t]
        known[t] = decided & settled
        gain = coming + gamma * next_value - value[t] + (gamma * lam) * following
        advantage[t] = gain.masked_fill(~known[t], 0.0)
        # a decision whose outcome is not known has a value all the same, and ends what came before like any other
        following = torch.where(decided, advantage[t], following)
        coming = coming.masked_fill(decided, 0.0)
        next_value = torch.where(decided, value[t], next_value)
        settled = settled | decided
    return advantage, advantage + value.masked_fill(~known, 0.0), known


def n_step(
    reward: Tensor, terminated: Tensor, truncated: Tensor, valid: Tensor, gamma: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Discounted sums of up to n rewards, and where the value that follows them is found.

    Source: Sutton and Barto 2018, section 7.1: `G = r_0 + ... + gamma^(k-1) r_{k-1} + gamma^k V(s_k)`, with k = n, or
    less where the agent's episode ends earlier: a termination is followed by nothing, a truncation by the value of the
    true last observation.

    Args:
        reward: (n, ...) rewards of n steps in a row.
        terminated: (n, ...) bool event, the agent's episode ended by the rules.
        truncated: (n, ...) bool event, it was cut.
        valid: (n, ...) bool, the step counts.
        gamma: Discount per step.

    Returns:
        (returns, last, discount, known), all (...): the sum of rewards; the index k - 1 of the step after which V is
        taken; gamma^k, 0 where nothing follows; whether all steps that were summed are valid.
    """
    going, known = torch.ones_like(valid[0]), torch.ones_like(valid[0])
    returns, discount = torch.zeros_like(reward[0]), torch.ones_like(reward[0])
    last = torch.zeros_like(reward[0], dtype=torch.int64)
    for k in range(reward.shape[0]):
        known = known & (valid[k] | ~going)
        returns = returns + (gamma**k) * reward[k].masked_fill(~going, 0.0)
        last = torch.where(going, k, last)
        discount = torch.where(going, gamma ** (k + 1), discount).masked_fill(going & terminated[k], 0.0)
        going = going & ~(terminated[k] | truncated[k])
    return returns, last, discount, known
