"""Populations that start with joint training: all roles learn in the same worlds, and snapshots join the populations.

Every environment step is then training data of all roles, while a step of a best response is training data of one. The
responses of later iterations continue from the last learners with `response_init` "warm_start" or "resume".
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_envs.errors import ConfigError
from gpu_envs.utils.progress import Progress
from league.executors.tasks import RemoteTask
from league.game import Game
from league.matchups.best_response import BestResponseTraining, progress_text
from league.matchups.data_parallel import joined_shard
from league.matchups.matchup_distribution import MatchupDistribution
from league.policies.team import TeamPolicy
from league.psro.config import PSROConfig
from league.psro.work import NewPolicy, PSROContext, StoreUpdate, learner_state
from league.storage.run_config import training
from league.storage.run_store import derive_named_seed
from trainers.base.state import State
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy, PolicyProtocol

STEP = "0/joint"
"""Name of the step of the store that adds the snapshots."""


@dataclass(frozen=True)
class JointTraining:
    """Snapshots of learners that trained in the same worlds."""

    snapshots: Mapping[str, Sequence[Policy | TeamPolicy]]
    """Policies by role, at equal distances, the last one at the end."""
    states: Mapping[str, State]
    """State of the learner by role at the end."""
    steps: int
    """Environment steps."""
    seconds: float
    """Duration [s]."""


def check_joint_start(game: Game, config: PSROConfig) -> None:
    """Raise ConfigError if the settings do not fit the game, or populations cannot start with joint training."""
    if config.joint_steps and config.has_exact_responses:
        raise ConfigError(
            f"joint_steps: expected 0 with oracle={config.oracle!r}, got {config.joint_steps}; use oracle='learned'"
        )
    if "total_steps" in config.joint_overrides:
        raise ConfigError("joint_overrides: total_steps: expected the number of steps in joint_steps; use joint_steps")
    if config.joint_overrides:
        training(game, config.device, {**config.train_overrides, **config.joint_overrides})


def joint_start_task(context: PSROContext) -> RemoteTask:
    """Return the joint training of all roles, see `train_jointly`."""
    config, progress = context.config, context.progress
    arguments = {
        "game": context.game,
        "train": _train_config(context),
        "steps": config.joint_steps,
        "num_snapshots": config.joint_snapshots,
        "seed": derive_named_seed(config.seed, STEP),
    }
    report = None if progress is None else lambda done, text: progress(0, f"{text}, {done:,} steps")
    shards = arguments["train"].num_envs
    return RemoteTask(STEP, train_jointly, {}, arguments, True, config.device, shards, report)


def joint_start_update(context: PSROContext, training: JointTraining) -> StoreUpdate:
    """Return the update that adds the snapshots, and the learners from which responses continue."""
    policies, states = list[NewPolicy](), dict[str, State]()
    for role, snapshots in training.snapshots.items():
        first = len(context.populations[role])
        for index, policy in enumerate(snapshots):
            policies.append(NewPolicy(role, policy, first + index - 1 if index else None))
        if context.config.response_init != "scratch":
            states[learner_state(role, first + len(snapshots) - 1)] = training.states[role]
    result = {"steps": training.steps, "seconds": training.seconds}
    return StoreUpdate(STEP, policies, states, result=result, plan_payoffs=True)


def train_jointly(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    train: TrainConfig,
    steps: int,
    num_snapshots: int,
    seed: int,
    progress: Progress | None = None,
    sharded: bool = False,
) -> JointTraining:
    """Train the learners of all roles against each other, in the same worlds.

    Args:
        policies: Policies by role; none are needed.
        game: Game to play.
        train: Training settings; schedules end at `train.total_steps`.
        steps: Environment steps, rounded up to whole rollouts.
        num_snapshots: Number of snapshots of each role.
        seed: Random seed.
        progress: Called after every iteration.
        sharded: Train together with other processes, see `joined_shard`.
    """
    began, config = time.perf_counter(), dataclasses.replace(train, seed=seed)
    config.prepare()
    snapshots: dict[str, list[Policy | TeamPolicy]] = {role: [] for role in game.roles}
    with config.in_force():
        draw, shard = MatchupDistribution.self_play(game), joined_shard(config, sharded)
        training = BestResponseTraining(game, draw, policies, config, shard=shard)
        for number in range(1, num_snapshots + 1):
            while training.steps * num_snapshots < steps * number:
                row = training.iterate()
                if progress is not None:
                    progress(training.steps, progress_text("joint training", row))
            for role, policies_of_role in snapshots.items():
                policies_of_role.append(training.learner(role).policy())
        states = {role: training.learner_state(role) for role in game.roles}
    return JointTraining(snapshots, states, training.steps, time.perf_counter() - began)


def _train_config(context: PSROContext) -> TrainConfig:
    """Return the training settings, whose schedules extend over the whole run if responses resume the learners."""
    config = context.config
    train = training(context.game, config.device, {**config.train_overrides, **config.joint_overrides})
    resumed = config.response_init == "resume"
    return dataclasses.replace(train, total_steps=context.scheduled_steps if resumed else config.joint_steps)
