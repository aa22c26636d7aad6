"""One world as a true ``pettingzoo.ParallelEnv``: NumPy in and out, and who leaves the world leaves the dicts."""

import dataclasses
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from gpu_envs.registry import find
from gpu_envs.views.anew import Anew
from gpu_envs.views.options import one_seed
from gpu_envs.views.single import OneWorld

Infos = dict[str, dict[str, Any]]  # by agent


def parallel_env(id: str, render_mode: str | None = None, **config: Any) -> "ParallelView":
    """Make a single world of an environment as a ``pettingzoo.ParallelEnv``.

    Args:
        id: "SimpleTag-v0", "gpu_envs/SimpleTag-v0", ... see :func:`gpu_envs.list_envs`.
        render_mode: "rgb_array", "human" or None.
        **config: Settings of the environment (see its page); ``device=`` ("cpu" by default) and the runner's others, as
            for :func:`gpu_envs.make`. ``max_cycles=``, PettingZoo's word for a time limit, works everywhere: where an
            environment has no such setting, it cuts the episode (truncation).

    Raises:
        UnknownEnvironmentError: No such id; names close matches.
        ConfigError: A setting that does not exist or has a bad value.
        DeviceError: The device is not there.
    """
    return ParallelView(id, render_mode, **config)


class ParallelView(ParallelEnv[str, Any, Any], Anew):
    """A single world for PettingZoo's users and tools; arguments as :func:`parallel_env`.

    Observations are float32 arrays of the agent's true width. Where an environment has illegal actions they are dicts
    of "observation" and "action_mask" (int8), and infos hold the mask too. Rewards are Python floats, flags Python
    bools. A pickled or copied environment is made anew from its arguments, and needs a reset.

    Where agents take turns an illegal move loses, as in PettingZoo's classic games; ``illegal="error"`` raises instead.
    """

    def __init__(self, id: str, render_mode: str | None = None, device: Any = "cpu", **config: Any) -> None:
        Anew.__init__(self, id, render_mode, device, **config)
        if config.get("max_cycles") is not None:
            fields = {field.name for field in dataclasses.fields(find(id).load()[0])}
            if "max_cycles" not in fields:
                config["max_episode_steps"] = config.pop("max_cycles")
        world = self._world = OneWorld(id, device, render_mode, config)
        self.metadata = world.metadata
        self.render_mode = render_mode
        self.possible_agents = list(world.core.possible_agents)
        self.agents: list[str] = []
        self._np_random: np.random.Generator | None = None
        self.max_cycles = world.core.definition.max_steps
        """The time limit [steps], for reading; PettingZoo's tests assign to it, which changes nothing."""
        self.observation_spaces = dict(world.observation_spaces)
        self.action_spaces = world.action_spaces
        if world.masked:
            for agent in self.possible_agents:
                mask = spaces.Box(0, 1, (world.mask_size(agent),), np.int8)
                self.observation_spaces[agent] = spaces.Dict(
                    {"observation": world.observation_spaces[agent], "action_mask": mask}
                )
        size = world.core.definition.global_state_size or sum(
            space.shape[0] for space in world.observation_spaces.values()
        )
        self.state_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    @property
    def np_random(self) -> np.random.Generator:
        """Random numbers for wrappers that look for them here, as SuperSuit's do; worlds have streams of their own."""
        if self._np_random is None:
            self._np_random = seeding.np_random()[0]
        return self._np_random

    def observation_space(self, agent: str) -> spaces.Space:
        """Observation space of an agent; the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """Action space of an agent; the same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Start an episode with all agents. A seed starts the random streams again.

        ``options`` are the environment's own, see its page. An unknown key is a ConfigError, but for "options": its
        value is ignored, because PettingZoo's own tests call ``reset(options={"options": 1})``.
        """
        if isinstance(options, dict):
            options = {name: value for name, value in options.items() if name != "options"}
        seed = one_seed(self._world.core, seed)
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
            actions: For every agent of ``agents`` a value of its action space.

        Returns:
            Dicts by agent that acted: observations, rewards, terminated, truncated, infos. Who is done has left
            ``agents``.

        Where all agents have left, no actions give empty dicts, as PettingZoo's own environments do; tools such as
        SuperSuit's black death count on it.

        Raises:
            ActionError: Naming the agent; nothing has moved.
            ResetNeededError: Before the first reset, and actions where all agents have left.
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
        """Global state (S,) for centralised critics, float32."""
        return self._world.state()

    def render(self) -> np.ndarray | None:
        """The world as uint8 (H, W, 3); None with ``render_mode="human"``, which shows it in a window."""
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
