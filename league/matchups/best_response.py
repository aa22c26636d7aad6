"""Learned best responses: any algorithm of `trainers` against a distribution over opponents."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.progress import Progress
from league.game import Game
from league.matchups.data_parallel import ShardedOpponentSampler, gather_training, joined_shard, select_training
from league.matchups.episode_tally import EpisodeTally
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.matchups.opponent_sampler import OpponentSampler
from league.policies.kinds import StorablePolicy
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy, join_states, part_state
from trainers.algorithms.learner import Learner
from trainers.base.random_streams import derive_seed
from trainers.base.shard import Shard
from trainers.base.state import State, select_prefix, to_device
from trainers.config.train_config import TrainConfig
from trainers.distributed.checkpoint_state import gather_state, select_state
from trainers.models.policy import Policy, PolicyProtocol
from trainers.runner.collector import Collector
from trainers.runner.initial_weights import Start, begin_all, begin_from
from trainers.runner.learner_group import LearnerGroup

RoleStart = Start | TeamPolicy
"""Source of the initial weights of a role's learners."""
TRAININGS = 10
"""Number of trainings of a league that are assumed to share compiled kernels."""

OPPONENT_STREAM = 1008
"""Index of the random stream of the opponent sampler, see `derive_seed`; learners use the first indices."""


