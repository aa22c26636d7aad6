"""A single world as a ``pettingzoo.ParallelEnv`` or a ``pettingzoo.AECEnv``, in NumPy."""

import dataclasses
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv

from gpu_envs.definition.registry import find
from gpu_envs.errors import ResetNeededError
from gpu_envs.utils.agent_rows import of_agent
from gpu_envs.views.notebook import NotebookView
from gpu_envs.views.reset_options import single_seed
from gpu_envs.views.single_env import SingleEnv
from gpu_envs.views.specs import RebuildOnCopy

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


def aec_env(id: str, render_mode: str | None = None, **config: Any) -> "AECView":
    """Make a single world of an environment as a ``pettingzoo.AECEnv``, in which one agent acts at a time.

    Arguments and errors are as in :func:`parallel_env`. A time limit counts steps of the world: moves in a game of
    turns.
    """
    return AECView(id, render_mode, **config)


class PettingZooView(NotebookView, RebuildOnCopy):
    """What both interfaces of PettingZoo have: spaces, seeds, the global state and frames.

    Observations are float32 arrays of the agent's own width. In environments with illegal actions they are dicts of
    "observation" and "action_mask" (int8). A pickled or copied environment is rebuilt from its arguments and needs a
    reset.

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
        self.core = world.core
        self.metadata: dict[str, Any] = world.metadata
        self.render_mode = render_mode
        self.possible_agents: list[str] = list(world.core.possible_agents)
        self.agents: list[str] = []
        self._np_random: np.random.Generator | None = None
        self.max_cycles: int = self.core.definition.max_episode_steps
        """Time limit [steps], read only; an assignment, as in PettingZoo's tests, has no effect."""
        self.observation_spaces: dict[str, spaces.Space[Any]] = dict(world.observation_spaces)
        self.action_spaces: dict[str, spaces.Space[Any]] = world.action_spaces
        if world.masked:
            for agent in self.possible_agents:
                self.observation_spaces[agent] = spaces.Dict(
                    {"observation": world.observation_spaces[agent], "action_mask": world.mask_space(agent)}
                )
        size = self.core.definition.global_state_size or sum(
            space.shape[0] for space in self.core.observation_spaces.values()
        )
        self.state_space: spaces.Box = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    @property
    def np_random(self) -> np.random.Generator:
        """Random generator for wrappers such as SuperSuit's; the world has its own random stream."""
        if self._np_random is None:
            self._np_random = seeding.np_random()[0]
        return self._np_random

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of an agent, the same object at every call; ConfigError if there is none."""
        return of_agent(self.core.id, self.observation_spaces, agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of an agent, the same object at every call; ConfigError if there is none."""
        return of_agent(self.core.id, self.action_spaces, agent)

    def state(self) -> np.ndarray:
        """Return the global state (S,) float32, for centralized critics."""
        return self._world.state()

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3) uint8; None with ``render_mode="human"``, which shows it in a window."""
        return self._world.render()

    def close(self) -> None:
        """Release the environment."""
        self._world.close()

    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode with all agents; see :meth:`ParallelView.reset`."""
        if isinstance(options, dict):
            options = {name: value for name, value in options.items() if name != "options"}
        seed = single_seed(self.core, seed)
        if seed is not None:
            self._np_random = seeding.np_random(seed)[0]
        self._world.reset(seed, options)
        self.agents = list(self.possible_agents)

    def _infos(self, agents: list[str]) -> Infos:
        return {agent: self._world.info(agent) for agent in agents}


