"""Statistics of finished episodes on the device."""

import time
from collections import deque
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_value
from gpu_envs.wrappers.base import TensorWrapper

MAX_EPISODES = 2**24
"""Largest number of episodes in a queue."""


class RecordEpisodeStatistics(TensorWrapper):
    """Record the return, length and duration of every row's episode.

    ``info["episode"]`` of every step has "r" (return, float64), "l" (length, int64) and "t" (seconds since the start),
    each (num_envs,). They are 0 unless ``info["_episode"]`` is True, which marks the end of an episode. Gymnasium's
    wrapper omits both entries if no episode ended, which would need a host synchronization here. A row is counted until
    its world ends, even after its agent has left. The values of the agent are ``info["episode_return"]`` and
    ``info["episode_length"]``.

    ``return_queue``, ``length_queue`` and ``time_queue`` have the last ``buffer_length`` episodes, oldest first. A read
    of them or of ``episode_count`` synchronizes with the device.

    Args:
        env: Rows of tensors.
        buffer_length: Number of episodes in a queue, at most 2**24.
        stats_key: Key in ``info``.

    Raises:
        ConfigError: The buffer_length is outside of [1, 2**24], or the stats_key is not a string.
    """

    @torch.inference_mode(False)  # the queues are written to in place
    def __init__(self, env: VectorEnv, buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(env)
        name = "RecordEpisodeStatistics"
        buffer_length = check_value(name, "buffer_length", buffer_length, int, ge=1)
        if buffer_length > MAX_EPISODES:
            raise ConfigError(f"{name}: buffer_length: expected at most {MAX_EPISODES}, got {buffer_length}")
        self._stats_key = check_value(name, "stats_key", stats_key, str)
        self._size = buffer_length
        zeros = torch.zeros(self.num_envs, dtype=torch.float64, device=self.device)
        self.episode_returns, self.episode_start_times = zeros, zeros.clone()
        self.episode_lengths = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._count = torch.zeros((), dtype=torch.int64, device=self.device)
        # Returns, lengths and times at rank modulo size; the last column receives values that are dropped.
        self._history = torch.zeros((3, buffer_length + 1), dtype=torch.float64, device=self.device)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, with sums of 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._begin(self._reset_rows(options))
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step.

        Raises:
            ConfigError: ``info`` already has an entry of this name, as from a second wrapper of this kind.
        """
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        key = self._stats_key
        if key in info or f"_{key}" in info:
            raise ConfigError(f"RecordEpisodeStatistics: info already has {key!r}; choose another stats_key")
        done = terminated | truncated
        waited = torch.zeros_like(done) if self._same_step else self._over  # the step of a reset is not counted
        started = self._restarted(done)
        self._begin(waited)
        self.episode_returns = self.episode_returns + torch.where(waited, 0.0, rewards.double())
        self.episode_lengths = self.episode_lengths + (~waited).long()
        elapsed = torch.round(time.perf_counter() - self.episode_start_times, decimals=6)
        self._keep(done, elapsed)
        figures = {
            "r": torch.where(done, self.episode_returns, 0.0),
            "l": torch.where(done, self.episode_lengths, 0),
            "t": torch.where(done, elapsed, 0.0),
        }
        if self._same_step:
            self._begin(started)
        return obs, rewards, terminated, truncated, {**info, key: figures, f"_{key}": done}

    @property
    def episode_count(self) -> int:
        """Number of finished episodes (synchronizes with the device)."""
        return int(self._count)

    @property
    def return_queue(self) -> deque[float]:
        """Returns of the last episodes (synchronizes with the device)."""
        return self._queue(0)

    @property
    def length_queue(self) -> deque[int]:
        """Lengths of the last episodes [steps] (synchronizes with the device)."""
        return deque((int(length) for length in self._queue(1)), maxlen=self._size)

    @property
    def time_queue(self) -> deque[float]:
        """Durations of the last episodes [s] (synchronizes with the device)."""
        return self._queue(2)

    def _begin(self, rows: torch.Tensor) -> None:
        self.episode_returns: torch.Tensor = self.episode_returns.masked_fill(rows, 0)
        self.episode_lengths: torch.Tensor = self.episode_lengths.masked_fill(rows, 0)
        self.episode_start_times: torch.Tensor = self.episode_start_times.masked_fill(rows, time.perf_counter())

    def _keep(self, done: torch.Tensor, elapsed: torch.Tensor) -> None:
        """Add the values of these rows to the queues; if more episodes end at once than fit, the last ones are kept."""
        rank = done.cumsum(0) - 1
        ended = done.sum()
        stays = done & (rank >= ended - self._size)
        slot = torch.where(stays, (self._count + rank) % self._size, self._size)
        figures = torch.stack((self.episode_returns, self.episode_lengths.double(), elapsed))
        self._history.index_copy_(1, slot, figures)
        self._count = self._count + ended

    def _queue(self, row: int) -> deque[float]:
        count = self.episode_count
        values = self._history[row, : self._size].tolist()
        start = count % self._size if count > self._size else 0
        return deque(values[start:] + values[:start] if count > self._size else values[:count], maxlen=self._size)
