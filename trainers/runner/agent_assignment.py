"""Seats: which agents a policy plays, and the learner behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from gpu_envs.joint import rows_index
from trainers import algorithms
from trainers.acting import Acting, ActingTogether
from trainers.agents import Agents, agents_of, members_of
from trainers.config import TrainConfig, members_by_policy
from trainers.learner import Central, Learner
from trainers.problem import Player, Problem
from trainers.rollout import Transition
from trainers.settings import derived_seed
from trainers.sharding import Shard


@dataclass
class Seat:
    """The agents that one policy plays, and the learner of that policy."""

    members: tuple[str, ...]
    """Groups, or agents where a group's agents have policies of their own."""
    agents: Agents
    """Their rows, spaces and masks."""
    learner: Learner
    """Learns from what they do."""
    whole: WholeWorld
    """What its critic sees."""


@dataclass
class Part:
    """Agents that are asked at once, those of one seat or of several, and what answers for them."""

    agents: Agents
    """Rows, spaces and masks of those who are asked."""
    answers: Learner | ActingTogether
    """A seat's learner, or several in one batch."""
    whole: WholeWorld
    """What critics see."""

    def start(self) -> None:
        """Begins a rollout."""
        if isinstance(self.answers, ActingTogether):
            self.answers.start()

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Asks for actions and writes them into those of all agents, (E, A[, K])."""
        mask, to_move = self.agents.mask(info.get("action_mask")), self._to_move(info)
        obs = core.obs[:, self.agents.rows, : self.agents.width]
        self.agents.put(self.answers.act(obs, mask, to_move, self.whole.now()), into)

    def observe(self, core: Core, info: Mapping[str, Tensor], action: Tensor, restarted: Tensor, valid: Tensor) -> None:
        """Hands over the agents' part of the step that all agents' actions (E, A[, K]) led to.

        What is not `valid` (E, A) is not learned from: agents that were dead before the step, or played by others.
        """
        rows, width = self.agents.rows, self.agents.width
        self.answers.observe(
            Transition(
                reward=core.reward[:, rows],
                terminated=core.terminated[:, rows],
                truncated=core.truncated[:, rows],
                valid=valid[:, rows],
                next_obs=core.obs[:, rows, :width],
                final_obs=core.final_obs[:, rows, :width],
                next_mask=self.agents.mask(info.get("action_mask")),
                next_to_move=self._to_move(info),
                restarted=restarted,
                next_state=self.whole.now(),
                final_state=self.whole.final(),
                joint_action=action if self.whole.kind == "joint" else None,
            )
        )

    def _to_move(self, info: Mapping[str, Tensor]) -> Tensor | None:
        return info["to_move"][:, self.agents.rows] if "to_move" in info else None


class WholeWorld:
    """What centralised critics see of a core, now and at the end of episodes."""

    def __init__(self, core: Core, kind: Central) -> None:
        """`kind` as `Learner.central`.

        Raises:
            ConfigError: The environment has a global state of its own, which is lost where an autoreset follows, and
                cuts episodes, whose last state has to be valued.
        """
        self.core, self.kind = core, kind
        self.own = kind == "state" and core.definition.global_state_size > 0
        if self.own and getattr(core.config, "time_limit", "truncation") == "truncation":
            raise ConfigError(
                f"{core.id}: a critic on the global state needs a time limit that terminates, as the state in which an "
                "episode is cut is not kept; set time_limit=termination"
            )
        self.width = 0 if kind is None else core.state().shape[1]
        if kind == "joint":
            self.width = core.num_agents * core.obs_width
        self.columns = _columns(core) if kind == "state" and not self.own else None

    def now(self) -> Tensor | None:
        """(E, S): the global state, or all agents' padded observations."""
        if self.kind is None:
            return None
        return self.core.state() if self.kind == "state" else self.core.obs.flatten(1)

    def final(self) -> Tensor | None:
        """(E, S) before an autoreset, defined where agents were truncated in this step; None where there is no such."""
        if self.kind is None or self.own:
            return None
        core = self.core
        done = (core.terminated | core.truncated).unsqueeze(-1)
        others = core.obs.masked_fill((core.steps == 0)[:, None, None], 0.0)  # still there, or zeros since they left
        flat = torch.where(done, core.final_obs, others).flatten(1)
        return flat if self.columns is None else flat[:, self.columns]


