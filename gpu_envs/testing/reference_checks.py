"""An environment under test, and comparisons of what it plays."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.errors import ConformanceError
from gpu_envs.runtime.core import Core

__all__ = ["LIMIT", "RESULTS", "SEED", "STEPS", "WORLDS", "Step", "Subject", "play"]

WORLDS = 12  # worlds of a tested core
STEPS = 24  # steps of a comparison
LIMIT = 8  # time limit [steps], so that every world starts several episodes
SEED = 20  # seed of all worlds
RESULTS: tuple[str, ...] = ("obs", "reward", "terminated", "truncated")  # results of a step per agent, (E, A[, D])

Step = dict[str, torch.Tensor]  # results of a step by name


@dataclass(frozen=True)
class Subject:
    """Environment under test."""

    id: str
    """ID of the environment."""
    config: Any
    """Settings, an instance of the host file's ``Config``."""
    definition: EnvDefinition
    """Definition built from the settings."""

    def core(self, num_envs: int = WORLDS, definition: EnvDefinition | None = None, **settings: Any) -> Core:
        """Return a core of the environment on the CPU, always with the same seed."""
        settings = {"seed": SEED, "threads": 1, "device": torch.device("cpu"), **settings}
        return Core(definition or self.definition, env_id=self.id, config=self.config, num_envs=num_envs, **settings)

    def demand(self, kept: Any, promise: str, found: str = "") -> None:
        """Raise a ConformanceError unless a condition holds."""
        if not kept:
            raise ConformanceError(f"{self.id}: {promise}" + (f"; {found}" if found else ""))

    def nowhere(self, bad: torch.Tensor, promise: str, t: int, name: str) -> None:
        """Raise a ConformanceError that names step, world and agent if a mask (E, ...) is True anywhere."""
        if bad.any():
            where = bad.nonzero()[0].tolist()
            who = f" of {self.definition.agents[where[1]]}" if len(where) > 1 else ""
            raise ConformanceError(f"{self.id}: {promise}; step {t}: {name}{who} in world {where[0]}")

    def alike(self, left: Step, right: Step, promise: str, t: int) -> None:
        """Raise a ConformanceError unless two steps are equal bit for bit."""
        for name, value in left.items():
            self.nowhere(value != right[name], promise, t, name)


def play(core: Core, steps: int = STEPS, seed: int | None = None) -> Iterator[Step]:
    """Reset, then play random steps and yield their results; values of finished episodes are 0 where none finished."""
    obs, info = core.reset(seed)
    yield {"obs": obs, "alive": info["alive"]}
    for _ in range(steps):
        action = core.sample_actions()
        *results, info = core.step(action)
        step = dict(zip(RESULTS, results, strict=True))
        done = step["terminated"] | step["truncated"]
        for name in ("episode_return", "episode_length"):
            info[name] = torch.where(done, info[name], 0)
        info["final_obs"] = torch.where(done[..., None], info["final_obs"], 0.0)
        yield {"action": action, **step, **info}
