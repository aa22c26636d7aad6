"""A single agent of a single world as a ``gymnasium.Env``, created by ``gymnasium.make``."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import env_summary
from gpu_envs.definition.registry import find
from gpu_envs.errors import ConfigError, ResetNeededError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import suggested_calls
from gpu_envs.utils.agent_rows import of_agent
from gpu_envs.utils.settings import MAX_INT, check_value
from gpu_envs.utils.summaries import Summary
from gpu_envs.views.batched import RENDER_MODES
from gpu_envs.views.notebook import NotebookView
from gpu_envs.views.reset_options import single_seed
from gpu_envs.views.scripted_agents import PolicyPlayer, scripted_policies
from gpu_envs.views.single_env import SingleEnv
from gpu_envs.views.specs import RebuildOnCopy, SpecInForce


class SingleAgentEnv(NotebookView, gymnasium.Env, RebuildOnCopy):
    """One agent of one world, as ``gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0")`` returns it.

    The episode ends when the agent leaves, with its own ``terminated`` or ``truncated``. If actions can be illegal,
    ``info["action_mask"]`` (int8) holds the legal ones. In turn-based environments an illegal move loses the game,
    unless ``illegal_actions="error"``. A copied environment is rebuilt from its arguments and needs a reset.

    Args:
        env_id: "SimpleTag-v0", ...
        agent: Name of the controlled agent; required if the environment has several.
        opponents: Policies of the other agents: "random" (legal actions from the world's own random streams), a policy
            of ``trainers``, a callable ``policy(observation) -> action``, or a dict of these by agent or group.
            Agents that are not in the dict act at random. If actions can be illegal, the signature is
            ``policy(observation, action_mask)``.
        skip_waiting: In games of turns, return only at the agent's own turns: a step also plays what the others do
            until the agent is to move again, and its reward is the sum over these moves. A game that is over before
            the agent's first turn is not returned. By default the agent is asked while it waits, too
            (``info["to_move"]`` is False), and its action is ignored.
        render_mode: "rgb_array", "human" or None.
        device: Device of the world.
        **config: Settings, as for :func:`gpu_envs.make`.
    """

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES}  # noqa: RUF012 as in gymnasium.Env
    spec = SpecInForce()  # type: ignore[assignment]

    def __init__(
        self,
        env_id: str,
        agent: str | None = None,
        opponents: Any = "random",
        skip_waiting: bool = False,
        render_mode: str | None = None,
        device: Any = "cpu",
        **config: Any,
    ) -> None:
        RebuildOnCopy.__init__(self, env_id, agent, opponents, skip_waiting, render_mode, device, **config)
        if find(env_id).max_episode_steps is not None:  # gymnasium.make truncates the episodes
            config.setdefault("max_episode_steps", MAX_INT)
        world = self._world = SingleEnv(env_id, device, render_mode, config, illegal_actions="saturate")
        core: Core
        self.core: Core
        core = self.core = world.core
        names = list(core.possible_agents)
        if agent is None and len(names) > 1:
            raise ConfigError(f"{core.id} has {len(names)} agents: {suggested_calls(core.id, core.definition, {})}")
        self.agent: str = names[0] if agent is None else agent
        self.action_space: spaces.Space[Any] = of_agent(core.id, world.action_spaces, self.agent)
        self.skip_waiting: bool = check_value(core.id, "skip_waiting", skip_waiting, bool)
        if skip_waiting and core.to_move is None:
            raise ConfigError(f"{core.id}: skip_waiting has no effect, because agents act at once; leave it out")
        policies, members = scripted_policies(core, opponents, [self.agent])
        self._opponents = {opponent: policies[name] for name, agents in members.items() for opponent in agents}
        self._players = [policy for policy in policies.values() if isinstance(policy, PolicyPlayer)]
        self.metadata = world.metadata
        self.render_mode = render_mode
        self.observation_space: spaces.Space[Any] = world.observation_spaces[self.agent]

    def _summary(self) -> Summary:
        core = self.core
        return env_summary(core.id, core.definition, core.config, [self.agent], agent=self.agent, device=core.device)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; a seed resets the random streams. The observation is (D,) float32.

        ``options`` are reset options of the environment, as documented on its page.
        """
        seed = single_seed(self.core, seed)
        super().reset(seed=seed)
        self._world.reset(seed, options)
        self._skip_waiting()
        while self.agent not in self._world.agents:  # the others have ended the game before the agent's first turn
            self._world.reset(None, options)
            self._skip_waiting()
        return self._world.observation(self.agent), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one step and return the agent's results; the observation is (D,) float32.

        Raises:
            ActionError: The action, or one of an opponent, is invalid; the world is unchanged.
            ResetNeededError: The environment was not reset, or the agent has left.
        """
        world = self._world
        world.check_running()
        if self.agent not in world.agents:
            raise ResetNeededError(f"{self.core.id}: the episode is over, {self.agent} has left; call reset()")
        if self._opponents and world.moves(self.agent):  # before any policy is queried
            world.check(self.agent, action)
        self._play({self.agent: action})
        reward, terminated, truncated = world.outcome(self.agent)
        if self.skip_waiting and not terminated and not truncated:
            more, terminated, truncated = self._skip_waiting()
            reward += more
        return world.observation(self.agent), reward, terminated, truncated, self._info()

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return a frame (H, W, 3) uint8; None with ``render_mode="human"``, which shows it in a window."""
        return self._world.render()

    def close(self) -> None:
        """Release the environment."""
        self._world.close()

    def _info(self) -> dict[str, Any]:
        world = self._world
        mask = {"action_mask": world.action_mask(self.agent)} if world.masked else {}
        return mask | world.info(self.agent)

    def _play(self, actions: dict[str, Any]) -> None:
        """Play a step with the actions of the other agents."""
        world, played = self._world, dict[str, Any]()
        for player in self._players:
            played |= player.by_agent()
        for agent in world.agents if self._opponents else ():
            if agent in played and world.moves(agent):
                actions[agent] = played[agent]
            elif agent in self._opponents and world.moves(agent):
                masks = (world.action_mask(agent),) if world.masked else ()
                actions[agent] = self._opponents[agent](world.observation(agent), *masks)
        world.step(actions, opponents_random=True)

    def _skip_waiting(self) -> tuple[float, bool, bool]:
        """Play steps until the agent is to move or has left, if so chosen; return its reward, terminated, truncated."""
        world, total, terminated, truncated = self._world, 0.0, False, False
        while self.skip_waiting and self.agent in world.agents and not world.moves(self.agent):
            self._play({})
            reward, terminated, truncated = world.outcome(self.agent)
            total += reward
        return total, terminated, truncated
