"""Normalization of observations and rewards by running statistics on the device."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError
from gpu_envs.utils.running_mean_std import RunningMeanStd
from gpu_envs.utils.settings import check_value
from gpu_envs.wrappers.base import TensorWrapper, expand_rows, observed_rows


def _epsilon(wrapper: TensorWrapper, epsilon: float) -> float:
    """Return epsilon; raise a ConfigError unless it is a finite number > 0."""
    checked = check_value(type(wrapper).__name__, "epsilon", epsilon, float)
    if checked <= 0.0:
        raise ConfigError(f"{type(wrapper).__name__}: epsilon: expected a value > 0, got {epsilon!r}")
    return checked


class NormalizeObservation(TensorWrapper):
    """Normalize observations to mean 0 and variance 1 by running statistics over all observations.

    Observations of agents that have left stay 0 and are not counted. With SAME_STEP, ``info["final_obs"]`` is counted
    and normalized too. ``update_running_mean = False`` freezes the statistics ``obs_rms`` for evaluation.

    Args:
        env: Rows of tensors.
        epsilon: Constant added to the variance.

    Raises:
        ConfigError: The value of epsilon is not positive.
    """

    def __init__(self, env: VectorEnv, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self.epsilon: float = _epsilon(self, epsilon)
        shape = self._box(env.single_observation_space, "observation").shape
        self.single_observation_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.obs_rms: RunningMeanStd = RunningMeanStd(shape, self.device)
        self.update_running_mean = True

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Start new episodes; their first observations (num_envs, ...) are counted."""
        obs, info = self.env.reset(seed=seed, options=options)
        if self.update_running_mean:
            self.obs_rms.update(obs, self._reset_rows(options))
        return self._normalized(obs, observed_rows(info)), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        last = info.get("final_obs")
        if self.update_running_mean:
            if last is not None:  # agents that left earlier are already counted
                self.obs_rms.update(last, info["_final_obs"] & info["valid"])
            self.obs_rms.update(obs, observed_rows(info))
        if last is not None:
            info = {**info, "final_obs": self._normalized(last, info["_final_obs"])}
        return self._normalized(obs, observed_rows(info)), rewards, terminated, truncated, info

    def _normalized(self, obs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        mean, std = self.obs_rms.mean.float(), (self.obs_rms.var + self.epsilon).sqrt().float()
        return torch.where(expand_rows(rows, obs), (obs.float() - mean) / std, 0.0)


class NormalizeReward(TensorWrapper):
    """Divide rewards by the running standard deviation of the discounted sum of rewards.

    As in Gymnasium, a termination resets the sum. An episode starts with the sum 0 in every autoreset mode, whereas
    Gymnasium's wrapper with NEXT_STEP continues with the sum of the previous episode. Rows of agents that have left are
    not counted. ``update_running_mean = False`` freezes the statistics ``return_rms``.

    Args:
        env: Rows of tensors.
        gamma: Discount per step.
        epsilon: Constant added to the variance.

    Raises:
        ConfigError: The value of gamma is outside of [0, 1], or epsilon is not positive.
    """

    def __init__(self, env: VectorEnv, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self.gamma: float = check_value("NormalizeReward", "gamma", gamma, float)
        if not 0 <= self.gamma <= 1:
            raise ConfigError(f"NormalizeReward: gamma: expected a value in [0, 1], got {gamma}")
        self.epsilon: float = _epsilon(self, epsilon)
        self.return_rms: RunningMeanStd = RunningMeanStd((), self.device)
        self.accumulated_reward = torch.zeros(self.num_envs, dtype=torch.float64, device=self.device)
        self.update_running_mean = True

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, with sums of 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.accumulated_reward = self.accumulated_reward.masked_fill(self._reset_rows(options), 0)
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step; the rewards (num_envs,) are scaled."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        valid = info["valid"]
        sums = self.accumulated_reward.masked_fill(terminated, 0) * self.gamma + rewards
        sums = torch.where(valid, sums, self.accumulated_reward)
        if self.update_running_mean:
            self.return_rms.update(sums, valid)
        self.accumulated_reward: torch.Tensor = sums.masked_fill(self._restarted(terminated | truncated), 0)
        scaled = rewards / (self.return_rms.var + self.epsilon).sqrt().float()
        return obs, scaled, terminated, truncated, info
