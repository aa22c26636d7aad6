"""What is timed, as data: environment, worlds, agents, schedule, device, and the door through which it is stepped."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

import gpu_envs
from benchmarks import doors
from benchmarks.bounds.simple_tag import SimpleTagBound
from benchmarks.bounds.tag_continuous import CONFIG as NO_EXITS
from benchmarks.bounds.tag_continuous import TagContinuousBound
from benchmarks.origin import THREADS
from gpu_envs.core import Core
from gpu_envs.factory import defined, make_core

ACTION_BATCHES = 8
"""Random actions are drawn beforehand and used in turn."""

BOUNDS = {"SimpleTag-v0": SimpleTagBound, "TagContinuous-v0": TagContinuousBound}


@dataclass(frozen=True)
class Case:
    """One thing to time."""

    env_id: str
    num_envs: int
    entrance: str = "core"
    """"core" (stacked tensors), "random play" (many steps in a call, see :attr:`steps`), "bound" (the C step), or a
    door of ``doors.DOORS``."""
    reuse_buffers: bool = True
    """Off, every result is a clone: the default of ``make``."""
    threads: int = 0
    """0: as many as there are cores, at most a thread per world."""
    config: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    """"fused", "phased" or None: as the core chooses."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", self.threads or min(THREADS, self.num_envs))

    @property
    def steps(self) -> int:
        """Steps of every world in one call."""
        return min(1000, max(10, 50_000 // self.num_envs)) if self.entrance == "random play" else 1

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of ``make``, beside id and number of worlds."""
        how = {"device": self.device, "seed": 1, "threads": self.threads, "reuse_buffers": self.reuse_buffers}
        return how | ({"schedule": self.schedule} if self.schedule else {}) | dict(self.config)

    @property
    def agents(self) -> int:
        """Agents of one world."""
        return len(defined(self.env_id, None, dict(self.config))[2].agents)


CROWDS = (100, 1_000, 10_000, 100_000)
"""Agents in one world."""


def crowd_settings(agents: int) -> dict[str, Any]:
    """Settings of a crowd of TagContinuous: 5 % taggers, 10 neighbours seen, nobody exits, so that it stays as large.

    Density and reach of a tag are as with 5 + 100; a handful of agents has one tagger at least, and sees 3.
    """
    taggers, length = max(1, agents // 20), 20.0 * math.sqrt(agents / 105)
    few = {"num_other_agents_observed": 3} if agents < 20 else {}
    return {
        **NO_EXITS,
        **few,
        "num_taggers": taggers,
        "num_runners": agents - taggers,
        "grid_length": length,
        "tagging_distance": 0.4 / length,
    }


def crowd(agents: int, num_envs: int = 1, **more: Any) -> Case:
    """Worlds of so many agents of TagContinuous; see :func:`crowd_settings`."""
    return Case("TagContinuous-v0", num_envs, config=crowd_settings(agents) | more)


def available(env_id: str) -> bool:
    """Whether the environment is there."""
    return env_id in gpu_envs.list_envs()


def build(case: Case) -> Callable[[], Any]:
    """Make the worlds of a case and give the function that plays one step with the next batch of random actions.

    Every door, and the bound, is given the same actions, in the form it takes them. Random play draws its own, and
    plays many steps.
    """
    core = make_core(case.env_id, case.num_envs, **case.settings)
    actions = random_actions(core)
    step: Callable[[Any], Any]
    given: list[Any] = actions
    if case.entrance == "bound":
        step = BOUNDS[case.env_id](case.num_envs, case.threads).step
    elif case.entrance == "core":
        core.reset()
        step = core.step
    elif case.entrance == "random play":
        core.reset()
        return partial(core.play_random, case.steps)
    else:
        step, given = doors.DOORS[case.entrance](case.env_id, case.num_envs, case.settings, core, actions)
    count = 0

    def play() -> Any:
        nonlocal count
        count += 1
        return step(given[count % ACTION_BATCHES])

    return play


def random_actions(core: Core) -> list[torch.Tensor]:
    """Batches of uniform discrete actions (E, A[, K]); the environments timed here have the same choices for all."""
    seeded = torch.Generator(core.device).manual_seed(0)
    size, batches = (core.num_envs, core.num_agents), []
    for _ in range(ACTION_BATCHES):
        columns = [torch.randint(0, int(n), size, generator=seeded, device=core.device) for n in core.num_choices[0]]
        batches.append(columns[0] if core.action_kind == "discrete" else torch.stack(columns, -1))
    return batches
