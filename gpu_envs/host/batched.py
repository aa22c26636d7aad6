"""Environments of other libraries that step many worlds at once, on stacked tensors."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.errors import ConfigError, HostError
from gpu_envs.host.definition import HostDefinition, action_coder, groups_of
from gpu_envs.host.worlds import WorldBatch


class BatchedWorlds(Protocol):
    """E worlds with A agents that step at once, such as those of VMAS, EnvPool or JaxMARL behind a few lines.

    It receives tensors on the CPU, and returns tensors, NumPy arrays, or arrays of a library with DLPack. Worlds do not
    reset themselves. Where choices can be illegal it also has ``action_mask``, a property or an attribute that is there
    from the start: the legal choices (E, A, n) bool in the state that ``reset`` or ``step`` has returned last; n is the
    largest number of choices. None is as none.
    """

    num_envs: int
    """Number of worlds E."""
    agents: Sequence[str]
    """Names of the A agents, in row order."""
    observation_spaces: Mapping[str, spaces.Box]
    """Box by agent: (D,) float32 for all, or images of one shape."""
    action_spaces: Mapping[str, spaces.Space[Any]]
    """Discrete, MultiDiscrete or flat Box by agent, of one kind."""

    def reset(self, seed: torch.Tensor, mask: torch.Tensor) -> Any:
        """Start episodes with seeds (E,) int64 where a mask (E,) is True; return observations (E, A, ...)."""
        ...

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any]:
        """Play a step in every world with actions (E, A) or (E, A, K).

        Returns:
            Observations (E, A, ...), rewards (E, A), and who has terminated and who was truncated, (E, A) bool.
        """
        ...


def check_batched(label: str, env: Any) -> None:
    """Raise a ConfigError if worlds lack a part of `BatchedWorlds`; `label` begins the message."""
    for part in ("num_envs", "agents", "observation_spaces", "action_spaces", "reset", "step"):
        if not hasattr(env, part):
            raise ConfigError(f"{label}: expected {part} as in BatchedWorlds, got none")
    for part in (env.observation_spaces, env.action_spaces):
        if missing := [agent for agent in env.agents if agent not in part]:
            raise ConfigError(f"{label}: expected a space of every agent, got none of {missing[0]}")
    shapes = {env.observation_spaces[agent].shape for agent in env.agents}
    if len(shapes) != 1:
        raise ConfigError(f"{label}: expected observations of one shape, got {', '.join(map(str, sorted(shapes)))}")


def batched_definition(env: BatchedWorlds) -> HostDefinition:
    """Return agents and spaces; raise a ConfigError if an action space needs a conversion."""
    agents = tuple(env.agents)
    for agent in agents:
        space = env.action_spaces[agent]
        if action_coder(space, f"action space of {agent}")[0] != space:
            raise ConfigError(f"action space of {agent}: expected choices from 0 on or a flat Box, got {space}")
    observed, acted = dict(env.observation_spaces), {agent: env.action_spaces[agent] for agent in agents}
    has_masks = inspect.getattr_static(env, "action_mask", None) is not None
    if has_masks and any(isinstance(space, spaces.Box) for space in acted.values()):
        raise ConfigError("action_mask: expected none with continuous actions; leave it out")
    return HostDefinition(
        key=f"{type(env).__module__}.{type(env).__qualname__}",
        agents=agents,
        observation_spaces=observed,
        action_spaces=acted,
        groups=groups_of(agents, observed, acted),
        has_masks=has_masks,
    )


class BatchedRun(WorldBatch):
    """The commands of a batch, carried out by worlds that step at once."""

    def __init__(
        self, env: BatchedWorlds, arrays: Mapping[str, np.ndarray], resets: bool, limit: int, label: str
    ) -> None:
        """Bind the worlds to arrays, see `WorldBatch`."""
        super().__init__([], arrays, resets, limit, label)
        self._env: Any = env  # with masks or without

    def _current_world(self) -> str:
        return ""

    def _step_worlds(self, is_step: np.ndarray) -> None:
        arrays = self._arrays
        obs, *results = self._env.step(torch.from_numpy(arrays["action"].copy()))
        acted = arrays["alive"] & is_step[:, None]
        self._write_obs(obs, acted)
        for name, values in zip(("reward", "terminated", "truncated"), results, strict=True):
            arrays[name][acted] = _on_host(values, name, arrays[name].shape)[acted]
        self._write_masks(acted & ~arrays["terminated"] & ~arrays["truncated"])

    def _reset_worlds(self, starts: np.ndarray) -> None:
        arrays = self._arrays
        obs = self._env.reset(torch.from_numpy(arrays["next_seed"].copy()), torch.from_numpy(starts))
        arrays["alive"][starts] = True
        agents = np.broadcast_to(starts[:, None], arrays["alive"].shape)
        self._write_obs(obs, agents)
        self._write_masks(agents)

    def _write_obs(self, obs: Any, agents: np.ndarray) -> None:
        rows = self._arrays["obs"]
        shape = (*agents.shape, *next(iter(self._env.observation_spaces.values())).shape)
        rows[agents] = _on_host(obs, "observations", shape).reshape(rows.shape)[agents]

    def _write_masks(self, agents: np.ndarray) -> None:
        """Write the legal choices of agents (E, A)."""
        masks = self._arrays["action_mask"]
        if not masks.size:
            if getattr(self._env, "action_mask", None) is not None:
                raise HostError("action_mask: expected it from the start, not from the first reset; declare it before")
        else:
            masks[agents] = _on_host(self._env.action_mask, "action_mask", masks.shape)[agents]

    def render(self, world: int) -> np.ndarray | None:
        """Return None in place of a frame (H, W, 3)."""
        return None

    def close(self) -> None:
        """Close the worlds if they can be closed."""
        getattr(self._env, "close", lambda: None)()


def _on_host(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of any library, which must have a shape, as a NumPy array."""
    array = values if isinstance(values, np.ndarray) else torch.from_dlpack(values).cpu().numpy()
    if array.shape != shape:
        raise HostError(f"{name}: expected a shape {shape}, got {array.shape}")
    return array