class ParallelView(PettingZooView, ParallelEnv[str, Any, Any]):
    """A single world in which all agents act at once; arguments as for :func:`parallel_env`.

    Rewards are Python floats, flags Python bools. In games of turns every agent is asked at every step, and
    ``infos[agent]["to_move"]`` marks those whose action counts. :class:`AECView` asks only these.
    """

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Start an episode with all agents; a seed resets the random streams.

        ``options`` are reset options of the environment, as documented on its page. An unknown key raises a
        ConfigError. The key "options" is ignored, because PettingZoo's tests call ``reset(options={"options": 1})``.
        """
        self._start_episode(seed, options)
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

    def _observations(self, agents: list[str]) -> dict[str, Any]:
        world = self._world
        if not world.masked:
            return {agent: world.observation(agent) for agent in agents}
        return {
            agent: {"observation": world.observation(agent), "action_mask": world.action_mask(agent)}
            for agent in agents
        }


class AECView(PettingZooView, AECEnv[str, Any, Any]):
    """A single world in which one agent acts at a time; arguments as for :func:`aec_env`.

    ``agent_selection`` is an agent that decides on the next step of the world, never one that only waits. If several
    agents decide at once, they are asked one after another, and the world steps after the last of them.

    ``rewards`` has the rewards of the last action, and ``last()`` the sum since the agent's own last action. An agent
    sees the reward of its move when it is made: a winner gets its +1 by its last move.

    Agents that have left are selected once more, and then take the action None. In environments with illegal actions
    the mask of an agent that waits for others is all zeros, as in PettingZoo's classic games.
    """

    def __init__(self, id: str, render_mode: str | None = None, device: Any = "cpu", **config: Any) -> None:
        PettingZooView.__init__(self, id, render_mode, device, **config)
        self.metadata["is_parallelizable"] = self.core.to_move is None
        self.agent_selection: str = self.possible_agents[0]
        self.rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.infos: Infos = {}
        self._cumulative_rewards: dict[str, float] = {}
        self._actions: dict[str, Any] = {}  # of the agents that have decided on the next step
        self._deciding: list[str] = []  # agents that have not

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode with all agents and select the first one; see :meth:`ParallelView.reset`."""
        self._start_episode(seed, options)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = self._infos(self.agents)
        self._skip_agent_selection: str | None = None
        self._ask(self.agent_selection)

    def step(self, action: Any) -> None:
        """Let the selected agent act.

        Args:
            action: A value of its action space; None for an agent that has left.

        Raises:
            ActionError: The action is invalid; the world is unchanged and the agent is still selected.
            ResetNeededError: The environment was not reset, or all agents have left.
            ValueError: An agent that has left acts.
        """
        world, agent = self._world, self.agent_selection
        if not self.agents:
            world.check_running()
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        world.check(agent, action)
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0.0
        self._actions[agent] = action
        self._deciding.remove(agent)
        if self._deciding:
            self.agent_selection = self._deciding[0]
            return
        world.step(self._actions)
        for name in self.agents:
            self.rewards[name], self.terminations[name], self.truncations[name] = world.outcome(name)
        self.infos = self._infos(self.agents)
        self._accumulate_rewards()
        self._ask(agent)

    def observe(self, agent: str) -> Any:
        """Return the observation of an agent, a dict with its mask in environments with illegal actions.

        Raises:
            ResetNeededError: The environment was not reset.
        """
        world = self._world
        if not world.started:
            raise ResetNeededError(f"{world.core.id}: observe before the first reset; call reset() first")
        observation = world.observation(agent)
        if not world.masked:
            return observation
        mask = world.action_mask(agent)
        if agent in world.agents and agent not in self._deciding:
            mask = tuple(map(np.zeros_like, mask)) if isinstance(mask, tuple) else np.zeros_like(mask)
        return {"observation": observation, "action_mask": mask}

    def _ask(self, last: str) -> None:
        """Select an agent that has left, from the one after the agent that acted last, or else one that decides."""
        world = self._world
        self._actions = {}
        self._deciding = [agent for agent in world.agents if world.moves(agent)]
        if self._deciding:
            self.agent_selection = self._deciding[0]
        if len(world.agents) < len(self.agents):
            after = self.agents.index(last) + 1
            order = self.agents[after:] + self.agents[:after]
            self._skip_agent_selection = self.agent_selection
            self.agent_selection = next(agent for agent in order if agent not in world.agents)
