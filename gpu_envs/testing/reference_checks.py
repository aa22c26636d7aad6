"""An environment under test, and comparisons of what it plays."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.errors import ConformanceError
from gpu_envs.runtime.core import Core

WORLDS = 12  # worlds of a tested core
STEPS = 24  # steps of a comparison with a short time limit, and after the first episodes of whole ones
LIMIT = 8  # short time limit [steps], so that every world starts several episodes
MOST_STEPS = 600  # most steps of a comparison over whole episodes, where the user gives no number
SEED = 20  # seed of all worlds
RESULTS: tuple[str, ...] = ("obs", "reward", "terminated", "truncated")  # results of a step per agent, (E, A[, D])

Step = dict[str, torch.Tensor]  # results of a step by name
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
Detail = Callable[[tuple[int, ...]], str]
"""Type of a function from the index of an element to what a message says about it."""


@dataclass(frozen=True)
class Subject:
    """Environment under test."""

    id: str
    """ID of the environment."""
    config: Any
    """Settings, an instance of the host file's ``Config``."""
    definition: EnvDefinition
    """Definition built from the settings."""
    worlds: int = WORLDS
    """Worlds of a core."""
    steps: int = 0
    """Steps of comparisons over whole episodes; 0 for enough to start second ones, at most ``MOST_STEPS``."""

    @property
    def whole_steps(self) -> int:
        """Steps of comparisons over whole episodes."""
        limit = self.definition.max_episode_steps or MOST_STEPS
        return self.steps or min(limit + STEPS, MOST_STEPS)

    def shortened(self) -> "Subject":
        """Return the environment with a short time limit."""
        limit = self.definition.max_episode_steps
        short = LIMIT if limit == 0 else min(limit, LIMIT)
        return replace(self, definition=replace(self.definition, max_episode_steps=short))

    def core(self, num_envs: int | None = None, definition: EnvDefinition | None = None, **settings: Any) -> Core:
        """Return a core of the environment on the CPU, always with the same seed."""
        settings = {"seed": SEED, "threads": 1, "device": torch.device("cpu"), **settings}
        return Core(
            definition or self.definition,
            env_id=self.id,
            config=self.config,
            num_envs=num_envs or self.worlds,
            **settings,
        )

    def demand(self, condition: Any, promise: str, detail: str = "") -> None:
        """Raise a ConformanceError unless a condition holds."""
        if not condition:
            raise ConformanceError(f"{self.id}: {promise}" + (f"; {detail}" if detail else ""))

    def nowhere(self, bad: torch.Tensor, promise: str, t: int, name: str, detail: Detail | None = None) -> None:
        """Raise a ConformanceError that names step, entry, agent and world if a mask (E[, A, ...]) is True anywhere.

        Args:
            bad: Mask (E,), (E, A) or (E, A, ...).
            promise: Property that is violated there.
            t: Step.
            name: Name of the array.
            detail: Function from the index of the element to what is there and what is expected.
        """
        if bad.any():
            index = tuple(bad.nonzero()[0].tolist())
            text = f" {detail(index)}" if detail else ""
            raise ConformanceError(f"{self.id}: {promise}; step {t}: {place_of(self, name, index)}{text}")

    def alike(self, left: Step, right: Step, promise: str, t: int) -> None:
        """Raise a ConformanceError unless two steps are equal bit for bit."""
        for name, value in left.items():
            other = right[name]
            if not torch.equal(value, other):  # NaN equals NaN
                differs = (value != other) & ~((value != value) & (other != other))
                self.nowhere(
                    differs, promise, t, name, lambda at, a=value, b=other: f"is {a[at].item():g} and {b[at].item():g}"
                )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return floats (E, ...) as integers of the same bits, so that NaN equals NaN."""
    return tensor.view(_BITS.get(tensor.dtype, tensor.dtype))


def place_of(subject: Subject, name: str, index: Sequence[int], first_world: int = 0) -> str:
    """Return array, entry, agent and world of an element for a message.

    Args:
        subject: Environment under test.
        name: Name of the array.
        index: Index of the element; the world comes first.
        first_world: Index of the first world of the array.
    """
    agents = subject.definition.agents
    world, *inner = index
    state_shape = subject.definition.shapes.get(name.removeprefix("State."), ())
    per_agent = bool(inner) and (not name.startswith("State.") or state_shape[:1] == (len(agents),))
    agent = f" of {agents[inner.pop(0)]}" if per_agent else ""
    entry = f"[{', '.join(map(str, inner))}]" if inner else ""
    return f"{name}{entry}{agent} in world {world + first_world}"


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
