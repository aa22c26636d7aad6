"""BenchMARL tasks: every environment as a ``TaskClass`` over :class:`gpu_envs.views.torchrl.TorchRLEnv`."""
# BenchMARL needs a separate virtual environment: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields
from typing import Any

from gymnasium import spaces

from gpu_envs.definition.registry import find, list_envs
from gpu_envs.errors import ConfigError, missing_extra
from gpu_envs.utils.settings import build_config

try:
    from benchmarl.environments.common import Task, TaskClass
    from torchrl.data import Composite
    from torchrl.envs import EnvBase
except ModuleNotFoundError as error:
    home = "'benchmarl>=1.5', in a separate virtual environment, since it needs an older TorchRL"
    raise missing_extra(error, "gpu_envs.views.benchmarl", ("benchmarl", "tensordict", "torchrl"), home) from None
from gpu_envs.views.torchrl import TorchRLEnv


class GpuEnvsClass(TaskClass):
    """Task of one environment.

    Get it by ``GpuEnvsTask.SIMPLE_TAG.get_task({"max_cycles": 50})`` or, for any id, ``GpuEnvsClass("MyGame-v0", {})``.

    Args:
        name: Name of a member of :class:`GpuEnvsTask`, or id of an environment.
        config: Arguments of :class:`~gpu_envs.views.torchrl.TorchRLEnv`, except the number of worlds, the device and
            the seed, which BenchMARL sets. BenchMARL also sets ``continuous_actions`` of environments with this
            setting. Critics and mixers get the global state unless ``return_state`` is False.

    Raises:
        UnknownEnvironmentError: No environment has this name.
    """

    def __init__(self, name: str, config: dict[str, Any] | None = None) -> None:
        super().__init__(name, config)
        self.id: str = {_member(id): id for id in list_envs()}.get(name, name)
        self._settings, self._build = find(self.id).load()

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        """Return a function that creates an environment of ``num_envs`` worlds.

        Raises:
            ConfigError: Actions are multi-discrete, which BenchMARL's algorithms do not support.
        """
        if isinstance(self._action_space(), spaces.MultiDiscrete):
            raise ConfigError(f"{self.id}: BenchMARL takes no multi-discrete actions; use TorchRL and TorchRLEnv")
        config = {"return_state": True, **deepcopy(self.config)}
        if self._chooses():
            config["continuous_actions"] = continuous_actions
        return lambda: TorchRLEnv(self.id, num_envs, device, seed=seed, **config)

    def supports_continuous_actions(self) -> bool:
        """Return whether continuous actions are available."""
        return self._chooses() or isinstance(self._action_space(), spaces.Box)

    def supports_discrete_actions(self) -> bool:
        """Return whether discrete actions are available."""
        return self._chooses() or not isinstance(self._action_space(), spaces.Box)

    def max_steps(self, env: EnvBase) -> int:
        """Return the time limit, which also ends evaluation episodes.

        Raises:
            ConfigError: The environment has no time limit.
        """
        limit = env.core.definition.max_episode_steps
        if not limit:
            raise ConfigError(f"{self.id}: evaluation needs a time limit; set max_episode_steps in the task's config")
        return limit

    def has_render(self, env: EnvBase) -> bool:
        """Return True: world 0 is rendered without a window."""
        return True

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        """Return the agents by group."""
        return env.group_map

    def observation_spec(self, env: EnvBase) -> Composite:
        """Return the spec of every group's "observation"."""
        return _part(env, "observation")

    def info_spec(self, env: EnvBase) -> Composite | None:
        """Return the spec of every group's "info", or None without info entries."""
        return _part(env, "info") if env.core.definition.info else None

    def state_spec(self, env: EnvBase) -> Composite | None:
        """Return the spec of the global state, or None with ``return_state=False``."""
        spec = env.full_observation_spec_unbatched
        return Composite({"state": spec["state"].clone()}) if env.return_state else None

    def action_spec(self, env: EnvBase) -> Composite:
        """Return the spec of every group's "action"."""
        return env.full_action_spec_unbatched

    def action_mask_spec(self, env: EnvBase) -> Composite | None:
        """Return the spec of every group's "action_mask", or None if all actions are legal."""
        return _part(env, "action_mask") if env.core.action_mask is not None else None

    @staticmethod
    def env_name() -> str:
        """Return the name of this family of tasks."""
        return "gpu_envs"

    def _chooses(self) -> bool:
        """Return whether the kind of actions is a setting of the environment."""
        return any(field.name == "continuous_actions" for field in fields(self._settings))

    def _action_space(self) -> spaces.Space[Any]:
        names = {field.name for field in fields(self._settings)}
        settings = {name: value for name, value in self.config.items() if name in names}
        definition = self._build(build_config(self._settings, settings, self.id))
        return definition.action_spaces[definition.agents[0]]


def _member(id: str) -> str:
    """Return the member name of an id: SIMPLE_TAG for "SimpleTag-v0"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", id.rpartition("-")[0]).upper()


class _Tasks(Task):
    """Enumeration of tasks, without members."""

    @staticmethod
    def associated_class() -> type[GpuEnvsClass]:
        """Return the class of the tasks that :meth:`get_task` returns."""
        return GpuEnvsClass

    def get_from_yaml(self, path: str | None = None) -> TaskClass:
        """Return the task with the settings of a YAML file, or with the environment's defaults."""
        return self.get_task({}) if path is None else super().get_from_yaml(path)


GpuEnvsTask: _Tasks = _Tasks("GpuEnvsTask", [(_member(id), None) for id in list_envs()], module=__name__)
"""Environments of gpu_envs as an enumeration of BenchMARL tasks: ``GpuEnvsTask.SIMPLE_TAG``."""


def _part(env: EnvBase, key: str) -> Composite:
    """Return the spec of one entry of every group, without the axis of worlds."""
    spec = env.full_observation_spec_unbatched
    parts = {name: Composite({key: spec[name, key].clone()}, shape=spec[name].shape) for name in env.group_map}
    return Composite(parts)
