"""Worlds of Gymnasium's single-agent environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gpu_envs.errors import ConfigError, HostError, shown
from gpu_envs.host.definition import MASK, HostDefinition, action_coder, observation_coder
from gpu_envs.host.worlds import WorldRow

AGENT = "agent_0"
"""Name of the agent, as in this library's own environments with one agent."""


def make_world(source: str | Callable[..., Any], settings: dict[str, Any]) -> GymnasiumWorld:
    """Return a world of an environment.

    Args:
        source: An id such as "CartPole-v1" or "module:Name-v0", or a function that returns an environment.
        settings: Arguments of ``gymnasium.make`` or of the function.

    Raises:
        ConfigError: The id is unknown, a library is missing, or the function returns something else.
    """
    if isinstance(source, str):
        try:
            env = gymnasium.make(source, disable_env_checker=True, **settings)
        except (gymnasium.error.Error, ImportError) as error:
            raise ConfigError(f"gymnasium:{source}: {error}") from error
    else:
        env = source(**settings)
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"expected a gymnasium.Env, got {shown(env)}")
    return GymnasiumWorld(env)


class GymnasiumWorld:
    """A world of a ``gymnasium.Env``, with one agent."""

    def __init__(self, env: gymnasium.Env) -> None:
        self.env = env
        observed, self._encode = observation_coder(env.observation_space, "observation space")
        acted, self._decode = action_coder(env.action_space, "action space")
        self._in_obs = MASK in getattr(env.observation_space, "spaces", ())
        has_masks = self._in_obs or MASK in env.reset(seed=0)[1]
        self._has_masks = has_masks and not isinstance(acted, spaces.Box)
        self.definition: HostDefinition = HostDefinition(
            key=f"gymnasium {gymnasium.__version__}",
            agents=(AGENT,),
            observation_spaces={AGENT: observed},
            action_spaces={AGENT: acted},
            groups={"agent": (0,)},
            has_masks=self._has_masks,
            max_episode_steps=getattr(env.spec, "max_episode_steps", 0) or 0,
            render_fps=int(env.metadata.get("render_fps") or 10),
        )

    def reset(self, seed: int, row: WorldRow) -> None:
        """Start an episode, see `World.reset`."""
        obs, info = self.env.reset(seed=seed)
        row.alive[0] = True
        self._write(row, obs, info)

    def step(self, action: np.ndarray, row: WorldRow) -> None:
        """Play a step with actions (A,) or (A, K), see `World.step`."""
        obs, reward, terminated, truncated, info = self.env.step(self._decode(action[0]))
        row.reward[0], row.terminated[0], row.truncated[0] = reward, terminated, truncated
        self._write(row, obs, info)

    def _write(self, row: WorldRow, obs: Any, info: dict[str, Any]) -> None:
        """Write an observation and its legal choices; raise a HostError if it does not fit its space."""
        try:
            self._encode(obs, row.obs[0])
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"{error}; expected an observation of its space") from error
        if self._has_masks:
            mask = obs[MASK] if self._in_obs else info.get(MASK)
            row.action_mask[0] = True if mask is None else np.ravel(mask)

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3), or None."""
        frame = self.env.render() if self.env.render_mode == "rgb_array" else None
        return frame if isinstance(frame, np.ndarray) else None

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
