"""A single world as a ``pettingzoo.ParallelEnv``: NumPy values, and agents that leave are removed from the dicts."""

import dataclasses
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from gpu_envs.definition.registry import find
from gpu_envs.views.notebook import NotebookView
from gpu_envs.views.rebuild_on_copy import RebuildOnCopy
from gpu_envs.views.reset_options import single_seed
from gpu_envs.views.single_env import SingleEnv

__all__ = ["ParallelView", "parallel_env"]


Infos = dict[str, dict[str, Any]]  # by agent


def parallel_env(id: str, render_mode: str | None = None, **config: Any) -> "ParallelView":
    """Make a single world of an environment as a ``pettingzoo.ParallelEnv``.

    Args:
        id: "SimpleTag-v0", "gpu_envs/SimpleTag-v0", ... see :func:`gpu_envs.list_envs`.
        render_mode: "rgb_array", "human" or None.
        **config: Settings of the environment (see its page), ``device=`` (default "cpu") and the settings of
            :func:`gpu_envs.make`. ``max_cycles=``, PettingZoo's name for a time limit, is accepted by all environments.
            In one without such a setting, it truncates the episode.

    Raises:
        UnknownEnvironmentError: The id is not registered; the message names close matches.
        ConfigError: A setting does not exist or has an invalid value.
        DeviceError: The device is not available.
    """
    return ParallelView(id, render_mode, **config)


class ParallelView(NotebookView, ParallelEnv[str, Any, Any], RebuildOnCopy):
    """A single world for PettingZoo's users and tools; arguments as for :func:`parallel_env`.

    Observations are float32 arrays of the agent's own width. In environments with illegal actions they are dicts of
    "observation" and "action_mask" (int8), and infos have the mask too. Rewards are Python floats, flags Python bools.
    A pickled or copied environment is rebuilt from its arguments and needs a reset.

    In turn-based environments an illegal move loses the game, as in PettingZoo's classic games;
    ``illegal_actions="error"`` raises instead.
    """

    def __init__(self, id: str, render_mode: str | None = None, device: Any = "cpu", **config: Any) -> None:
        RebuildOnCopy.__init__(self, id, render_mode, device, **config)
        if config.get("max_cycles") is not None:
            fields = {field.name for field in dataclasses.fields(find(id).load()[0])}
            if "max_cycles" not in fields:
                config["max_episode_steps"] = config.pop("max_cycles")
        world = self._world = SingleEnv(id, device, render_mode, config)
        self.metadata: dict[str, Any] = world.metadata
        self.render_mode = render_mode
        self.possible_agents: list[str] = list(world.core.possible_agents)
        self.agents: list[str] = []
        self._np_random: np.random.Generator | None = None
        self.max_cycles: int = world.core.definition.max_episode_steps
        """Time limit [steps], read only; an assignment, as in PettingZoo's tests, has no effect."""
        self.observation_spaces: dict[str, spaces.Space[Any]] = dict(world.observation_spaces)
        self.action_spaces: dict[str, spaces.Space[Any]] = world.action_spaces
        if world.masked:
            for agent in self.possible_agents:
                self.observation_spaces[agent] = spaces.Dict(
                    {"observation": world.observation_spaces[agent], "action_mask": world.mask_space(agent)}
                )
        size = world.core.definition.global_state_size or sum(
            space.shape[0] for space in world.observation_spaces.values()
        )
        self.state_space: spaces.Box = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    @property
    def _shown_core(self) -> Any:
        return self._world.core

    @property
    def np_random(self) -> np.random.Generator:
        """Random generator for wrappers such as SuperSuit's; the world has a random stream of its own."""
        if self._np_random is None:
            self._np_random = seeding.np_random()[0]
        return self._np_random

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of an agent; the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of an agent; the same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Start an episode with all agents; a seed resets the random streams.

        ``options`` are reset options of the environment, as documented on its page. An unknown key raises a
        ConfigError. The key "options" is ignored, because PettingZoo's tests call ``reset(options={"options": 1})``.
        """
        if isinstance(options, dict):
            options = {name: value for name, value in options.items() if name != "options"}
        seed = single_seed(self._world.core, seed)
        if seed is not None:
            self._np_random = seeding.np_random(seed)[0]
        self._world.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._observations(self.agents), self._infos(self.agents)

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Play one step.

        Args:
            actions: A value of its action space for every agent of ``agents``.

        Returns:
            Dicts of observations, rewards, terminated, truncated and infos by agent that acted. Agents that are done
            are removed from ``agents``.

        After all agents have left, a step without actions returns empty dicts, as in PettingZoo's own environments;
        tools such as SuperSuit's black death rely on it.

        Raises:
            ActionError: An action is missing or invalid; the message names the agent and the world is unchanged.
            ResetNeededError: The environment was not reset, or there are actions after all agents have left.
        """
        if self._world.over and isinstance(actions, dict) and not actions:
            return {}, {}, {}, {}, {}
        self._world.step(actions)
        acted, self.agents = self.agents, list(self._world.agents)
        rewards, terminated, truncated = {}, {}, {}
        for agent in acted:
            rewards[agent], terminated[agent], truncated[agent] = self._world.outcome(agent)
        return self._observations(acted), rewards, terminated, truncated, self._infos(acted)

    def state(self) -> np.ndarray:
        """Return the global state (S,) float32, for centralized critics."""
        return self._world.state()

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3) uint8; None with ``render_mode="human"``, which shows it in a window."""
        return self._world.render()

    def close(self) -> None:
        """Release the environment."""
        self._world.close()

    def _observations(self, agents: list[str]) -> dict[str, Any]:
        world = self._world
        if not world.masked:
            return {agent: world.observation(agent) for agent in agents}
        return {
            agent: {"observation": world.observation(agent), "action_mask": world.action_mask(agent)}
            for agent in agents
        }

    def _infos(self, agents: list[str]) -> Infos:
        return {agent: self._world.info(agent) for agent in agents}
