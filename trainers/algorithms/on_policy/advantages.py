"""Training batches of actor-critic learners: the decisions of a rollout with values and advantages.

Feedforward learners use rows, recurrent ones whole sequences. Minibatches index the first axis of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.actor_critic import ActorCritic, ActorCriticConfig, CriticInput
from trainers.algorithms.on_policy.estimators import Estimates, Steps
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.buffers.recurrent_state import RecurrentState
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.action_heads import Head
from trainers.models.networks import Network, polyak_update, target_copy
from trainers.models.normalization import ObservationNormalizer

WHOLE = ("raw_obs", "states", "rows")
"""Entries of a batch that are not split into minibatches."""
SLICE_ROWS = 2**20
"""Largest number of rows that networks value at once."""


class ReferencePolicy(NamedTuple):
    """Policy that V-trace values, or that a loss compares with the present one: another, or the present one itself."""

    actor: Network
    """Network of the policy; its inputs are normalized observations."""
    head: Head
    """Action head."""

    @classmethod
    def copy(cls, net: ActorCritic) -> ReferencePolicy:
        """Return a copy of the present policy, without gradients."""
        return cls(target_copy(net.actor), target_copy(net.head))

    @torch.no_grad()
    def follow(self, net: ActorCritic, tau: float) -> None:
        """Move the weights a share `tau` of the way towards those of the present policy; 1 copies them."""
        polyak_update(self.actor, net.actor, tau)
        polyak_update(self.head, net.head, tau)


def explained_variance(batch: dict[str, Tensor], reducer: GradientReducer) -> Tensor:
    """Return the share of the returns' variance explained by the critic, a scalar: at most 1, and 0 for a constant."""
    returns, value, valid = batch["returns"], batch["value"], batch.get("valid")
    return 1 - reducer.variance(returns - value, valid) / (reducer.variance(returns, valid) + 1e-8)


def minibatch(batch: dict[str, Tensor], chosen: Tensor | None, critic_input: CriticInput | None) -> dict[str, Tensor]:
    """Return the given rows (B,), or sequences, of a batch (None: all); "seen" is the input of the critic."""
    part = {name: tensor for name, tensor in batch.items() if name not in WHOLE}
    if chosen is not None:
        part = {name: tensor[chosen] for name, tensor in part.items()}
    part["seen"] = part["obs"] if critic_input is None else critic_input(batch["states"], part["agent"])
    return part


def forward_batch(net: Network, x: Tensor, part: dict[str, Tensor], role: str) -> Tensor:
    """Return the outputs of actor or critic for rows (N, D), or for sequences (N, T, D) with gradients through time."""
    if "episode_starts" not in part:
        return net(x, part.get("mask"))
    begins, advances = part["episode_starts"].transpose(0, 1), part.get("advances")
    advances = None if advances is None else advances.transpose(0, 1)
    mask = part["mask"].transpose(0, 1) if "mask" in part else None
    return net.unroll(x.transpose(0, 1), part[f"memory_{role}"], begins, advances, mask)[0].transpose(0, 1)


