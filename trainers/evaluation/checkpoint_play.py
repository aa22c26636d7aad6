"""Policies of a checkpoint in its environment, alone or against those of another one, for videos."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.suggestions import unknown_name_message
from trainers.base.agent_group import agent_rows_of
from trainers.base.random_streams import SEEDS
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.evaluation.cross_play import by_seat
from trainers.evaluation.policy_evaluation import by_member, load_opponents, trained_policies
from trainers.models.policy import Policy
from trainers.models.policy_set import Players, PolicyRunner
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.run_folder import best_seed, run_kind


@dataclass(frozen=True)
class CheckpointPlay:
    """Policies of a checkpoint in its environment."""

    core: Core
    """The environments, with autoreset "next_step"."""
    saved: Checkpoint
    """The checkpoint."""
    sides: Mapping[str, Sequence[str]]
    """Groups or agents that each policy controls, by its name."""
    players: Players
    """Policy of each group or agent."""
    words: str
    """Description of the policies and settings."""
    rows: Mapping[str, Sequence[int]] | None = None
    """Rows of the agents of both sides of a match, by the description of the side; None: no match."""

    @cached_property
    def act(self) -> Callable[..., Tensor]:
        """Function `act(obs, info, greedy=False)` that returns the actions of all agents."""
        return PolicyRunner(self.core, self.players).act

    def against(self, opponents: Path, side: str | None, seed: int) -> CheckpointPlay:
        """Return the match of one side of these policies against other policies in all other sides.

        Args:
            opponents: Run, checkpoint or zoo:NAME.
            side: Name of the side; None: the first one.
            seed: Random seed of the actions.

        Raises:
            ConfigError: All agents are one side, or there is no such side.
            CheckpointError: The opponents do not fit the environment.
        """
        core, run = self.core, run_to_play(opponents)[0]
        opponent, policies = load_opponents(run, self.saved.config["env_id"], self.sides, core)
        pools = {"trained": self.players, "other": by_member(self.sides, policies)}
        sides, pools = by_seat(core, self.sides, pools)
        if len(sides) < 2:
            raise ConfigError(f"--opponents: all agents of {core.id} share one policy; leave it out")
        name = next(iter(sides)) if side is None else side
        if name not in sides:
            raise ConfigError(f"--as: {unknown_name_message('side', name, list(sides))}")
        _seed_policies(policies, seed + len(self.sides))
        players = {
            member: pools["trained" if owner == name else "other"].get(member)
            for owner, members in sides.items()
            for member in members
        }
        opponent_sides = [owner for owner in sides if owner != name]
        labels = {
            f"{_run_name(self.saved)} as {name}": [name],
            f"{_run_name(opponent)} as {', '.join(opponent_sides)}": opponent_sides,
        }
        rows = {
            label: [row for owner in owners for row in agent_rows_of(core, sides[owner])]
            for label, owners in labels.items()
        }
        words = " against ".join(
            f"{saved.path} (step {saved.steps:,}) as {', '.join(owners)}"
            for saved, owners in zip((self.saved, opponent), labels.values(), strict=True)
        )
        return CheckpointPlay(core, self.saved, self.sides, players, words, rows)


def _run_name(saved: Checkpoint) -> str:
    """Return the name of the run of a checkpoint; that of a seed begins with the folder of all seeds."""
    folder = saved.path.resolve()
    run = folder.parent.parent if folder.parent.name == "checkpoints" else folder
    return f"{run.parent.name}/{run.name}" if run.name.startswith("seed-") else run.name


def _seed_policies(policies: Mapping[str, Policy], seed: int) -> None:
    """Seed the sampled actions of policies, each with another seed."""
    for index, policy in enumerate(policies.values()):
        policy.seed((seed + index) % SEEDS)


def run_to_play(path: Path) -> tuple[Path, str]:
    """Return a run, of several seeds the best one, and why it was chosen."""
    return best_seed(path) if run_kind(path) == "multi-seed" else (path, "")


def load_play(path: Path, settings: Mapping[str, Any], worlds: int, device: str | None, seed: int) -> CheckpointPlay:
    """Load the policies of a checkpoint and make its environment.

    Args:
        path: Run folder, checkpoint folder or zoo:NAME; of the folder of several seeds, the best one.
        settings: Environment settings that replace the recorded ones.
        worlds: Number of environments, E.
        device: Device; None for a GPU if one is available.
        seed: Random seed of the environments and the actions.

    Raises:
        CheckpointError: There is no checkpoint, or it does not fit the environment or its settings.
    """
    run, reason = run_to_play(path)
    saved = checkpoint.load(run)
    recorded = TrainConfig.of(saved)
    config = dataclasses.replace(recorded, env={**recorded.env, **settings}, device=str(resolve_device(device)))
    core = make_train_core(config, worlds, seed, autoreset="next_step")
    sides, policies = trained_policies(saved, config, core)
    _seed_policies(policies, seed)
    text = ", ".join(f"{name}={value}" for name, value in config.env.items())
    words = f"{', '.join(policies)} of {saved.path} (step {saved.steps:,})"
    words += (f", {reason}" if reason else "") + (f", with its settings {text}" if text else "")
    return CheckpointPlay(core, saved, sides, by_member(sides, policies), words)
