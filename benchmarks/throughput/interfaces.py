"""Each interface as a function of one step, to measure its overhead over ``core.step``."""

import importlib.util
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import torch

import gpu_envs
from gpu_envs.runtime.core import Core

OpenedInterface: TypeAlias = tuple[Callable[[Any], Any], list[Any]]
"""Function of one step, and its actions in turn."""
Interface: TypeAlias = Callable[[str, int, dict[str, Any], Core, list[torch.Tensor]], OpenedInterface]
"""(id, worlds, settings, a core of the same, random actions (E, A[, K])) -> function of a step, actions for it."""


def _dict(
    env_id: str, num_envs: int, settings: dict[str, Any], core: Core, actions: list[torch.Tensor]
) -> OpenedInterface:
    env = gpu_envs.make(env_id, num_envs, **settings)
    env.reset()
    names = env.possible_agents
    columns = [[column.clone() for column in batch.unbind(1)] for batch in actions]
    return env.step, [dict(zip(names, column, strict=True)) for column in columns]


def _rows(
    env_id: str,
    num_envs: int,
    settings: dict[str, Any],
    core: Core,
    actions: list[torch.Tensor],
    to_numpy: bool = False,
) -> OpenedInterface:
    env: Any = gymnasium.make_vec(
        f"gpu_envs/{env_id}", num_envs, to_numpy=to_numpy, autoreset_mode="same_step", **settings
    )
    env.reset()
    rows = [batch.flatten(0, 1) for batch in actions]
    return env.step, [batch.numpy() for batch in rows] if to_numpy else rows


def _numpy_rows(*arguments: Any) -> OpenedInterface:
    return _rows(*arguments, to_numpy=True)


def _parallel(
    env_id: str, num_envs: int, settings: dict[str, Any], core: Core, actions: list[torch.Tensor]
) -> OpenedInterface:
    """Open one world for PettingZoo, reset after all agents are done."""
    env = gpu_envs.parallel_env(env_id, **_copying(settings))
    env.reset()

    def step(action: dict[str, Any]) -> Any:
        if not env.agents:
            env.reset()
        return env.step({agent: action[agent] for agent in env.agents})

    return step, [dict(zip(env.possible_agents, batch[0].numpy(), strict=True)) for batch in actions]


def _single(
    env_id: str, num_envs: int, settings: dict[str, Any], core: Core, actions: list[torch.Tensor]
) -> OpenedInterface:
    """Open one agent of one world for Gymnasium with random other agents, reset at the end of an episode."""
    env = gymnasium.make(f"gpu_envs/{env_id}", agent=core.possible_agents[0], **_copying(settings))
    env.reset()

    def step(action: Any) -> Any:
        result = env.step(action)
        if result[2] or result[3]:
            env.reset()
        return result

    return step, [batch[0, 0].numpy() for batch in actions]


def _sb3(
    env_id: str, num_envs: int, settings: dict[str, Any], core: Core, actions: list[torch.Tensor]
) -> OpenedInterface:
    from gpu_envs.views.sb3 import SB3VecEnv  # pyright: ignore[reportMissingImports]

    env = SB3VecEnv(env_id, num_envs, **_copying(settings))
    env.reset()
    return env.step, [batch.flatten(0, 1).numpy() for batch in actions]


def _torchrl(
    env_id: str, num_envs: int, settings: dict[str, Any], core: Core, actions: list[torch.Tensor]
) -> OpenedInterface:
    """Open TorchRL's environment; finished worlds are reset by TorchRL, as in its collectors."""
    from gpu_envs.views.torchrl import TorchRLEnv  # pyright: ignore[reportMissingImports]

    env = TorchRLEnv(env_id, num_envs, **_copying(settings))
    present = env.reset()

    def step(batch: dict[str, torch.Tensor]) -> Any:
        nonlocal present
        for group, action in batch.items():
            present.set((group, "action"), action)
        played, present = env.step_and_maybe_reset(present)
        return played

    return step, [{name: batch[:, list(rows)] for name, rows in core.groups.items()} for batch in actions]


def _skrl(
    env_id: str, num_envs: int, settings: dict[str, Any], core: Core, actions: list[torch.Tensor]
) -> OpenedInterface:
    from gpu_envs.views.skrl import make_skrl

    env = make_skrl(env_id, num_envs, **_copying(settings))
    env.reset()
    columns = [[column[:, None].clone() for column in batch.unbind(1)] for batch in actions]
    return env.step, [dict(zip(core.possible_agents, column, strict=True)) for column in columns]


def _copying(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of views that decide themselves whether results are copies."""
    return {name: value for name, value in settings.items() if name != "reuse_buffers"}


INTERFACES: dict[str, Interface] = {
    "dict": _dict,
    "rows": _rows,
    "numpy rows": _numpy_rows,
    "pettingzoo": _parallel,
    "gymnasium env": _single,
    "sb3": _sb3,
    "torchrl": _torchrl,
    "skrl": _skrl,
}
NEEDS: dict[str, tuple[str, ...]] = {
    "sb3": ("stable_baselines3", "gpu_envs.views.sb3"),
    "torchrl": ("torchrl", "gpu_envs.views.torchrl"),
    "skrl": ("skrl", "gpu_envs.views.skrl"),
}
"""Additional modules of an interface."""


def missing(interface: str) -> str | None:
    """Return the first missing module of an interface, or None."""
    for module in NEEDS.get(interface, ()):
        try:
            if importlib.util.find_spec(module) is None:
                return module
        except ModuleNotFoundError:  # the package is missing
            return module
    return None
