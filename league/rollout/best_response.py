"""Best responses, learned: any algorithm of `trainers` against a distribution over opponents."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.seating import LEARNER, Draw, Seating, Tally
from trainers.checkpoint import Checkpoint
from trainers.collector import Collector
from trainers.config import TrainConfig
from trainers.learner import Learner, State, moved, part_of
from trainers.logs import Progress
from trainers.policy import Plays, Policy
from trainers.settings import derived_seed

Start = Policy | Checkpoint | State
"""Whose weights a learner starts from: a policy, a checkpoint of a training, or what `Learner.state_dict` gave."""
SEATING = 1008
"""Which of a run's streams the seating has, see `derived_seed`; learners have the first ones."""


class Training:
    """Learners in the worlds of a game, together with whom a draw seats there.

    One learner for each role that the draw seats a learner of. It plays all seats of its role at once; what others
    play there is not learned from. The draw may change between two iterations (`seating.replace`).
    """

    def __init__(
        self,
        game: Game,
        draw: Draw,
        pools: Mapping[str, Sequence[Plays]],
        config: TrainConfig,
        start: Mapping[str, Start] | None = None,
        even: float = 0.0,
    ) -> None:
        """Builds worlds and learners and seats the first matchups.

        Args:
            game: What is played.
            draw: Who sits where.
            pools: Policies by role, as in `Seating`.
            config: How learners learn; environment and names of policies are the game's.
            start: By role, whose weights its learner begins with; the rest of it (optimiser, replay) begins afresh.
            even: Of two seats: by how much the first earns more than the second in a draw.

        Raises:
            ConfigError: Something of these does not fit the others.
        """
        self.game, self.config = game, settled(game, config)
        self.core = game.core(config.num_envs, config.device, config.seed)
        self.seating = Seating(self.core, game, draw, pools, derived_seed(config.seed, SEATING), even)
        if not self.seating.learners:
            raise ConfigError(f"{game.env_id}: the draw seats no learner, expected {LEARNER} in some matchup")
        self.collector = Collector(self.config, self.core, self.seating)
        for role, weights in (start or {}).items():
            begin_from(self.learner(role), weights, role)
        self.iteration, self.steps = 0, 0
        self.tallies: list[Tally] = []

    def learner(self, role: str) -> Learner:
        """The learner of a role; ConfigError where it has none."""
        if role not in self.collector.seats:
            raise ConfigError(
                f"{self.game.env_id}: role {role!r} has no learner, only {', '.join(self.seating.learners)}"
            )
        return self.collector.seats[role].learner

    def iterate(self) -> dict[str, float]:
        """One rollout and one update of every learner; returns their metrics as "role/metric".

        "return" and "score" are those of learning seats in the episodes that ended, NaN if none did.

        Raises:
            GpuEnvsError: Losses, gradients or parameters are no longer finite.
        """
        self.collector.collect()
        metrics = self.collector.update(self.iteration + 1, lambda: "nothing of this training was kept")
        self.iteration, self.steps = self.iteration + 1, self.steps + self.config.rollout_steps
        tally = self.seating.read()
        self.tallies.append(tally)
        phases = {f"time/{phase}": seconds for phase, seconds in self.collector.clock.read().items()}
        return {**metrics, **phases, "return": tally.mean_return(), "score": tally.mean_score()}

    def tally(self) -> Tally:
        """What all episodes so far gave, by matchup."""
        self.tallies = [Tally.sum([*self.tallies, self.seating.read()])]
        return self.tallies[0]

    def state_dict(self) -> State:
        """All that the next iteration depends on, but the policies of others and what episodes gave so far."""
        return {**self.collector.state_dict(), "training.iteration": self.iteration, "training.steps": self.steps}

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`, with the same policies of others; CheckpointError where it does not fit."""
        counters = part_of(state, "training.")
        if not all(isinstance(counters.get(name), int) for name in ("iteration", "steps")):
            raise CheckpointError(f"training: expected iteration and steps as integers, got {counters!r:.80}")
        self.collector.load_state_dict({k: v for k, v in state.items() if not k.startswith("training.")})
        self.iteration, self.steps = counters["iteration"], counters["steps"]


@dataclass(frozen=True)
class Response:
    """A learned best response."""

    policy: Policy
    """Frozen."""
    state: State
    """All of its learner: what a later response may begin with, or go on from."""
    tally: Tally
    """Episodes and what they gave while it was learning, by matchup."""
    steps: int
    """Of worlds."""
    seconds: float
    """Of the training, building it included."""

    @property
    def episodes(self) -> int:
        """Episodes that ended."""
        return int(self.tally.count.sum())


def respond(
    game: Game,
    role: str,
    draw: Draw,
    pools: Mapping[str, Sequence[Plays]],
    train: TrainConfig,
    start: Start | None = None,
    seed: int | None = None,
    steps: int | None = None,
    until: Callable[[dict[str, float]], bool] | None = None,
    progress: Progress | None = None,
) -> Response:
    """Trains a best response of a role.

    Args:
        game: What is played.
        role: Who learns.
        draw: Against whom, see `Draw.against`.
        pools: Policies by role, as in `Seating`.
        train: Algorithm, worlds, steps, device.
        start: Whose weights to begin with; None: from scratch. Of a learner's state (`Response.state`) all goes on, its
            optimiser and its schedules too, if `steps` are given.
        seed: Of everything; None: `train.seed`. The same seed gives the same policy, bit for bit on a CPU.
        steps: For how long, of worlds; None: `train.total_steps`, at which schedules end in any case.
        until: Called with the row of every iteration (see `Training.iterate`, and "steps"); True ends the training.
        progress: Called after every iteration.

    Raises:
        ConfigError: Something of these does not fit the others.
        GpuEnvsError: The training has diverged.
    """
    began = time.perf_counter()
    config = train if seed is None else dataclasses.replace(train, seed=seed)
    config.prepare()
    with config.in_force():
        going_on = start if steps is not None and isinstance(start, dict) else None
        begins = None if start is None or going_on is not None else {role: start}
        training = Training(game, draw, pools, config, begins)
        learner = training.learner(role)
        if training.seating.learners != (role,):
            others = ", ".join(each for each in training.seating.learners if each != role)
            raise ConfigError(
                f"role {role}: expected it to be the only one that learns, but the draw seats {others}, too"
            )
        if going_on is not None:
            learner.load_state_dict(moved(going_on, config.device))
        while training.steps < (config.total_steps if steps is None else steps):
            row = {**training.iterate(), "steps": training.steps}
            if progress is not None:
                progress(training.steps, f"{role}: return {row['return']:.3f}  score {row['score']:.2f}")
            if until is not None and until(row):
                break
        seconds = time.perf_counter() - began
        return Response(learner.policy(), learner.state_dict(), training.tally(), training.steps, seconds)


def settled(game: Game, config: TrainConfig) -> TrainConfig:
    """A training of a game: one policy per role; ConfigError where the configuration is of something else."""
    if config.env_id != game.env_id or (config.env and config.env != dict(game.env)):
        raise ConfigError(
            f"train: expected the environment of the game, {game.env_id} {dict(game.env)}, got {config.env_id}"
        )
    for name in ("policies", "patience", "until_return", "eval_against"):
        if getattr(config, name):
            raise ConfigError(f"train.{name} = {getattr(config, name)!r}: expected none, as a league decides that")
    if game.shared and getattr(config.learner, "mixer", None):
        raise ConfigError(f"algorithm = {config.algorithm!r}: it takes all seats for one team; use ppo or dqn")
    policies = {member: seat.role for seat in game.seats for member in seat.members}
    return dataclasses.replace(config, env=dict(game.env), policies=policies)


def begin_from(learner: Learner, start: Start, role: str) -> None:
    """Gives a learner the weights of another, or of a policy: normaliser and actor, and the critic where it is known.

    Raises:
        ConfigError: They are of another shape.
    """
    if isinstance(start, Policy):
        given: Mapping[str, object] = start.net.state_dict()
    elif isinstance(start, Checkpoint):
        name = role if any(key.startswith(f"learner.{role}.") for key in start.state) else start.name_of(None)
        given = part_of(start.state, f"learner.{name}.net.")
    else:
        given = part_of(start, "net.")
    used, own = set(), learner.net.state_dict()
    for name, value in own.items():
        found = name if name in given else _of_policy(name)
        weights = given.get(found)
        if not isinstance(weights, Tensor):
            continue
        if weights.shape != value.shape:
            wanted, got = tuple(value.shape), tuple(weights.shape)
            raise ConfigError(f"start: {role}: {found}: expected shape {wanted} as of the learner, got {got}")
        own[name] = weights
        used.add(found)
    if missing := given.keys() - used:
        raise ConfigError(
            f"start: {role}: the learner has no place for its {sorted(missing)[0]}; expected one of the same kind"
        )
    if not used:
        raise ConfigError(f"start: {role}: expected a policy, a checkpoint or a learner's state, found no weights")
    learner.net.load_state_dict(own)


def _of_policy(name: str) -> str:
    """Where a policy has what a learner keeps in several places: target networks start as the actor."""
    return re.sub(r"^(target|target_actor|learned\.actor)\.", "actor.", name)
