"""Train on JaxMARL, whose worlds step at once: gpu-envs train jaxmarl_worlds:make_worlds --env-arg num_agents=2.

Needs `pip install jaxmarl`, and this folder as the current one. Every world has its own random stream, so that it plays
the same in batches of any size but for rounding: XLA compiles each size anew.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
from gymnasium import spaces
from jax import Array
from jaxmarl.environments import MultiAgentEnv
from torch import Tensor

FAR = 2**30
"""Limit of JaxMARL's own episodes [steps]: JaxMARL reports its limit as an end, so that worlds are truncated here."""


class JaxWorld(NamedTuple):
    """A world of JaxMARL between two steps, or a batch of them."""

    obs: Array  # (A, D)
    mask: Array | None  # legal choices (A, n), if the environment has them
    state: Any
    key: Array
    steps: Array  # of the episode


class JaxmarlWorlds:
    """Worlds of an environment of JaxMARL, whose agents have observations of one shape and discrete actions."""

    def __init__(self, num_envs: int, name: str, max_steps: int, **settings: Any) -> None:
        env = self.env = jaxmarl.make(name, max_steps=FAR, **settings)
        self.num_envs, self.max_steps, self.agents = num_envs, max_steps, env.agents
        self.has_masks = type(env).get_avail_actions is not MultiAgentEnv.get_avail_actions
        self.observation_spaces = {
            agent: spaces.Box(-np.inf, np.inf, env.observation_space(agent).shape) for agent in env.agents
        }
        self.action_spaces = {agent: spaces.Discrete(env.action_space(agent).n) for agent in env.agents}
        self._start, self._play, self._chosen = map(jax.jit, map(jax.vmap, (self._start_one, self._play_one, _chosen)))
        self.worlds = self._start(jnp.zeros(num_envs, int))
        self.action_mask = self.worlds.mask

    def reset(self, seed: Tensor, mask: Tensor) -> Array:
        """Start episodes where the mask (E,) is True; return observations (E, A, D)."""
        started = self._start(jnp.asarray(seed.numpy()))
        self.worlds = self._chosen(jnp.asarray(mask.numpy()), started, self.worlds)
        self.action_mask = self.worlds.mask
        return self.worlds.obs

    def step(self, action: Tensor) -> tuple[Array, Array, Array, Array]:
        """Play a step; return observations (E, A, D), rewards, and who has terminated and was truncated, (E, A)."""
        self.worlds, *results = self._play(self.worlds, jnp.asarray(action.numpy()))
        self.action_mask = self.worlds.mask
        return self.worlds.obs, *results

    def _start_one(self, seed: Array) -> JaxWorld:
        key, draw = jax.random.split(jax.random.key(seed))
        obs, state = self.env.reset(draw)
        return JaxWorld(self._joined(obs), self._legal(state), state, key, jnp.array(0))

    def _play_one(self, world: JaxWorld, action: Array) -> tuple[JaxWorld, Array, Array, Array]:
        key, draw = jax.random.split(world.key)
        actions = dict(zip(self.agents, action, strict=True))
        obs, state, reward, done, _ = self.env.step_env(draw, world.state, actions)  # `step` would reset by itself
        steps = world.steps + 1
        terminated = jnp.broadcast_to(done["__all__"], len(self.agents))
        truncated = ~terminated & (steps >= self.max_steps)
        return (
            JaxWorld(self._joined(obs), self._legal(state), state, key, steps),
            self._joined(reward),
            terminated,
            truncated,
        )

    def _legal(self, state: Any) -> Array | None:
        return self._joined(self.env.get_avail_actions(state)).astype(bool) if self.has_masks else None

    def _joined(self, values: dict[str, Array]) -> Array:
        return jnp.stack([values[agent] for agent in self.agents])


def _chosen(starts: Array, started: JaxWorld, world: JaxWorld) -> JaxWorld:
    return jax.tree.map(partial(jnp.where, starts), started, world)


def make_worlds(
    num_envs: int, name: str = "MPE_simple_spread_v3", max_steps: int = 25, **settings: Any
) -> JaxmarlWorlds:
    """Return the worlds; the settings are those of ``jaxmarl.make``."""
    return JaxmarlWorlds(num_envs, name, max_steps, **settings)
