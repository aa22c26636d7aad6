"""How actor-critics act, and keep what comes of it: each for itself, or those of one shape in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trainers.actor_critic import ActorCritic, ActorCriticConfig
from trainers.advantages import by_rows, by_sequences, take_in
from trainers.crew import Crew
from trainers.learner import ALONE, Descent, State
from trainers.memory import Memory
from trainers.problem import Problem
from trainers.rollout import PER_WORLD, Rollout, Rollouts, Transition, final_rows
from trainers.streams import of_shard


class Acting:
    """Networks, rollout, and memories, if any, of one learner of an actor-critic."""

    def __init__(self, config: ActorCriticConfig, problem: Problem) -> None:
        """Builds them."""
        self.config, self.device = config, torch.device(problem.device)
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        self.stream = of_shard(self.generator, problem.shard)
        self.num_envs_total = problem.num_envs_total
        self.net = net = ActorCritic(config, problem, config.action(problem.action_space))
        self.spec, self.normalizer, self.actor, self.head = net.spec, net.normalizer, net.actor, net.head
        shape, length = (problem.num_envs, problem.num_agents), config.rollout_length
        self.rollout = Rollout(
            length,
            shape,
            problem.obs_width,
            net.head.action_shape,
            net.head.action_dtype,
            capacity=final_rows(length, problem.time_limit, shape[0] * shape[1], config.truncation_capacity),
            device=self.device,
        )
        self.memory = Memory(shape, net.actor, net.critic, self.device) if config.body == "gru" else None

    @torch.no_grad()
    def act(self, obs: Tensor, mask: Tensor | None, to_move: Tensor | None, state: Tensor | None) -> Tensor:
        """Samples actions (E, n) or (E, n, K); arguments as `Learner.act`."""
        obs, mask = self.rollout.begin(obs, mask, to_move, state)
        seen = self.normalizer(obs)
        params = self.actor(seen) if self.memory is None else self.memory.step(self.actor, seen, self.rollout)
        action, log_prob = self.head.sample(params, self.stream, mask)
        self.rollout.decide(action, log_prob)
        return self.head.to_env(action)

    def batch(self, descent: Descent = ALONE) -> dict[str, Tensor]:
        """The rollout's decisions, valued: see `by_rows` and `by_sequences`. The host waits for the device here."""
        if self.memory is None:
            return by_rows(self.rollout, self.net, self.config, descent)
        return by_sequences(self.rollout, self.net, self.memory, self.config, descent)

    def take_in(self, batch: dict[str, Tensor], total: Callable[[Tensor], Tensor]) -> None:
        """Brings the normalisers up to date, after gradient steps; `total` as `Descent.sum`."""
        if self.config.normalize_obs:
            take_in(batch, self.rollout, self.net, total)

    def next_rollout(self) -> int:
        """Forgets the rollout; returns how many steps it had, those of other ranks' worlds included."""
        self.rollout.clear()
        if self.memory is not None:
            self.memory.next_rollout()
        return self.rollout.length * self.num_envs_total

    def state_dict(self) -> State:
        """What goes over from one rollout to the next, beside networks and generator."""
        return {} if self.memory is None else self.memory.state_dict(self.rollout)

    def load_state_dict(self, state: State) -> None:
        """Puts back what `state_dict` gave."""
        self.rollout.clear()
        if self.memory is not None:
            self.memory.load_state_dict(state, self.rollout)


class ActingTogether:
    """P learners of one shape that act in one batched call, and keep what comes of it in one write.

    What it gets and gives is of all their agents, (E, P * n). Each learner's rollout, memories and random stream stay
    its own, and hold what they would if it acted alone, but for how a batched product rounds.
    """

    def __init__(self, members: Sequence[Acting]) -> None:
        """Moves the members' rollouts and memories to where they lie side by side."""
        self.crew, self.streams = Crew(members), [member.stream for member in members]
        self.rollout = Rollouts([member.rollout for member in members])
        memories = [member.memory for member in members if member.memory is not None]
        self.memory = torch.stack([memory.actor_next for memory in memories]) if memories else None
        for place, memory in enumerate(memories):
            assert self.memory is not None
            memory.actor_next = self.memory[place]

    def start(self) -> None:
        """Begins a rollout with what the learners have learned."""
        self.crew.refresh()
        self.rollout.rewind()

    @torch.no_grad()
    def act(self, obs: Tensor, mask: Tensor | None, to_move: Tensor | None, state: Tensor | None) -> Tensor:
        """Samples actions (E, P * n[, K]); arguments as `Learner.act`."""
        obs, mask = self.rollout.begin(
            self._apart(obs),
            None if mask is None else self._apart(mask),
            None if to_move is None else self._apart(to_move),
            None if state is None else self._each(state),
        )
        if self.memory is not None:
            self.memory.masked_fill_(self.rollout.begins[self.rollout.t][..., None, None], 0.0)
        action, log_prob = self.crew.sample(obs, mask, self.streams, self.memory)
        self.rollout.decide(action, log_prob)
        return self.crew.head.to_env(action).transpose(0, 1).flatten(1, 2)

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        given = {field.name: getattr(transition, field.name) for field in dataclasses.fields(transition)}
        self.rollout.end(
            Transition(
                **{
                    name: self._each(value) if name in PER_WORLD else self._apart(value)
                    for name, value in given.items()
                    if value is not None
                }
            )
        )

    def _apart(self, value: Tensor) -> Tensor:
        """(E, P * n, ...) -> (P, E, n, ...)."""
        return value.unflatten(1, (self.crew.size, -1)).transpose(0, 1)

    def _each(self, value: Tensor) -> Tensor:
        """(E, ...) -> (P, E, ...)."""
        return value.expand(self.crew.size, *value.shape)
