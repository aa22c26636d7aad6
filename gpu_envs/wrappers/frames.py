"""Wrapper that stacks the last observations of every row."""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.utils import create_zero_array

from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import check_value
from gpu_envs.wrappers.base import TensorWrapper, expand_rows, observed_rows

MAX_FRAMES = 1024
"""Largest number of stacked observations."""


class FrameStackObservation(TensorWrapper):
    """Return the last ``stack_size`` observations, oldest first: ``(num_envs, stack_size, *shape)``, in their dtype.

    At the start of an episode the earlier frames are padding. With SAME_STEP, ``info["final_obs"]`` is the stack at the
    end of the agent. Agents that have left get zeros.

    Args:
        env: Rows of tensors.
        stack_size: Number of frames, K, at most 1024.
        padding_type: "reset" repeats the first observation of an episode, "zero" pads with zeros (or the bound nearest
            to 0). An observation of the space is used as padding itself.

    Raises:
        ConfigError: The stack size is outside of [1, 1024], or the padding is invalid.
    """

    def __init__(self, env: VectorEnv, stack_size: int, *, padding_type: str | np.ndarray = "reset") -> None:
        super().__init__(env)
        stack_size = check_value("FrameStackObservation", "stack_size", stack_size, int, ge=1)
        if stack_size > MAX_FRAMES:
            raise ConfigError(f"FrameStackObservation: stack_size: expected at most {MAX_FRAMES}, got {stack_size}")
        single = self._box(env.single_observation_space, "observation")
        zeros = torch.tensor(create_zero_array(single), device=self.device)
        self._padding: torch.Tensor | None = None  # (*shape); None repeats the first observation
        if isinstance(padding_type, str) and padding_type == "zero":
            self._padding = zeros
        elif isinstance(padding_type, np.ndarray | list | tuple) and single.contains(padding_type):
            self._padding = torch.tensor(np.asarray(padding_type), dtype=zeros.dtype, device=self.device)
        elif not isinstance(padding_type, str) or padding_type != "reset":
            raise ConfigError(
                f"FrameStackObservation: padding_type: expected 'reset', 'zero' or an observation of {single}, "
                f"got {shown(padding_type)}"
            )
        self.stack_size = stack_size
        self.padding_type = padding_type if isinstance(padding_type, str) else "_custom"
        self.single_observation_space = batch_space(single, self.stack_size)
        shape = (self.num_envs, self.stack_size, *single.shape)
        self._frames = zeros.new_zeros(shape)  # of the current episodes
        self._last = torch.zeros_like(self._frames)  # of the last step in which the agent acted

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Start new episodes; return stacks ``(num_envs, stack_size, *shape)``, padded before the first observation."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._frames = torch.where(expand_rows(self._reset_rows(options), self._frames), self._first(obs), self._frames)
        return self._frames.clone(), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            latest = torch.where(expand_rows(info["_final_obs"], obs), info["final_obs"], obs)
            self._last = torch.where(expand_rows(info["valid"], self._frames), self._pushed(latest), self._last)
            info = {**info, "final_obs": self._last.clone()}
        started = self._restarted(terminated | truncated)
        frames = torch.where(expand_rows(started, self._frames), self._first(obs), self._pushed(obs))
        self._frames = frames.masked_fill(~expand_rows(observed_rows(info), frames), 0)
        return self._frames.clone(), rewards, terminated, truncated, info

    def _pushed(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.cat((self._frames[:, 1:], obs[:, None]), 1)

    def _first(self, obs: torch.Tensor) -> torch.Tensor:
        """Return stacks ``(num_envs, stack_size, *shape)`` of padding and the first observation of an episode."""
        padding = obs[:, None] if self._padding is None else self._padding
        return torch.cat((padding.expand_as(self._frames)[:, 1:], obs[:, None]), 1)