def compute_in_slices(function: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
    """Call a function with a slice of the rows of tensors (N, ...), or None, at a time; return its results (N, ...).

    The hidden layers of all rows of 2^20 worlds at once do not fit into the memory of a GPU.
    """
    count = max(len(tensor) for tensor in tensors if tensor is not None)
    slices = [slice(start, start + SLICE_ROWS) for start in range(0, max(count, 1), SLICE_ROWS)]
    results = [function(*(None if tensor is None else tensor[part] for tensor in tensors)) for part in slices]
    return results[0] if len(results) == 1 else torch.cat(results)


def unroll_in_slices(
    net: Network,
    x: Tensor,
    hidden: Tensor,
    begins: Tensor,
    advances: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Unroll a slice of the N sequences at a time, see `Network.unroll` and `compute_in_slices`."""
    size, count = max(SLICE_ROWS // len(x), 1), x.shape[1]
    results = [
        net.unroll(
            x[:, part], hidden[part], begins[:, part], *(t if t is None else t[:, part] for t in (advances, mask))
        )
        for part in (slice(start, start + size) for start in range(0, count, size))
    ]
    if len(results) == 1:
        return results[0]
    outputs, states = zip(*results, strict=True)
    return torch.cat(outputs, 1), torch.cat(states, 1)


@torch.no_grad()
def row_batch(
    r: RolloutBuffer,
    net: ActorCritic,
    c: ActorCriticConfig,
    reducer: GradientReducer = LOCAL_REDUCER,
    fixed_shapes: bool = False,
    valued: ReferencePolicy | None = None,
) -> dict[str, Tensor]:
    """Value the rollout and return its decisions, tensors (N, ...).

    With `valued`, "log_prob" is the log-probability of the actions under that policy, which V-trace values; it is at
    most twice as improbable as at sampling.

    The host synchronizes with the device to count final observations and the N valid decisions. With `fixed_shapes` it
    does not: N is T * E * n, and "valid" (N,) marks the valid decisions.
    """
    normalizer, critic, critic_input = net.normalizer, net.critic, net.critic_input
    slots = r.capacity if fixed_shapes else r.check()
    decided = (r.valid if r.to_move is None else r.valid & r.to_move[:-1]).flatten()
    if fixed_shapes:
        rows = torch.arange(decided.numel(), device=r.device)
        raw_obs = r.obs.flatten(0, 2).masked_fill(~decided.unsqueeze(-1), 0.0)
    else:
        rows = decided.nonzero().squeeze(-1)
        raw_obs = r.obs.flatten(0, 2)[rows]
    obs = normalizer(raw_obs)
    states = None if critic_input is None else _states(r).flatten(0, 1)
    if critic_input is None or states is None:
        values, last_value = (
            compute_in_slices(critic, obs),
            compute_in_slices(critic, normalizer(r.last_obs.flatten(0, 1))),
        )
    else:

        def value_of(rows: Tensor) -> Tensor:
            return critic(critic_input(states, rows))

        all_agents = torch.arange(r.valid[0].numel(), device=r.device)
        values, last_value = (
            compute_in_slices(value_of, rows),
            compute_in_slices(value_of, r.valid.numel() + all_agents),
        )
    values, last_value = values.squeeze(-1), last_value.view_as(r.reward[0])
    value = torch.zeros(r.valid.numel(), device=r.device).index_copy_(0, rows, values).view_as(r.reward)
    final_value = _spread(r, compute_in_slices(critic, _final(r, slots, normalizer, critic_input)).squeeze(-1))
    log_prob, log_ratio = r.log_prob, None
    if valued is not None:
        mask = None if r.mask is None else r.mask[:-1].flatten(0, 2)[rows]

        def log_prob_of(obs: Tensor, action: Tensor, mask: Tensor | None) -> Tensor:
            return valued.head.evaluate(valued.actor(obs, mask), action, mask)[0]

        new_log_prob = compute_in_slices(log_prob_of, obs, r.action.flatten(0, 2)[rows], mask)
        log_prob, log_ratio = _under(
            r, torch.zeros(r.valid.numel(), device=r.device).index_copy_(0, rows, new_log_prob)
        )
    advantage, returns, is_known, ratio = _estimate(r, value, last_value, final_value, c, log_ratio)
    if is_known is not r.valid and not fixed_shapes:
        keep = is_known.flatten()[rows]
        rows, raw_obs, obs, values = rows[keep], raw_obs[keep], obs[keep], values[keep]
    valid = is_known.flatten() if fixed_shapes else None
    advantage = advantage.flatten()[rows]
    if c.normalize_advantage:
        advantage = reducer.normalize(advantage, valid, None if ratio is None else ratio.flatten()[rows])
    batch = {"raw_obs": raw_obs, "obs": obs, "advantage": advantage, "returns": returns.flatten()[rows], "rows": rows}
    batch |= {"action": r.action.flatten(0, 2)[rows], "log_prob": log_prob.flatten()[rows], "value": values}
    if valid is not None:
        batch["valid"] = valid
    if r.mask is not None:
        batch["mask"] = r.mask[:-1].flatten(0, 2)[rows]
    if states is not None:
        batch |= {"states": states, "agent": rows}
    return batch


@torch.no_grad()
def sequence_batch(
    r: RolloutBuffer,
    net: ActorCritic,
    recurrent_state: RecurrentState,
    c: ActorCriticConfig,
    reducer: GradientReducer = LOCAL_REDUCER,
    fixed_shapes: bool = False,
    valued: ReferencePolicy | None = None,
) -> dict[str, Tensor]:
    """Value the rollout and return every agent's T steps as a sequence, tensors (E * n, T, ...).

    "log_prob" is as in `row_batch`.

    "valid" marks the decisions to learn from; other entries are zero. Steps between an agent's turns stay in its
    sequence; "advances" marks those that update its hidden state, if agents take turns. Only without `fixed_shapes` the
    host synchronizes with the device.
    """
    normalizer, critic, critic_input = net.normalizer, net.critic, net.critic_input
    slots = r.capacity if fixed_shapes else r.check()
    agents = r.valid[0].numel()
    alive = r.valid.flatten(1).unsqueeze(-1)
    raw_obs = r.obs.flatten(1, 2).masked_fill(~alive, 0.0)  # (T, E * n, D)
    obs = normalizer(raw_obs)
    begins = r.episode_starts.repeat_interleave(agents // r.episode_starts.shape[1], dim=1)
    states = None if critic_input is None else _states(r).transpose(0, 1)  # (E, T + 1, S)
    all_agents = torch.arange(agents, device=r.device)
    if critic_input is None or states is None:
        critic_obs = torch.cat([obs, normalizer(r.last_obs).flatten(0, 1).unsqueeze(0)])
    else:
        critic_obs = critic_input(states, all_agents).transpose(0, 1)
    # an agent that is dead stays dead until the next episode, which starts without a hidden state
    starts = {name: start.flatten(0, 1).masked_fill(~alive[0], 0.0) for name, start in recurrent_state.starts().items()}
    advances = None if r.advances is None else r.advances.flatten(1)
    value, hidden = unroll_in_slices(critic, critic_obs, starts["critic"], begins, advances)
    recurrent_state.critic_next.copy_(hidden[-2].view_as(recurrent_state.critic))
    value = value.view(r.length + 1, *r.reward.shape[1:])
    final = _final(r, slots, normalizer, critic_input)
    hidden_before = hidden[:-1].flatten(0, 1)[r.slot_rows(len(final))]
    final_value = _spread(r, compute_in_slices(lambda *x: critic.step(*x)[0], final, hidden_before).squeeze(-1))
    log_prob, log_ratio = r.log_prob, None
    if valued is not None:
        moves = None if advances is None else advances[:-1]
        mask = None if r.mask is None else r.mask[:-1]
        masks = None if mask is None else mask.flatten(1, 2)
        params = unroll_in_slices(valued.actor, obs, starts["actor"], begins[:-1], moves, masks)[0]
        log_prob, log_ratio = _under(r, valued.head.evaluate(params.view(*r.reward.shape, -1), r.action, mask)[0])
    advantage, returns, is_known, ratio = _estimate(r, value[:-1], value[-1], final_value, c, log_ratio)
    if c.normalize_advantage:
        ratios = None if ratio is None else ratio.flatten()
        normalized = reducer.normalize(advantage.flatten(), is_known.flatten(), ratios)
        advantage = normalized.view_as(advantage).masked_fill(~is_known, 0.0)
    steps = {"advantage": advantage, "returns": returns, "valid": is_known}
    steps["action"] = r.action.masked_fill(~is_known.view(*is_known.shape, *[1] * (r.action.dim() - is_known.dim())), 0)
    steps |= {"log_prob": log_prob.masked_fill(~is_known, 0.0), "value": value[:-1].masked_fill(~is_known, 0.0)}
    if r.mask is not None:
        steps["mask"] = r.mask[:-1]
    batch = {name: tensor.flatten(1, 2) for name, tensor in steps.items()}
    batch |= {"raw_obs": raw_obs, "obs": obs, "episode_starts": begins[:-1]}
    if advances is not None:
        batch["advances"] = advances[:-1]
    batch = {name: tensor.transpose(0, 1) for name, tensor in batch.items()}
    batch |= {"rows": all_agents, **{f"memory_{name}": start for name, start in starts.items()}}
    if states is not None:
        batch |= {"states": states[:, :-1], "agent": all_agents}
    return batch


def _estimate(
    r: RolloutBuffer,
    value: Tensor,
    last_value: Tensor,
    final_value: Tensor,
    c: ActorCriticConfig,
    log_ratio: Tensor | None,
) -> Estimates:
    """Return advantages, returns and the decisions that have them, all (T, E, n)."""
    reward = r.reward * c.reward_scale
    return c.estimate(
        Steps(reward, value, last_value, final_value, r.terminated, r.truncated, r.valid, r.to_move, log_ratio)
    )


def _under(r: RolloutBuffer, log_prob: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities under a policy and log-ratios to those at sampling, (T, E, n), from any shape of both.

    PPO divides by the first. A bound on the ratio of sampling to that policy, 2 in RLlib's APPO, limits the quotient.
    """
    log_prob = log_prob.view_as(r.log_prob)
    return torch.maximum(log_prob, r.log_prob - math.log(2.0)), log_prob - r.log_prob


def _states(r: RolloutBuffer) -> Tensor:
    """Return the states (T + 1, E, S)."""
    if r.state is None:
        raise ConfigError("a critic on the global state: expected act(..., state=...), got no state")
    return r.state


def _final(
    r: RolloutBuffer,
    slots: int,
    normalizer: ObservationNormalizer,
    critic_input: CriticInput | None,
) -> Tensor:
    """Return the critic's inputs (slots, ...) for the final observations of the steps that cut an episode."""
    if critic_input is None:
        return normalizer(r.final_obs[:slots])
    assert r.final_state is not None  # the buffer refuses transitions without it
    return critic_input(r.final_state.flatten(0, 1), r.slot_rows(slots))


def _spread(r: RolloutBuffer, values: Tensor) -> Tensor:
    """Return the values (slots,) of final observations at the steps that have one, (T, E, n); 0 elsewhere."""
    return torch.cat([values, values.new_zeros(1)])[r.final_slot.clamp(max=len(values))]
