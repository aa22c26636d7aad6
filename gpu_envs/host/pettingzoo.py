"""Worlds of PettingZoo: parallel environments, and those in which agents take turns (AEC)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pettingzoo
from gymnasium import spaces

from gpu_envs.errors import ConfigError, HostError, shown
from gpu_envs.host.definition import (
    MASK,
    HostDefinition,
    action_coder,
    groups_of,
    observation_coder,
)
from gpu_envs.host.worlds import World, WorldRow


def make_world(source: str | Callable[..., Any], settings: dict[str, Any]) -> World:
    """Return a world of a PettingZoo environment.

    Args:
        source: Module with ``parallel_env`` or ``env``, such as "pettingzoo.butterfly.pistonball_v6", or a function
            that returns an environment.
        settings: Arguments of the function.

    Raises:
        ConfigError: The module or function does not exist, fails, or returns something else.
    """
    if isinstance(source, str):
        try:
            module = importlib.import_module(source)
        except ImportError as error:
            raise ConfigError(f"pettingzoo:{source}: {error}; install what the environment needs") from error
        make_env = getattr(module, "parallel_env", None) or getattr(module, "env", None)
        if not callable(make_env):
            raise ConfigError(f"pettingzoo:{module.__name__}: expected parallel_env or env in the module, got neither")
    else:
        make_env = source
    env = make_env(**settings)
    if isinstance(env, pettingzoo.ParallelEnv):
        return ParallelWorld(env)
    if isinstance(env, pettingzoo.AECEnv):
        return TurnsWorld(env)
    raise ConfigError(f"expected a ParallelEnv or AECEnv of PettingZoo, got {shown(env)}")


class _Agents:
    """Agents and spaces of a PettingZoo environment, and the writing of its observations and masks."""

    def __init__(self, env: Any, turns: bool) -> None:
        """Read the spaces; one reset shows whether infos have action masks."""
        self.env = env
        agents = self.names = tuple(env.possible_agents)
        self.index: dict[Any, int] = {agent: row for row, agent in enumerate(agents)}
        names = tuple(str(agent) for agent in agents)
        observed, acted = {}, {}
        self._encode, self.decode = [], []
        for agent, name in zip(agents, names, strict=True):
            observed[name], encode = observation_coder(env.observation_space(agent), f"observation space of {name}")
            acted[name], decode = action_coder(env.action_space(agent), f"action space of {name}")
            self._encode.append(encode)
            self.decode.append(decode)
        spaces_of = [env.observation_space(agent) for agent in agents]
        self._in_obs = all(MASK in getattr(space, "spaces", ()) for space in spaces_of)
        infos = env.reset(seed=0)
        infos = env.infos if turns else infos[1]
        self._in_info = not self._in_obs and any(MASK in info for info in infos.values())
        is_discrete = not any(isinstance(space, spaces.Box) for space in acted.values())
        self.has_masks = is_discrete and (turns or self._in_obs or self._in_info)
        self._choices = [spaces.flatdim(acted[name]) for name in names]
        limit = getattr(env.unwrapped, "max_cycles", 0)
        fps = getattr(env, "metadata", {}).get("render_fps", 10)
        self.definition = HostDefinition(
            key=f"pettingzoo {pettingzoo.__version__}",
            agents=names,
            observation_spaces=observed,
            action_spaces=acted,
            groups=groups_of(names, observed, acted),
            has_masks=self.has_masks,
            turn_based=turns,
            roles={name: (name,) for name in names} if turns and len(names) > 1 else {},
            max_episode_steps=limit if isinstance(limit, int) and limit > 0 else 0,
            render_fps=int(fps),
        )

    def write(self, row: WorldRow, agent: Any, obs: Any, info: Any, acts: bool) -> None:
        """Write the observation of an agent, and its legal choices if it acts; HostError if they do not fit."""
        index = self.index[agent]
        try:
            self._encode[index](obs, row.obs[index])
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"observation of {agent}: {error}; expected one of its space") from error
        if acts and self.has_masks:
            mask = obs[MASK] if self._in_obs else info.get(MASK)
            row.action_mask[index, : self._choices[index]] = True if mask is None else np.ravel(mask)

    def render(self) -> np.ndarray | None:
        frame = self.env.render() if getattr(self.env, "render_mode", None) == "rgb_array" else None
        return frame if isinstance(frame, np.ndarray) else None


class ParallelWorld:
    """A world of a ``pettingzoo.ParallelEnv``."""

    def __init__(self, env: Any) -> None:
        self.env, self._agents = env, _Agents(env, turns=False)
        self._live: dict[Any, None] = {}  # in the order of the environment
        self.definition: HostDefinition = self._agents.definition

    def reset(self, seed: int, row: WorldRow) -> None:
        """Start an episode, see `World.reset`."""
        observations, infos = self.env.reset(seed=seed)
        self._set_live(row, (), ())
        for agent in self._live:
            self._agents.write(row, agent, observations[agent], infos.get(agent, {}), True)

    def step(self, action: np.ndarray, row: WorldRow) -> None:
        """Play a step with actions (A,) or (A, K); raise a HostError if an agent leaves without a flag."""
        agents, actors = self._agents, self._live
        index, decode = agents.index, agents.decode
        actions = {agent: decode[index[agent]](action[index[agent]]) for agent in actors}
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        done = {agent for agent in actors if terminated.get(agent, False) or truncated.get(agent, False)}
        self._set_live(row, actors, done)
        for agent in actors:
            row.reward[index[agent]] = rewards.get(agent, 0.0)
            if agent in done:
                row.terminated[index[agent]] = terminated.get(agent, False)
                row.truncated[index[agent]] = truncated.get(agent, False)
            elif agent not in self._live:
                raise HostError(f"{agent}: expected its end in terminations or truncations, got an agent that left")
            if agent in observations:
                agents.write(row, agent, observations[agent], infos.get(agent, {}), agent not in done)
        for agent in self._live:
            if agent not in actors:  # agents that join in the middle of an episode
                agents.write(row, agent, observations[agent], infos.get(agent, {}), True)

    def _set_live(self, row: WorldRow, actors: Collection[Any], done: Collection[Any]) -> None:
        """Read which agents act on the next step: those that have not just left; raise a HostError for unknown ones.

        Args:
            row: Row of the world.
            actors: Agents that have acted on this step.
            done: Agents that have left in this step.
        """
        index = self._agents.index
        self._live = {agent: None for agent in self.env.agents if agent not in done}
        for agent in self._live:
            if agent not in index:
                raise HostError(f"expected agents among possible_agents, got {agent!r}")
            if agent not in actors:
                row.alive[index[agent]] = True

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3), or None."""
        return self._agents.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class TurnsWorld:
    """A world of a ``pettingzoo.AECEnv``. A step is the action of the agent to move."""

    def __init__(self, env: Any) -> None:
        self.env, self._agents = env, _Agents(env, turns=True)
        self._live: list[Any] = []
        self.definition: HostDefinition = self._agents.definition

    def reset(self, seed: int, row: WorldRow) -> None:
        """Start an episode, see `World.reset`."""
        self.env.reset(seed=seed)
        self._live = list(self.env.agents)
        for agent in self._live:
            row.alive[self._agents.index[agent]] = True
        self._observe(row, self._live)

    def step(self, action: np.ndarray, row: WorldRow) -> None:
        """Play a step with actions (A,) or (A, K); raise a HostError if an agent leaves without a flag."""
        env, index, actors = self.env, self._agents.index, self._live
        mover = env.agent_selection
        env.step(self._agents.decode[index[mover]](action[index[mover]]))
        if lost := [agent for agent in actors if agent not in env.agents]:
            raise HostError(f"{lost[0]}: expected its end in terminations or truncations, got an agent that left")
        self._live = [agent for agent in env.agents if not (env.terminations[agent] or env.truncations[agent])]
        for agent in actors:
            row.reward[index[agent]] = env.rewards.get(agent, 0.0)
            if agent not in self._live:
                row.terminated[index[agent]] = env.terminations[agent]
                row.truncated[index[agent]] = env.truncations[agent]
        joined = [agent for agent in self._live if agent not in actors]
        for agent in joined:
            row.alive[index[agent]] = True
        self._observe(row, [*actors, *joined])

    def _observe(self, row: WorldRow, observers: Collection[Any]) -> None:
        """Write observations of live agents and of those that have just left, and who moves next."""
        env, agents, live = self.env, self._agents, self._live
        mover = env.agent_selection if live else None
        for agent in observers:
            agents.write(row, agent, env.observe(agent), env.infos.get(agent, {}), agent == mover and agent in live)
        while env.agents and env.agent_selection not in live:
            env.step(None)  # agents that have left take a step without an action
        if live:
            if env.agent_selection != mover:
                mover = env.agent_selection
                agents.write(row, mover, env.observe(mover), env.infos.get(mover, {}), True)
            row.to_move[agents.index[mover]] = True

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3), or None."""
        return self._agents.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
