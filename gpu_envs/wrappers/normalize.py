"""Running statistics of observations and rewards on the device."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gpu_envs.config import check_value
from gpu_envs.errors import ConfigError
from gpu_envs.wrappers.base import TensorWrapper, here, wide


class RunningMeanStd:
    """Mean, variance and count of all rows seen so far (Chan, Golub and LeVeque 1979), as float64 tensors.

    Args:
        shape: Of one row.
        device: Where they live.
        epsilon: Weight of the mean 0 and the variance 1 that they start from.
    """

    def __init__(self, shape: tuple[int, ...], device: torch.device, epsilon: float = 1e-4) -> None:
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self.var = torch.ones(shape, dtype=torch.float64, device=device)
        self.count = torch.full((), epsilon, dtype=torch.float64, device=device)

    def update(self, values: torch.Tensor, rows: torch.Tensor) -> None:
        """Take in the rows of a mask.

        Args:
            values: `(N, *shape)`.
            rows: (N,) bool; none is fine, too.
        """
        values = values.double()
        weight = wide(rows, values).double()
        count = weight.sum()
        mean = (values * weight).sum(0) / count.clamp(min=1)
        var = ((values - mean).square() * weight).sum(0) / count.clamp(min=1)
        total, delta = self.count + count, mean - self.mean
        squares = self.var * self.count + var * count + delta.square() * self.count * count / total
        self.mean, self.var, self.count = self.mean + delta * count / total, squares / total, total


def _epsilon(wrapper: TensorWrapper, epsilon: float) -> float:
    """A finite number > 0."""
    checked = check_value(type(wrapper).__name__, "epsilon", epsilon, float)
    if checked <= 0.0:
        raise ConfigError(f"{type(wrapper).__name__}: epsilon must be > 0, got {epsilon!r}")
    return checked


class NormalizeObservation(TensorWrapper):
    """Give observations mean 0 and variance 1 by running statistics over all true observations.

    Observations of agents that have left stay 0 and are not counted. With SAME_STEP ``info["final_obs"]`` is counted
    and normalised as well. ``update_running_mean = False`` freezes the statistics, for evaluation; ``obs_rms`` holds
    them.

    Args:
        env: Rows of tensors.
        epsilon: Added to the variance.

    Raises:
        ConfigError: epsilon <= 0.
    """

    def __init__(self, env: VectorEnv, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self.epsilon = _epsilon(self, epsilon)
        shape = self._box(env.single_observation_space, "observation").shape
        self.single_observation_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.obs_rms = RunningMeanStd(shape, self.device)
        self.update_running_mean = True

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Start new episodes; their first observations, (rows, ...), are counted."""
        obs, info = self.env.reset(seed=seed, options=options)
        if self.update_running_mean:
            self.obs_rms.update(obs, self._reset_rows(options))
        return self._normalized(obs, here(info)), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        last = info.get("final_obs")
        if self.update_running_mean:
            if last is not None:  # who left earlier was counted then
                self.obs_rms.update(last, info["_final_obs"] & info["valid"])
            self.obs_rms.update(obs, here(info))
        if last is not None:
            info = {**info, "final_obs": self._normalized(last, info["_final_obs"])}
        return self._normalized(obs, here(info)), rewards, terminated, truncated, info

    def _normalized(self, obs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        mean, std = self.obs_rms.mean.float(), (self.obs_rms.var + self.epsilon).sqrt().float()
        return torch.where(wide(rows, obs), (obs - mean) / std, 0.0)


class NormalizeReward(TensorWrapper):
    """Divide rewards by the running standard deviation of the discounted sum of rewards.

    As in Gymnasium the sum forgets what came before a termination. An episode begins with the sum 0 in every autoreset
    mode (Gymnasium's own, with NEXT_STEP, carries it on into the next episode), and rows of agents that have left are
    not counted. ``update_running_mean = False`` freezes the statistics; ``return_rms`` holds them.

    Args:
        env: Rows of tensors.
        gamma: Discount per step.
        epsilon: Added to the variance.

    Raises:
        ConfigError: gamma outside [0, 1], or epsilon <= 0.
    """

    def __init__(self, env: VectorEnv, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self.gamma = check_value("NormalizeReward", "gamma", gamma, float)
        if not 0 <= self.gamma <= 1:
            raise ConfigError(f"NormalizeReward: gamma must be in [0, 1], got {gamma}")
        self.epsilon = _epsilon(self, epsilon)
        self.return_rms = RunningMeanStd((), self.device)
        self.accumulated_reward = torch.zeros(self.num_envs, device=self.device)
        self.update_running_mean = True

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, with sums of 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.accumulated_reward = self.accumulated_reward.masked_fill(self._reset_rows(options), 0)
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step; rewards (num_envs,) come scaled."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        valid = info["valid"]
        sums = self.accumulated_reward.masked_fill(terminated, 0) * self.gamma + rewards
        sums = torch.where(valid, sums, self.accumulated_reward)
        if self.update_running_mean:
            self.return_rms.update(sums, valid)
        self.accumulated_reward = sums.masked_fill(self._restarted(terminated | truncated), 0)
        scaled = rewards / (self.return_rms.var + self.epsilon).sqrt().float()
        return obs, scaled, terminated, truncated, info
