"""BenchMARL's tasks: every environment as a ``TaskClass`` over :class:`gpu_envs.views.torchrl.TorchRLEnv`."""
# BenchMARL needs an environment of its own: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields
from typing import Any

from gymnasium import spaces

from gpu_envs.config import build_config
from gpu_envs.errors import ConfigError, missing
from gpu_envs.registry import find, list_envs

try:
    from benchmarl.environments.common import Task, TaskClass
    from torchrl.data import Composite
    from torchrl.envs import EnvBase
except ModuleNotFoundError as error:
    home = "'benchmarl>=1.5', in a virtual environment of its own, since it needs an older TorchRL"
    raise missing(error, "gpu_envs.views.benchmarl", ("benchmarl", "tensordict", "torchrl"), home) from None
from gpu_envs.views.torchrl import TorchRLEnv


class GpuEnvsClass(TaskClass):
    """A task; ``GpuEnvsTask.SIMPLE_TAG.get_task({"max_cycles": 50})`` or, of any id, ``GpuEnvsClass("MyGame-v0", {})``.

    Args:
        name: A member's name of :class:`GpuEnvsTask`, or the id of an environment.
        config: Arguments of :class:`~gpu_envs.views.torchrl.TorchRLEnv` but for worlds, device and seed, which
            BenchMARL gives, and ``continuous_actions`` where the environment has both kinds: BenchMARL chooses. Critics
            and mixers get the global state unless it says ``return_state=False``.

    Raises:
        UnknownEnvironmentError: No environment has this name.
    """

    def __init__(self, name: str, config: dict[str, Any] | None = None) -> None:
        super().__init__(name, config)
        self.id = {_member(id): id for id in list_envs()}.get(name, name)
        self._settings, self._build = find(self.id).load()

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        """A function that makes E = ``num_envs`` worlds.

        Raises:
            ConfigError: Actions are multi-discrete; BenchMARL's algorithms take none of that kind.
        """
        if isinstance(self._action_space(), spaces.MultiDiscrete):
            raise ConfigError(f"{self.id}: BenchMARL takes no multi-discrete actions; use TorchRL and TorchRLEnv")
        config = {"return_state": True, **deepcopy(self.config)}
        if self._chooses():
            config["continuous_actions"] = continuous_actions
        return lambda: TorchRLEnv(self.id, num_envs, device, seed=seed, **config)

    def supports_continuous_actions(self) -> bool:
        """Whether its actions are, or can be, continuous."""
        return self._chooses() or isinstance(self._action_space(), spaces.Box)

    def supports_discrete_actions(self) -> bool:
        """Whether its actions are, or can be, discrete."""
        return self._chooses() or not isinstance(self._action_space(), spaces.Box)

    def max_steps(self, env: EnvBase) -> int:
        """Its time limit, where evaluation stops too.

        Raises:
            ConfigError: It has none.
        """
        limit = env.core.definition.max_steps
        if not limit:
            raise ConfigError(f"{self.id}: evaluation needs a time limit; put max_episode_steps into the task's config")
        return limit

    def has_render(self, env: EnvBase) -> bool:
        """True: world 0 can be drawn, without a window."""
        return True

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        """Agents by group."""
        return env.group_map

    def observation_spec(self, env: EnvBase) -> Composite:
        """What policies read: every group's "observation"."""
        return _part(env, "observation")

    def info_spec(self, env: EnvBase) -> Composite | None:
        """What else the environment tells, under "info"."""
        return _part(env, "info") if env.core.definition.info else None

    def state_spec(self, env: EnvBase) -> Composite | None:
        """The global state, unless the config leaves it out."""
        seen = env.full_observation_spec_unbatched
        return Composite({"state": seen["state"].clone()}) if env.return_state else None

    def action_spec(self, env: EnvBase) -> Composite:
        """Every group's "action"."""
        return env.full_action_spec_unbatched

    def action_mask_spec(self, env: EnvBase) -> Composite | None:
        """Every group's "action_mask", where actions can be illegal."""
        return _part(env, "action_mask") if env.core.action_mask is not None else None

    @staticmethod
    def env_name() -> str:
        """Name of this family of tasks."""
        return "gpu_envs"

    def _chooses(self) -> bool:
        """Its settings leave the kind of actions open."""
        return any(field.name == "continuous_actions" for field in fields(self._settings))

    def _action_space(self) -> spaces.Space:
        known = {field.name for field in fields(self._settings)}
        own = {name: value for name, value in self.config.items() if name in known}
        definition = self._build(build_config(self._settings, own, self.id))
        return definition.action_spaces[definition.agents[0]]


def _member(id: str) -> str:
    """SIMPLE_TAG of "SimpleTag-v0"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", id.rpartition("-")[0]).upper()


class _Tasks(Task):
    """What every task can, without any."""

    @staticmethod
    def associated_class() -> type[GpuEnvsClass]:
        """What :meth:`get_task` makes."""
        return GpuEnvsClass

    def get_from_yaml(self, path: str | None = None) -> TaskClass:
        """The task with the settings of a YAML file; without one, with the environment's defaults."""
        return self.get_task({}) if path is None else super().get_from_yaml(path)


GpuEnvsTask = _Tasks("GpuEnvsTask", [(_member(id), None) for id in list_envs()], module=__name__)
"""The environments that come with gpu_envs, as BenchMARL names tasks: ``GpuEnvsTask.SIMPLE_TAG``."""


def _part(env: EnvBase, key: str) -> Composite:
    """One entry of every group, without the axis of worlds."""
    seen = env.full_observation_spec_unbatched
    parts = {name: Composite({key: seen[name, key].clone()}, shape=seen[name].shape) for name in env.group_map}
    return Composite(parts)
