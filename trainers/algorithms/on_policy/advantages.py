"""What actor-critics learn from: the decisions of a rollout, valued, with their advantages.

A feedforward learner gets single rows, a recurrent one whole sequences; both are tensors led by what a minibatch draws.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from trainers.actor_critic import ActorCritic, ActorCriticConfig, Outlook
from trainers.bodies import Network
from trainers.learner import ALONE, Descent
from trainers.memory import Memory
from trainers.nets import ObservationNormalizer
from trainers.returns import gae, gae_by_turns
from trainers.rollout import Rollout

WHOLE = ("raw_obs", "states", "rows")
"""Entries of a batch that minibatches do not draw from."""


def explained_variance(batch: dict[str, Tensor], descent: Descent) -> Tensor:
    """Share of the returns' variance that the critic foresaw, a scalar: 1 at best, 0 for a constant."""
    returns, value = batch["returns"], batch["value"]
    if "valid" in batch:
        returns, value = returns[batch["valid"]], value[batch["valid"]]
    return 1 - descent.variance(returns - value) / (descent.variance(returns) + 1e-8)


def minibatch(batch: dict[str, Tensor], drawn: Tensor | None, outlook: Outlook | None) -> dict[str, Tensor]:
    """Some rows (B,), or sequences, of a batch, or, uncopied, all of them; "seen" is what the critic values."""
    part = {name: tensor for name, tensor in batch.items() if name not in WHOLE}
    if drawn is not None:
        part = {name: tensor[drawn] for name, tensor in part.items()}
    part["seen"] = part["obs"] if outlook is None else outlook(batch["states"], part["agent"])
    return part


def through(net: Network, x: Tensor, part: dict[str, Tensor], which: str) -> Tensor:
    """Outputs of the "actor" or "critic" for rows (N, D), or with gradients through time for sequences (N, T, D)."""
    if "begins" not in part:
        return net(x)
    return net.unroll(x.transpose(0, 1), part[f"memory_{which}"], part["begins"].transpose(0, 1)).transpose(0, 1)


def take_in(batch: dict[str, Tensor], r: Rollout, net: ActorCritic, total: Callable[[Tensor], Tensor]) -> None:
    """Brings the statistics of observations and states up to date, `total` as `Descent.sum`; after gradient steps."""
    net.normalizer.update(batch["raw_obs"], batch.get("valid"), total)
    if net.outlook is not None and r.state is not None:
        net.outlook.normalizer.update(r.state[:-1], r.valid.any(-1), total)


@torch.no_grad()
def by_rows(r: Rollout, net: ActorCritic, c: ActorCriticConfig, descent: Descent = ALONE) -> dict[str, Tensor]:
    """Values the rollout and compacts its N valid decisions to tensors (N, ...).

    The host waits for the device here, to learn how many final observations there are and how large N is.
    """
    normalizer, critic, outlook = net.normalizer, net.critic, net.outlook
    r.check()
    decided = r.valid if r.to_move is None else r.valid & r.to_move[:-1]
    rows = decided.flatten().nonzero().squeeze(-1)
    raw_obs = r.obs.flatten(0, 2)[rows]
    obs = normalizer(raw_obs)
    states = None if outlook is None else _states(r).flatten(0, 1)
    if outlook is None or states is None:
        seen, last = obs, normalizer(r.last_obs)
    else:
        everyone = torch.arange(r.valid[0].numel(), device=r.device)
        seen, last = outlook(states, rows), outlook(states, r.valid.numel() + everyone)
    valued = critic(seen).squeeze(-1)
    value = torch.zeros(r.valid.numel(), device=r.device).index_copy_(0, rows, valued).view_as(r.reward)
    last_value = critic(last).view_as(r.reward[0])
    cut = _cut(r)
    final_value = torch.zeros(r.valid.numel(), device=r.device)
    final_value[cut] = critic(_final(r, cut, normalizer, outlook)).squeeze(-1)
    advantage, returns, known = _estimate(r, value, last_value, final_value, c)
    if r.to_move is not None:
        keep = known.flatten()[rows]
        rows, raw_obs, obs, valued = rows[keep], raw_obs[keep], obs[keep], valued[keep]
    advantage = advantage.flatten()[rows]
    if c.normalize_advantage:
        advantage = descent.normalized(advantage)
    batch = {"raw_obs": raw_obs, "obs": obs, "advantage": advantage, "returns": returns.flatten()[rows], "rows": rows}
    batch |= {"action": r.action.flatten(0, 2)[rows], "log_prob": r.log_prob.flatten()[rows], "value": valued}
    if r.mask is not None:
        batch["mask"] = r.mask[:-1].flatten(0, 2)[rows]
    if states is not None:
        batch |= {"states": states, "agent": rows}
    return batch