class BestResponseTraining:
    """Train the learners of a game against sampled opponents.

    Each role that the draw assigns to a learner has one learner, which plays all seats of the role at once. Steps of
    other policies in these seats are not training data. The draw can change between two iterations
    (`opponents.replace`). Seats whose agents differ in action space have one learner per part, see `TeamLearner`.
    """

    @torch.inference_mode(False)  # weights that are made in inference mode cannot be trained
    def __init__(
        self,
        game: Game,
        draw: MatchupDistribution,
        pools: Mapping[str, Sequence[PolicyProtocol]],
        config: TrainConfig,
        start: Mapping[str, RoleStart] | None = None,
        draw_margin: float = 0.0,
        shard: Shard | None = None,
    ) -> None:
        """Build worlds and learners, and sample the first matchups.

        Args:
            game: Game to play.
            draw: Distribution over matchups.
            pools: Policies by role, as in `OpponentSampler`.
            config: Training settings; environment and names of policies are replaced by the game's.
            start: Initial weights of the learner by role, which go before `config.init_from`. Its optimizer and its
                replay buffer start empty.
            draw_margin: Two seats: return difference (first minus second seat) that counts as a draw.
            shard: Share of this process in the worlds, if several train together; the result equals a single process's,
                except for the rounding of sums.

        Raises:
            ConfigError: The arguments do not fit together.
        """
        self.game: Game = game
        self.config: TrainConfig = settled(game, config)
        self.shard: Shard = shard or Shard.split(0, 1, config.num_envs)
        self.core: Core = game.core(self.shard.num_envs, config.device, config.seed, **self.shard.core_settings)
        seed = derive_seed(config.seed, OPPONENT_STREAM)
        self.opponents: OpponentSampler
        if self.shard.ranks == 1:
            self.opponents = OpponentSampler(self.core, game, draw, pools, seed, draw_margin)
        else:
            self.opponents = ShardedOpponentSampler(self.core, game, draw, pools, seed, draw_margin, self.shard)
        if not self.opponents.learners:
            raise ConfigError(f"{game.env_id}: expected {LEARNER} (the learner) in some matchup, got none")
        self.learners: LearnerGroup = LearnerGroup(
            self.config, self.core, self.opponents.learners, shard=shard, num_trainings=TRAININGS
        )
        self.collector: Collector = Collector(self.config, self.core, self.learners, self.opponents)
        begin_all(self.learners, self.config, skip=[name for role in start or () for name in game.learners_of(role)])
        for role, weights in (start or {}).items():
            _begin_role_from(self.learner(role), weights, role)
        self.iteration, self.steps = 0, 0
        self.tallies: list[EpisodeTally] = []

    def learner(self, role: str) -> Learner | TeamLearner:
        """Return the learner of a role; raise ConfigError if it has none."""
        if role not in self.opponents.roles:
            roles = ", ".join(self.opponents.roles)
            raise ConfigError(f"{self.game.env_id}: expected a role with a learner ({roles}), got {role!r}")
        names = self.game.learners_of(role)
        learners = [self.learners.assignments[name].learner for name in names]
        if len(learners) == 1:
            return learners[0]
        return TeamLearner(names, learners, [part.places for part in self.game.parts[self.game.seats_of(role)[0]]])

    def iterate(self) -> dict[str, float]:
        """Collect one rollout, update every learner, and return their metrics as "role/metric".

        "return" and "score" are means over the learning seats of the finished episodes, NaN without any.

        Raises:
            GpuEnvsError: Losses, gradients or parameters are not finite.
        """
        with self.config.in_force(self.learners.use_kernels):
            self.collector.collect()
            self.collector.timer.start()
            metrics = self.learners.update(self.iteration + 1, lambda: "nothing of this training was kept")
            self.collector.timer.mark("update")
        self.collector.raise_pending_errors()
        self.iteration, self.steps = self.iteration + 1, self.steps + self.config.rollout_steps
        tally = self.opponents.read()
        self.tallies.append(tally)
        phases = {f"time/{phase}": seconds for phase, seconds in self.collector.timer.read().items()}
        return {**metrics, **phases, "return": tally.mean_return(), "score": tally.mean_score()}

    def tally(self) -> EpisodeTally:
        """Return the sums of all episodes so far by matchup."""
        self.tallies = [EpisodeTally.sum([*self.tallies, self.opponents.read()])]
        return self.tallies[0]

    def state_dict(self) -> State:
        """Return the training state, without the opponents' policies and without the tally.

        It covers all worlds. If several processes train together, all call this, and only rank 0 gets it.
        """
        share: State = {**self.collector.state_dict(), **self.learners.state_dict()}
        state = gather_training(self.shard, share, self.core, self.learners.env_axes)
        return {**state, "training.iteration": self.iteration, "training.steps": self.steps}

    def learner_state(self, role: str) -> State:
        """Return the state of a role's learner, with the worlds of all ranks on rank 0; see `state_dict`."""
        states = []
        for name in self.game.learners_of(role):
            prefix = f"learner.{name}."
            state = self.learners.assignments[name].learner.state_dict()
            share: State = {f"{prefix}{key}": value for key, value in state.items()}
            states.append(select_prefix(gather_state(self.shard, share, self.core, self.learners.env_axes), prefix))
        return states[0] if len(states) == 1 else join_states(states)

    def load_learner_state(self, role: str, state: State) -> None:
        """Restore the complete state of a role's learner; raise CheckpointError if it does not fit."""
        names = self.game.learners_of(role)
        for number, name in enumerate(names):
            prefix, part = f"learner.{name}.", state if len(names) == 1 else part_state(state, number)
            learner_state: State = {f"{prefix}{key}": value for key, value in part.items()}
            share = select_state(self.shard, learner_state, self.core, self.learners.env_axes)
            self.learners.assignments[name].learner.load_state_dict(select_prefix(share, prefix))

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`, with equal opponents; raise CheckpointError if it does not fit."""
        counters = select_prefix(state, "training.")
        if not all(isinstance(counters.get(name), int) for name in ("iteration", "steps")):
            raise CheckpointError(f"training: expected iteration and steps as integers, got {counters!r:.80}")
        share = select_training(self.shard, state, self.core, self.learners.env_axes)
        self.collector.load_state_dict(share)
        self.learners.load_state_dict(share)
        self.iteration: int = counters["iteration"]
        self.steps: int = counters["steps"]


@dataclass(frozen=True)
class BestResponse:
    """A best response and the policies that were computed with it."""

    policy: StorablePolicy
    """Frozen policy."""
    extra_policies: Mapping[str, StorablePolicy] = field(default_factory=dict, kw_only=True)
    """Policies by role that join their populations together with this one."""
    record: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """JSON values to store with the response."""


@dataclass(frozen=True)
class LearnedResponse(BestResponse):
    """A best response of a learner."""

    policy: Policy | TeamPolicy
    """Frozen policy."""
    state: State
    """Complete state of the learner, from which a later response can start or resume."""
    tally: EpisodeTally
    """Training episodes and their returns by matchup."""
    steps: int
    """Environment steps of the training."""
    seconds: float
    """Duration of the training, building it included [s]."""

    @property
    def episodes(self) -> int:
        """Number of finished training episodes."""
        return int(self.tally.count.sum())


def train_best_response(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    role: str,
    draw: MatchupDistribution,
    train: TrainConfig,
    start: RoleStart | None = None,
    seed: int | None = None,
    steps: int | None = None,
    max_seconds: float | None = None,
    until: Callable[[dict[str, float]], bool] | None = None,
    progress: Progress | None = None,
    sharded: bool = False,
) -> LearnedResponse:
    """Train a best response of a role.

    Args:
        policies: Policies by role, as in `OpponentSampler`.
        game: Game to play.
        role: Role of the response.
        draw: Distribution of the opponents, see `MatchupDistribution.against`.
        train: Algorithm, number of environments, steps, device.
        start: Initial weights; None: random weights. With `steps`, a learner's state (`LearnedResponse.state`) is
            resumed completely, including its optimizer and schedules.
        seed: Random seed; None: `train.seed`. Equal seeds give equal policies, bit for bit on a CPU.
        steps: Environment steps to train; None: `train.total_steps`. Schedules end at `train.total_steps` in any case.
        max_seconds: Time limit of the training [s]; None: no limit.
        until: Stopping condition, called with the metrics of every iteration (see `BestResponseTraining.iterate`) and
            "steps"; True ends the training.
        progress: Called after every iteration.
        sharded: Train together with other processes, see `joined_shard`; rank 0 returns the response.

    Raises:
        ConfigError: The arguments do not fit together.
        GpuEnvsError: The training diverged.
    """
    began = time.perf_counter()
    config = train if seed is None else dataclasses.replace(train, seed=seed)
    config.prepare()
    with config.in_force():
        resumed = start if steps is not None and isinstance(start, dict) else None
        weights = None if start is None or resumed is not None else {role: start}
        shard = joined_shard(config, sharded)
        training = BestResponseTraining(game, draw, policies, config, weights, shard=shard)
        learner = training.learner(role)
        if training.opponents.roles != (role,):
            surplus = ", ".join(name for name in training.opponents.roles if name != role)
            raise ConfigError(f"role {role}: expected the only learner of the matchups, got learners of {surplus}, too")
        if resumed is not None:
            training.load_learner_state(role, to_device(resumed, config.device))
        while training.steps < (config.total_steps if steps is None else steps):
            row = {**training.iterate(), "steps": training.steps}
            if progress is not None:
                progress(training.steps, progress_text(role, row))
            if until is not None and until(row):
                break
            if max_seconds is not None:
                is_over = time.perf_counter() > began + max_seconds
                if training.shard.all_reduce_max(int(is_over)):  # clocks of ranks differ
                    break
        seconds = time.perf_counter() - began
        state = training.learner_state(role)
        return LearnedResponse(learner.policy(), state, training.tally(), training.steps, seconds)


def progress_text(role: str, row: Mapping[str, float]) -> str:
    """Return the metrics of an iteration for a progress bar; "-" for means over episodes if none has ended."""
    columns = (
        f"{name} {row[name]:.{digits}f}" if math.isfinite(row[name]) else f"{name} -"
        for name, digits in (("return", 3), ("score", 2))
    )
    return f"{role}: {'  '.join(columns)}"


_OWN = ("policies", "patience", "until_return", "eval_opponents", "num_actors")
"""Settings that a league determines, in addition to settings of two-level trainings."""


def settled(game: Game, config: TrainConfig) -> TrainConfig:
    """Return the training settings of a game, with one policy per role, or per part of its seats.

    Raises:
        ConfigError: The settings belong to another environment, or set a field that the league determines.
    """
    if config.env_id != game.env_id or (config.env and config.env != dict(game.env)):
        raise ConfigError(
            f"train: expected the environment of the game, {game.env_id} {dict(game.env)}, got {config.env_id}"
        )
    for name in (*_OWN, "decide_every", "learn_after", "anneal"):
        if getattr(config, name):
            raise ConfigError(f"train.{name}: expected none in a league, got {getattr(config, name)!r}")
    if game.shared and getattr(config.learner, "mixer", None):
        raise ConfigError(f"algorithm = {config.algorithm!r}: it treats all seats as one team; use ppo or dqn")
    return dataclasses.replace(config, env=dict(game.env), policies=game.learner_of_member)


class TeamLearner:
    """The learners of a role, one per part of its seats, as one learner whose policy is a team."""

    def __init__(self, names: Sequence[str], learners: Sequence[Learner], places: Sequence[Sequence[int]]) -> None:
        """Use learners of the parts.

        Args:
            names: Name of each learner.
            learners: Learner of each part.
            places: Positions of the agents of each part among the seat's agents.
        """
        self.names: tuple[str, ...] = tuple(names)
        self.learners: list[Learner] = list(learners)
        self.places: list[list[int]] = [list(positions) for positions in places]

    def policy(self) -> TeamPolicy:
        """Return a frozen copy of the present policies of all parts."""
        return TeamPolicy([learner.policy() for learner in self.learners], self.places)

    def state_dict(self) -> State:
        """Return the states of all learners."""
        return join_states([learner.state_dict() for learner in self.learners])

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`; raise CheckpointError if it does not fit."""
        for number, learner in enumerate(self.learners):
            learner.load_state_dict(part_state(state, number))


def _begin_role_from(learner: Learner | TeamLearner, start: RoleStart, role: str) -> None:
    """Copy weights to the learner of a role, see `trainers.runner.initial_weights.begin_from`.

    Raises:
        ConfigError: The weights do not fit.
    """
    if not isinstance(learner, TeamLearner):
        if isinstance(start, TeamPolicy):
            raise ConfigError(f"start: {role}: expected one network, got a team of {len(start.members)}")
        begin_from(learner, start, role)
        return
    for number, (name, part) in enumerate(zip(learner.names, learner.learners, strict=True)):
        source: Start | RandomPolicy = start.members[number] if isinstance(start, TeamPolicy) else start
        if isinstance(source, RandomPolicy):
            raise ConfigError(f"start: {name}: expected a network, got a random policy")
        begin_from(part, part_state(source, number) if isinstance(source, dict) else source, name)
