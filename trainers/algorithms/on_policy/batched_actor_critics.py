"""Acting of several actor-critic learners in one batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.base.random_streams import SingleStream
from trainers.base.transition import PER_WORLD, Transition
from trainers.buffers.rollout_buffer import BatchedRolloutBuffer
from trainers.models.batched_policies import BatchedPolicies


class BatchedActorCritics:
    """P learners of one shape that act in one batched call and store results in one write.

    Inputs and outputs cover all their agents, (E, P * n). Each learner keeps its own rollout, hidden states and random
    stream. They hold the values of separate calls, except for the rounding of batched products.
    """

    def __init__(self, members: Sequence[ActorCriticLearner]) -> None:
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