def _columns(core: Core) -> Tensor | None:
    """Which columns of all agents' padded observations are in `core.state()`; None: all."""
    widths = [core.observation_spaces[name].shape[0] for name in core.possible_agents]
    if set(widths) == {core.obs_width}:
        return None
    columns = [row * core.obs_width + i for row, width in enumerate(widths) for i in range(width)]
    return torch.tensor(columns, device=core.device)


def make_seats(
    config: TrainConfig, core: Core, learning: Collection[str] | None = None, shard: Shard | None = None
) -> dict[str, Seat]:
    """One seat per policy, in the order of the environment's groups; of those in `learning` only, unless it is None.

    Raises:
        ConfigError: Critics judge the actions of all learners, and some policies are to have none.
    """
    make = algorithms.find(config.algorithm).learner_type
    central: Central = getattr(config.learner, "central", None) or getattr(make, "central", None)
    sides = members_by_policy(config, core)
    whole, players = WholeWorld(core, central), _players(core, sides)
    seats = {}
    for index, (name, members) in enumerate(sides.items()):
        if learning is not None and name not in learning:
            if central == "joint":
                raise ConfigError(
                    f"algorithm = {config.algorithm!r}: its critics need a learner of every policy; see ppo"
                )
            continue
        agents = agents_of(core, members)
        problem = Problem(
            agents.width,
            agents.space,
            core.num_envs,
            len(members_of(core, members)),
            config.total_steps,
            core.device,
            seed=derived_seed(config.seed, index),  # a stream of its own for every learner
            time_limit=core.definition.max_steps,
            state_width=whole.width,
            masked=core.action_mask is not None,
            turns=core.to_move is not None,
            players=players,
            policy=name,
            shard=shard,
        )
        seats[name] = Seat(tuple(members), agents, make(config.learner, problem), whole)
    if central == "joint":
        learners = {name: seat.learner for name, seat in seats.items()}
        for seat in seats.values():
            seat.learner.meet(learners)
    return seats


def make_parts(seats: Mapping[str, Seat], core: Core) -> list[Part]:
    """Who is asked at once: the seats of actor-critics of one shape, with equally many agents each; others alone."""
    crews: dict[str, list[tuple[Seat, Acting]]] = {}
    parts: list[Part] = []
    for seat in seats.values():
        acting = getattr(seat.learner, "acting", None)
        if isinstance(acting, Acting) and acting.spec["body"] != "cnn":
            crews.setdefault(f"{acting.spec} {acting.rollout.reward.shape}", []).append((seat, acting))
        else:
            parts.append(Part(seat.agents, seat.learner, seat.whole))
    for crew in crews.values():
        first = crew[0][0]
        if len(crew) == 1:
            parts.append(Part(first.agents, first.learner, first.whole))
            continue
        rows = [row for seat, _ in crew for row in members_of(core, seat.members)]
        agents = dataclasses.replace(first.agents, rows=rows_index(rows, core.device))
        parts.append(Part(agents, ActingTogether([acting for _, acting in crew]), first.whole))
    return parts


def _players(core: Core, sides: Mapping[str, Sequence[str]]) -> tuple[Player, ...]:
    """All agents in their order, with the policy of each."""
    found = {}
    for name, members in sides.items():
        agents = agents_of(core, members)
        for place, row in enumerate(members_of(core, members)):
            found[row] = Player(row, name, agents.width, agents.space, place)
    return tuple(found[row] for row in range(core.num_agents))
