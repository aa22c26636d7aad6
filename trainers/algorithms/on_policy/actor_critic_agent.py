"""Acting and rollout storage of actor-critic learners, one at a time or several in one batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainers.algorithms.on_policy.actor_critic import ActorCritic, ActorCriticConfig
from trainers.algorithms.on_policy.advantages import ValuedPolicy, row_batch, sequence_batch, update_normalizers
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream, stream_of_shard
from trainers.base.state import State
from trainers.base.transition import PER_WORLD, Transition
from trainers.buffers.recurrent_state import RecurrentState
from trainers.buffers.rollout_buffer import BatchedRolloutBuffer, RolloutBuffer, final_obs_capacity
from trainers.models.action_heads import Head
from trainers.models.batched_policies import BatchedPolicies
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer

__all__ = ["ActorCriticAgent", "BatchedActorCriticAgents"]


class ActorCriticAgent:
    """Networks, rollout and optional hidden states of one actor-critic learner."""

    def __init__(self, config: ActorCriticConfig, spec: LearnerSpec) -> None:
        """Build networks, rollout and hidden states."""
        self.config: ActorCriticConfig = config
        self.device: torch.device = torch.device(spec.device)
        self.generator: torch.Generator = torch.Generator(self.device).manual_seed(spec.seed)
        self.stream: SingleStream = stream_of_shard(self.generator, spec.shard)
        self.num_envs_total: int = spec.num_envs_total
        self.net: ActorCritic
        net: ActorCritic
        self.net = net = ActorCritic(config, spec, config.action(spec.action_space))
        self.spec: dict[str, Any] = net.spec
        self.normalizer: ObservationNormalizer = net.normalizer
        self.actor: Network = net.actor
        self.head: Head = net.head
        shape, length = (spec.num_envs, spec.num_agents), config.rollout_length
        self.rollout: RolloutBuffer = RolloutBuffer(
            length,
            shape,
            spec.obs_width,
            net.head.action_shape,
            net.head.action_dtype,
            capacity=final_obs_capacity(length, spec.time_limit, shape[0] * shape[1], config.truncation_capacity),
            device=self.device,
        )
        self.valued: ValuedPolicy | None = None  # policy that V-trace values
        recurrent = config.network == "gru"
        if recurrent and spec.turn_based:
            self.rollout.track_turns()
        self.recurrent_state: RecurrentState | None = (
            RecurrentState(shape, net.actor, net.critic, self.device) if recurrent else None
        )

    @torch.no_grad()
    def act(self, obs: Tensor, mask: Tensor | None, to_move: Tensor | None, state: Tensor | None) -> Tensor:
        """Sample actions (E, n) or (E, n, K); arguments as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask, to_move, state)
        inputs = self.normalizer(obs)
        recurrent = self.recurrent_state
        params = self.actor(inputs) if recurrent is None else recurrent.step(self.actor, inputs, self.rollout)
        action, log_prob = self.head.sample(params, self.stream, mask)
        self.rollout.store_action(action, log_prob)
        return self.head.to_env(action)

    def batch(self, reducer: GradientReducer = LOCAL_REDUCER, fixed_shapes: bool = False) -> dict[str, Tensor]:
        """Return the rollout's decisions with values and advantages, see `row_batch` and `sequence_batch`.

        The host synchronizes with the device unless `fixed_shapes` is set.
        """
        if self.recurrent_state is None:
            return row_batch(self.rollout, self.net, self.config, reducer, fixed_shapes, self.valued)
        recurrent = self.recurrent_state
        return sequence_batch(self.rollout, self.net, recurrent, self.config, reducer, fixed_shapes, self.valued)

    def update_normalizer(self, batch: dict[str, Tensor], total: Callable[[Tensor], Tensor]) -> None:
        """Update the normalizers, after gradient steps; see `update_normalizers`."""
        if self.config.normalize_obs:
            update_normalizers(batch, self.rollout, self.net, total)

    def export_rollout(self) -> dict[str, Tensor]:
        """Return a copy of the complete rollout by name, and begin the next one.

        The buffers come from `RolloutBuffer.copies`, the first hidden states (E, n, H) of a GRU come with them.
        """
        tensors = self.rollout.copies()
        if self.recurrent_state is not None:
            self.batch()  # computes the critic's hidden states after the rollout
            tensors |= {f"hidden_{name}": start.clone() for name, start in self.recurrent_state.starts().items()}
        self.next_rollout()
        return tensors

    def load_rollout(self, tensors: Mapping[str, Tensor]) -> None:
        """Take a rollout that `export_rollout` of an agent with equal shapes returned, from any device."""
        starts = {} if self.recurrent_state is None else self.recurrent_state.starts()
        for name, start in starts.items():
            start.copy_(tensors[f"hidden_{name}"])
        self.rollout.load_copies({name: tensor for name, tensor in tensors.items() if not name.startswith("hidden_")})

    def next_rollout(self) -> int:
        """Clear the rollout and return its number of steps of all ranks."""
        self.rollout.clear()
        if self.recurrent_state is not None:
            self.recurrent_state.next_rollout()
        return self.rollout.length * self.num_envs_total

    def state_dict(self) -> State:
        """Return the state carried from one rollout to the next, without networks and generator."""
        return {} if self.recurrent_state is None else self.recurrent_state.state_dict(self.rollout)

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`."""
        self.rollout.clear()
        if self.recurrent_state is not None:
            self.recurrent_state.load_state_dict(state, self.rollout)


class BatchedActorCriticAgents:
    """P learners of one shape that act in one batched call and store results in one write.

    Inputs and outputs cover all their agents, (E, P * n). Each learner keeps its own rollout, hidden states and random
    stream. They hold the values of separate calls, except for the rounding of batched products.
    """

    def __init__(self, members: Sequence[ActorCriticAgent]) -> None:
        """Move the members' rollouts and hidden states into shared memory."""
        self.policies: BatchedPolicies = BatchedPolicies(members)
        self.streams: list[SingleStream] = [member.stream for member in members]
        self.rollout: BatchedRolloutBuffer = BatchedRolloutBuffer([member.rollout for member in members])
        recurrent_states = [member.recurrent_state for member in members if member.recurrent_state is not None]
        self.hidden_state: Tensor | None = (
            torch.stack([state.actor_next for state in recurrent_states]) if recurrent_states else None
        )
        for index, recurrent_state in enumerate(recurrent_states):
            assert self.hidden_state is not None
            recurrent_state.actor_next = self.hidden_state[index]

    def start(self) -> None:
        """Start a rollout with the learners' present weights."""
        self.policies.refresh()
        self.rollout.rewind()

    @torch.no_grad()
    def act(self, obs: Tensor, mask: Tensor | None, to_move: Tensor | None, state: Tensor | None) -> Tensor:
        """Sample actions (E, P * n[, K]); arguments as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(
            self._split(obs),
            None if mask is None else self._split(mask),
            None if to_move is None else self._split(to_move),
            None if state is None else self._expand(state),
        )
        t, advances = self.rollout.t, self.rollout.advances
        previous = None
        if self.hidden_state is not None:
            self.hidden_state.masked_fill_(self.rollout.episode_starts[t][..., None, None], 0.0)
            previous = None if advances is None else self.hidden_state.clone()
        action, log_prob = self.policies.sample(obs, mask, self.streams, self.hidden_state)
        if self.hidden_state is not None and advances is not None and previous is not None:
            self.hidden_state.copy_(torch.where(advances[t].unsqueeze(-1), self.hidden_state, previous))
        self.rollout.store_action(action, log_prob)
        return self.policies.head.to_env(action).transpose(0, 1).flatten(1, 2)

    def observe(self, transition: Transition) -> None:
        """Store the results of the last actions."""
        fields = {field.name: getattr(transition, field.name) for field in dataclasses.fields(transition)}
        self.rollout.end_step(
            Transition(
                **{
                    name: self._expand(value) if name in PER_WORLD else self._split(value)
                    for name, value in fields.items()
                    if value is not None
                }
            )
        )

    def _split(self, value: Tensor) -> Tensor:
        """Reshape (E, P * n, ...) to (P, E, n, ...)."""
        return value.unflatten(1, (self.policies.size, -1)).transpose(0, 1)

    def _expand(self, value: Tensor) -> Tensor:
        """Expand (E, ...) to (P, E, ...)."""
        return value.expand(self.policies.size, *value.shape)
