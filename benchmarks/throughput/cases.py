"""Timed cases as data: environment, worlds, agents, schedule, device and interface."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.hardware.bounds import BOUNDS, NO_EXITS
from benchmarks.hardware.provenance import THREADS
from benchmarks.throughput import interfaces
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import configured_definition, make_core

ACTION_BATCHES = 8
"""Number of batches of random actions, sampled beforehand and used in turn."""


@dataclass(frozen=True)
class Case:
    """One timed case."""

    env_id: str
    num_envs: int
    interface: str = "core"
    """"core" (stacked tensors), "legal actions" (of `sample_actions`), "random play" (many steps in a call, see
    :attr:`steps`), "bound" (the C step), or an interface of ``interfaces.INTERFACES``."""
    reuse_buffers: bool = True
    """False: every result is a clone, as by default of ``make``."""
    threads: int = 0
    """CPU threads; 0 for the number of cores, at most one per world."""
    config: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    """"fused", "phased" or None for the choice of the core."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", self.threads or min(THREADS, self.num_envs))

    @property
    def steps(self) -> int:
        """Number of steps of every world per call."""
        return min(1000, max(10, 50_000 // self.num_envs)) if self.interface == "random play" else 1

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of ``make``, except id and number of worlds."""
        how = {"device": self.device, "seed": 1, "threads": self.threads, "reuse_buffers": self.reuse_buffers}
        return how | ({"schedule": self.schedule} if self.schedule else {}) | dict(self.config)

    @property
    def agents(self) -> int:
        """Number of agents of one world."""
        return len(configured_definition(self.env_id, None, dict(self.config))[2].agents)


AGENT_COUNTS = (100, 1_000, 10_000, 100_000)
"""Numbers of agents in one world."""


def many_agent_settings(agents: int) -> dict[str, Any]:
    """Return settings of TagContinuous for an agent count: 5 % taggers, 10 neighbors observed, no exits.

    Density and tagging distance are as with 5 + 100 agents. Below 20 agents there is one tagger, and 3 are observed.
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


def many_agents(agents: int, num_envs: int = 1, **more: Any) -> Case:
    """Return a case of TagContinuous by number of agents; see :func:`many_agent_settings`."""
    return Case("TagContinuous-v0", num_envs, config=many_agent_settings(agents) | more)


def build(case: Case) -> Callable[[], Any]:
    """Make the worlds of a case and return the function of one step with the next batch of random actions.

    Every interface and the bound receive the same actions in their own format. A random rollout samples its own actions
    and runs many steps.
    """
    core = make_core(case.env_id, case.num_envs, **case.settings)
    actions = random_actions(core)
    step: Callable[[Any], Any]
    batches: list[Any] = actions
    if case.interface == "bound":
        step = BOUNDS[case.env_id](case.num_envs, case.threads).step
    elif case.interface == "core":
        core.reset()
        step = core.step
    elif case.interface == "legal actions":
        core.reset()
        return lambda: core.step(core.sample_actions())
    elif case.interface == "random play":
        core.reset()
        return partial(core.random_rollout, case.steps)
    else:
        worlds = interfaces.WorldsToOpen(case.env_id, case.num_envs, case.settings, core, actions)
        step, batches = interfaces.INTERFACES[case.interface](worlds)
    count = 0

    def play() -> Any:
        nonlocal count
        count += 1
        return step(batches[count % ACTION_BATCHES])

    return play


def random_actions(core: Core) -> list[torch.Tensor]:
    """Return batches of uniform actions: int64 (E, A) or (E, A, K), or float32 (E, A, K) within the spaces."""
    seeded, shape = torch.Generator(core.device).manual_seed(0), (core.num_envs, core.num_agents)

    def draw(components: int) -> list[torch.Tensor]:
        size = (*shape, components)
        return [torch.rand(size, generator=seeded, device=core.device) for _ in range(ACTION_BATCHES)]

    if core.action_kind == "continuous":
        spaces = [core.action_spaces[agent] for agent in core.possible_agents]
        low, high = (torch.as_tensor(np.stack([getattr(s, end) for s in spaces])) for end in ("low", "high"))
        low, size = low.to(core.device), (high - low).to(core.device)
        return [low + size * batch for batch in draw(size.shape[1])]
    choices = core.num_choices.to(core.device)
    batches = [(choices * batch).long() for batch in draw(choices.shape[1])]
    return [batch[:, :, 0] for batch in batches] if core.action_kind == "discrete" else batches
