"""Each interface as a function of one step, to measure its overhead over ``core.step``."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import gymnasium
import torch

import gpu_envs
from gpu_envs.runtime.core import Core

OpenedInterface: TypeAlias = tuple[Callable[[Any], Any], list[Any]]
"""Function of one step, and its actions in turn."""


@dataclass(frozen=True)
class WorldsToOpen:
    """Worlds, and actions for them."""

    env_id: str
    num_envs: int
    settings: dict[str, Any]
    core: Core
    """A core of the same."""
    actions: list[torch.Tensor]
    """Random actions (E, A[, K])."""

    @property
    def copying(self) -> dict[str, Any]:
        """Settings of views that decide themselves whether results are copies."""
        return {name: value for name, value in self.settings.items() if name != "reuse_buffers"}


def _dict(world: WorldsToOpen) -> OpenedInterface:
    env = gpu_envs.make(world.env_id, world.num_envs, **world.settings)
    env.reset()
    names = env.possible_agents
    columns = [[column.clone() for column in batch.unbind(1)] for batch in world.actions]
    return env.step, [dict(zip(names, column, strict=True)) for column in columns]


def _rows(world: WorldsToOpen, to_numpy: bool = False) -> OpenedInterface:
    env: Any = gymnasium.make_vec(
        f"gpu_envs/{world.env_id}", world.num_envs, to_numpy=to_numpy, autoreset_mode="same_step", **world.settings
    )
    env.reset()
    rows = [batch.flatten(0, 1) for batch in world.actions]
    return env.step, [batch.numpy() for batch in rows] if to_numpy else rows


def _parallel(world: WorldsToOpen) -> OpenedInterface:
    """Open one world for PettingZoo, reset after all agents are done."""
    env = gpu_envs.parallel_env(world.env_id, **world.copying)
    env.reset()

    def step(action: dict[str, Any]) -> Any:
        if not env.agents:
            env.reset()
        return env.step({agent: action[agent] for agent in env.agents})

    return step, [dict(zip(env.possible_agents, batch[0].numpy(), strict=True)) for batch in world.actions]


def _single(world: WorldsToOpen) -> OpenedInterface:
    """Open one agent of one world for Gymnasium with random other agents, reset at the end of an episode."""
    env = gymnasium.make(f"gpu_envs/{world.env_id}", agent=world.core.possible_agents[0], **world.copying)
    env.reset()

    def step(action: Any) -> Any:
        result = env.step(action)
        if result[2] or result[3]:
            env.reset()
        return result

    return step, [batch[0, 0].numpy() for batch in world.actions]


def _sb3(world: WorldsToOpen) -> OpenedInterface:
    from gpu_envs.views.sb3 import SB3VecEnv  # pyright: ignore[reportMissingImports]

    env = SB3VecEnv(world.env_id, world.num_envs, **world.copying)
    env.reset()
    return env.step, [batch.flatten(0, 1).numpy() for batch in world.actions]


def _torchrl(world: WorldsToOpen) -> OpenedInterface:
    """Open TorchRL's environment; finished worlds are reset by TorchRL, as in its collectors."""
    from gpu_envs.views.torchrl import TorchRLEnv  # pyright: ignore[reportMissingImports]

    env = TorchRLEnv(world.env_id, world.num_envs, **world.copying)
    present = env.reset()

    def step(batch: dict[str, torch.Tensor]) -> Any:
        nonlocal present
        for group, action in batch.items():
            present.set((group, "action"), action)
        played, present = env.step_and_maybe_reset(present)
        return played

    return step, [{name: batch[:, list(rows)] for name, rows in world.core.groups.items()} for batch in world.actions]


def _skrl(world: WorldsToOpen) -> OpenedInterface:
    from gpu_envs.views.skrl import make_skrl

    env = make_skrl(world.env_id, world.num_envs, **world.copying)
    env.reset()
    columns = [[column[:, None].clone() for column in batch.unbind(1)] for batch in world.actions]
    return env.step, [dict(zip(world.core.possible_agents, column, strict=True)) for column in columns]


INTERFACES: dict[str, Callable[[WorldsToOpen], OpenedInterface]] = {
    "dict": _dict,
    "rows": _rows,
    "numpy rows": partial(_rows, to_numpy=True),
    "pettingzoo": _parallel,
    "gymnasium env": _single,
    "sb3": _sb3,
    "torchrl": _torchrl,
    "skrl": _skrl,
}
NEEDS = {"sb3": "stable_baselines3", "torchrl": "torchrl", "skrl": "skrl"}
"""Library of an interface."""


def missing(interface: str) -> str | None:
    """Return the library of an interface if it is not installed, or None."""
    library = NEEDS.get(interface)
    return library if library and importlib.util.find_spec(library) is None else None
