"""First weights of learners: from a policy, a checkpoint, or another learner."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from torch import Tensor

from gpu_envs.errors import ConfigError
from trainers.algorithms.learner import Learner
from trainers.base.state import State, select_prefix
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy
from trainers.runner.learner_group import LearnerGroup
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint

Start = Policy | Checkpoint | State
"""Source of a learner's initial weights: a policy, a checkpoint of a training, or a learner's `state_dict`."""


def begin_all(learners: LearnerGroup, config: TrainConfig, skip: Collection[str] = ()) -> None:
    """Copy the weights of `config.init_from` to new learners; without it, leave their random weights.

    Args:
        learners: Learners that have not been trained.
        config: Configuration of the run.
        skip: Policies that begin otherwise.

    Raises:
        CheckpointError: There is no checkpoint, it is damaged, or it has several policies and none of a learner's name.
        ConfigError: The weights do not fit a learner.
    """
    names = [name for name in learners.assignments if name not in skip]
    if config.init_from is None or not names:
        return
    saved = checkpoint.load(Path(config.init_from), learners.device, replay=False)
    for name in names:
        begin_from(learners.assignments[name].learner, saved, name, f"init_from = {config.init_from}")


def begin_from(learner: Learner, start: Start, role: str, source: str = "start") -> None:
    """Copy weights to a learner: normalizer, actor, and the critic if the source has one.

    Args:
        learner: Learner that has not been trained.
        start: Source of the weights.
        role: Role or policy of the learner; a checkpoint with a single policy needs no policy of this name.
        source: Setting that names the source, for error messages.

    Raises:
        ConfigError: The weights have other shapes or names than the learner's.
    """
    if isinstance(start, Policy):
        tensors: Mapping[str, object] = start.net.state_dict()
    elif isinstance(start, Checkpoint):
        name = role if role in start.policies else start.name_of(None)
        tensors = select_prefix(start.state, f"learner.{name}.net.")
        tensors = tensors or start.policy(name).net.state_dict()  # the model zoo has no learners
    else:
        tensors = select_prefix(start, "net.")
    used, state = set(), learner.net.state_dict()
    for name, value in state.items():
        of_policy = re.sub(r"^(target|target_actor|learned\.actor)\.", "actor.", name)  # targets start as the actor
        entry = next((key for key in (name, name.removeprefix("target.")) if key in tensors), of_policy)
        weights = tensors.get(entry)
        if not isinstance(weights, Tensor):
            continue
        if weights.shape != value.shape:
            expected, actual = tuple(value.shape), tuple(weights.shape)
            raise ConfigError(f"{source}: {role}: {entry}: expected shape {expected} as of the learner, got {actual}")
        state[name] = weights
        used.add(entry)
    if missing := {name for name in tensors if not name.startswith("target")} - used:
        raise ConfigError(
            f"{source}: {role}: the learner has no place for its {sorted(missing)[0]}; expected one of the same kind"
        )
    if not used:
        raise ConfigError(f"{source}: {role}: expected a policy, a checkpoint or a learner's state, found no weights")
    learner.net.load_state_dict(state)
