"""What is timed, as data: environment, worlds, agents, schedule, device, and the door through which it is stepped."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import gpu_envs
from benchmarks import doors
from benchmarks.bounds.simple_tag import SimpleTagBound
from benchmarks.bounds.tag_continuous import CONFIG as NO_EXITS
from benchmarks.bounds.tag_continuous import TagContinuousBound
from gpu_envs.registry import defined, make_core

ACTION_BATCHES = 8
"""Random actions are drawn beforehand and used in turn."""

BOUNDS = {"SimpleTag-v0": SimpleTagBound, "TagContinuous-v0": TagContinuousBound}


@dataclass(frozen=True)
class Case:
    """One thing to time."""

    env_id: str
    num_envs: int
    entrance: str = "core"
    """"core" (stacked tensors), "bound" (the C step), or a door of ``doors.DOORS``; "gymnasium" is what Gymnasium
    itself has under this id."""
    reuse_buffers: bool = True
    """Off, every result is a clone: the default of ``make``."""
    threads: int = 2
    config: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    """What tells it from cases of the same environment, door and batch."""
    schedule: str | None = None
    """"fused", "phased" or None: as the core chooses."""
    device: str = "cpu"

    @property
    def name(self) -> str:
        """Short and unique."""
        results = "" if self.reuse_buffers else "-clones"
        label = f"-{self.label}" if self.label else ""
        how = "".join(f"-{word}" for word in (self.schedule, self.device if self.device != "cpu" else None) if word)
        return f"{self.env_id.removesuffix('-v0')}-{self.entrance}{results}-{self.num_envs}{label}{how}"

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of ``make``, beside id and number of worlds."""
        how = {"device": self.device, "seed": 1, "threads": self.threads, "reuse_buffers": self.reuse_buffers}
        return how | ({"schedule": self.schedule} if self.schedule else {}) | dict(self.config)

    @property
    def agents(self) -> int:
        """Agents of one world."""
        return len(defined(self.env_id, None, dict(self.config))[2].agents)


def _sizes(env_id: str, sizes: tuple[int, ...], **config: Any) -> tuple[Case, ...]:
    doors = ("core", "bound") if env_id in BOUNDS else ("core",)
    return tuple(Case(env_id, size, door, threads=min(2, size), config=config) for size in sizes for door in doors)


SIMPLE_TAG = _sizes("SimpleTag-v0", (1, 64, 1024, 4096, 16384))
SIMPLE_SPREAD = _sizes("SimpleSpread-v0", (1, 64, 1024, 4096, 16384))
TAG_CONTINUOUS = _sizes("TagContinuous-v0", (1, 64, 1024), **NO_EXITS)
TAG_GRIDWORLD = _sizes("TagGridworld-v0", (1, 64, 1024, 4096))
CARTPOLE = _sizes("CartPole-v1", (1, 64, 1024, 4096, 16384))


def _doors(env_id: str, num_envs: int, **config: Any) -> tuple[Case, ...]:
    return tuple(
        Case(env_id, num_envs, door, reuse, config=config)
        for door, reuse in (("core", True), ("core", False), ("dict", True), ("dict", False))
    )


DOORS = {
    "SimpleTag-v0": _doors("SimpleTag-v0", 4096),
    "TagContinuous-v0": _doors("TagContinuous-v0", 1024, **NO_EXITS),
}
"""The four ways to step a batch: stacked and reused, stacked and cloned, dicts and reused, dicts and cloned."""

CROWDS = (100, 1_000, 10_000, 100_000)
"""Agents in one world."""


def crowd(agents: int, num_envs: int = 1, search: str = "auto") -> Case:
    """A crowd of TagContinuous: 5 % taggers, 10 neighbours seen; density and reach of a tag as with 5 + 100.

    Nobody exits, so that the crowd stays as large as it is.
    """
    taggers, length = agents // 20, 20.0 * math.sqrt(agents / 105)
    config = {
        **NO_EXITS,
        "num_taggers": taggers,
        "num_runners": agents - taggers,
        "grid_length": length,
        "tagging_distance": 0.4 / length,
        "neighbour_search": search,
    }
    label = f"{agents}-agents" + ("" if search == "auto" else f"-{search}")
    return Case("TagContinuous-v0", num_envs, threads=min(2, num_envs), config=config, label=label)


_ALL = (
    *SIMPLE_TAG,
    *SIMPLE_SPREAD,
    *TAG_CONTINUOUS,
    *TAG_GRIDWORLD,
    *CARTPOLE,
    *map(crowd, CROWDS),
    *(case for doors in DOORS.values() for case in doors),
)
CASES = tuple({case.name: case for case in _ALL}.values())
"""Every row, once."""


def available(case: Case) -> bool:
    """Whether the environment is there."""
    return case.env_id in gpu_envs.list_envs()


def build(case: Case) -> Callable[[], Any]:
    """Make the worlds of a case and give the function that plays one step with the next batch of random actions.

    Every door, and the bound, is given the same actions, in the form it takes them.
    """
    core = make_core(case.env_id, case.num_envs, **case.settings)
    seeded = torch.Generator(core.device).manual_seed(0)
    actions = [_random_actions(core, seeded) for _ in range(ACTION_BATCHES)]
    step: Callable[[Any], Any]
    given: list[Any] = actions
    if case.entrance == "bound":
        step = BOUNDS[case.env_id](case.num_envs, case.threads).step
    elif case.entrance == "core":
        core.reset()
        step = core.step
    else:
        step, given = doors.DOORS[case.entrance](case.env_id, case.num_envs, case.settings, core, actions)
    count = 0

    def play() -> Any:
        nonlocal count
        count += 1
        return step(given[count % ACTION_BATCHES])

    return play


def _random_actions(core: Any, generator: torch.Generator) -> torch.Tensor:
    """Uniform discrete actions for every agent; the environments timed here have the same choices for all."""
    counts = core.num_choices[0]
    size, device = (core.num_envs, core.num_agents), core.device
    columns = [torch.randint(0, int(n), size, generator=generator, device=device) for n in counts]
    return columns[0] if core.action_kind == "discrete" else torch.stack(columns, -1)