@torch.no_grad()
def by_sequences(
    r: Rollout, net: ActorCritic, memory: Memory, c: ActorCriticConfig, descent: Descent = ALONE
) -> dict[str, Tensor]:
    """Values the rollout; every agent's T steps are a sequence, tensors (E * n, T, ...).

    In "valid" are the decisions to learn from; what stands in others is zero, whatever it was. Steps between an agent's
    turns stay in its sequence: it remembers what it saw while others moved.
    """
    normalizer, critic, outlook = net.normalizer, net.critic, net.outlook
    r.check()
    agents = r.valid[0].numel()
    alive = r.valid.flatten(1).unsqueeze(-1)
    raw_obs = r.obs.flatten(1, 2).masked_fill(~alive, 0.0)  # (T, E * n, D)
    obs = normalizer(raw_obs)
    begins = r.begins.repeat_interleave(agents // r.begins.shape[1], dim=1)
    states = None if outlook is None else _states(r).transpose(0, 1)  # (E, T + 1, S)
    everyone = torch.arange(agents, device=r.device)
    if outlook is None or states is None:
        seen = torch.cat([obs, normalizer(r.last_obs).flatten(0, 1).unsqueeze(0)])
    else:
        seen = outlook(states, everyone).transpose(0, 1)
    # who is dead now stays so until the world's next episode, which begins without a memory
    before = {name: start.flatten(0, 1).masked_fill(~alive[0], 0.0) for name, start in memory.starts().items()}
    hidden = critic.remember(seen, before["critic"], begins)
    memory.critic_next.copy_(hidden[-2].view_as(memory.critic))
    value = critic.out(hidden).view(r.length + 1, *r.reward.shape[1:])
    cut = _cut(r)
    final_value = torch.zeros(r.valid.numel(), device=r.device)
    final = _final(r, cut, normalizer, outlook)
    final_value[cut] = critic.step(final, hidden[:-1].flatten(0, 1)[cut])[0].squeeze(-1)
    advantage, returns, known = _estimate(r, value[:-1], value[-1], final_value, c)
    if c.normalize_advantage:
        advantage = torch.zeros_like(advantage).masked_scatter_(known, descent.normalized(advantage[known]))
    steps = {"advantage": advantage, "returns": returns, "valid": known}
    steps["action"] = r.action.masked_fill(~known.view(*known.shape, *[1] * (r.action.dim() - known.dim())), 0)
    steps |= {"log_prob": r.log_prob.masked_fill(~known, 0.0), "value": value[:-1].masked_fill(~known, 0.0)}
    if r.mask is not None:
        steps["mask"] = r.mask[:-1]
    batch = {name: tensor.flatten(1, 2) for name, tensor in steps.items()}
    batch |= {"raw_obs": raw_obs, "obs": obs, "begins": begins[:-1]}
    batch = {name: tensor.transpose(0, 1) for name, tensor in batch.items()}
    batch |= {"rows": everyone, **{f"memory_{name}": start for name, start in before.items()}}
    if states is not None:
        batch |= {"states": states[:, :-1], "agent": everyone}
    return batch


def _estimate(
    r: Rollout, value: Tensor, last_value: Tensor, final_value: Tensor, c: ActorCriticConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Advantages, returns and which decisions have them, all (T, E, n)."""
    steps = (r.reward * c.reward_scale, value, last_value, r.terminated, r.truncated)
    if r.to_move is None:
        advantage, returns = gae(*steps, final_value.view_as(value), r.valid, c.gamma, c.gae_lambda)
        return advantage, returns, r.valid
    return gae_by_turns(*steps, r.valid, r.to_move, c.gamma, c.gae_lambda)


def _states(r: Rollout) -> Tensor:
    """(T + 1, E, S)."""
    if r.state is None:
        raise ConfigError("a critic on the global state: expected act(..., state=...), got no state")
    return r.state


def _cut(r: Rollout) -> Tensor:
    """Which of the T * E * n steps cut an agent's episode, and so lead to an observation that has to be valued."""
    return (r.final_slot.flatten() < r.capacity).nonzero().squeeze(-1)


def _final(r: Rollout, cut: Tensor, normalizer: ObservationNormalizer, outlook: Outlook | None) -> Tensor:
    """What the critic values of the steps that cut."""
    if outlook is None:
        return normalizer(r.final_obs[r.final_slot.flatten()[cut]])
    if r.final_state is None:
        if len(cut):
            raise ConfigError("an episode was cut, but the state it was cut in is not kept: set time_limit=termination")
        return torch.zeros((0, outlook.width), device=r.device)
    return outlook(r.final_state.flatten(0, 1), cut)
