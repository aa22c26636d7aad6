"""Returns and lengths of finished episodes, kept on the device."""

import time
from collections import deque
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from gpu_envs.config import check_value
from gpu_envs.errors import ConfigError
from gpu_envs.wrappers.base import TensorWrapper

MAX_EPISODES = 2**24
"""Episodes that the queues can keep."""


class RecordEpisodeStatistics(TensorWrapper):
    """Sum up rewards and steps of every row, and tell them where an episode ends.

    Every step's ``info["episode"]`` has "r" (return, float64), "l" (length, int64) and "t" (seconds since it began),
    each (num_envs,), 0 but where ``info["_episode"]`` says that an episode ended. Gymnasium's own leaves both out where
    none ended; to look would wait for the device. A row counts on while its agent has left and its world plays: the
    agent's own figures are ``info["episode_return"]`` and ``info["episode_length"]``.

    ``return_queue``, ``length_queue``, ``time_queue`` (the last ``buffer_length`` episodes, the oldest first) and
    ``episode_count`` are read from the device when they are asked for.

    Args:
        env: Rows of tensors.
        buffer_length: How many episodes the queues keep, at most 2**24.
        stats_key: Name in ``info``.

    Raises:
        ConfigError: A buffer_length outside [1, 2**24], or a stats_key that is no string.
    """

    @torch.inference_mode(False)  # the queues are written to in place
    def __init__(self, env: VectorEnv, buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(env)
        who = "RecordEpisodeStatistics"
        buffer_length = check_value(who, "buffer_length", buffer_length, int, low=1)
        if buffer_length > MAX_EPISODES:
            raise ConfigError(f"{who}: buffer_length must be at most {MAX_EPISODES}, got {buffer_length}")
        self._stats_key = check_value(who, "stats_key", stats_key, str)
        self._size = buffer_length
        zeros = torch.zeros(self.num_envs, dtype=torch.float64, device=self.device)
        self.episode_returns, self.episode_start_times = zeros, zeros.clone()
        self.episode_lengths = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._count = torch.zeros((), dtype=torch.int64, device=self.device)
        # Returns, lengths and times by rank modulo the size; a last column takes what is not kept.
        self._kept = torch.zeros((3, buffer_length + 1), dtype=torch.float64, device=self.device)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, with sums of 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._begin(self._reset_rows(options))
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step.

        Raises:
            ConfigError: ``info`` has an entry of this name already, as from a second wrapper of this kind.
        """
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        key = self._stats_key
        if key in info or f"_{key}" in info:
            raise ConfigError(f"RecordEpisodeStatistics: info has {key!r} already; choose another stats_key")
        done = terminated | truncated
        waited = torch.zeros_like(done) if self._same_step else self._over  # a reset's step, which counts nowhere
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
        """Episodes finished so far (waits for the device)."""
        return int(self._count)

    @property
    def return_queue(self) -> deque[float]:
        """Returns of the last episodes (waits for the device)."""
        return self._queue(0)

    @property
    def length_queue(self) -> deque[int]:
        """Lengths of the last episodes [steps] (waits for the device)."""
        return deque((int(length) for length in self._queue(1)), maxlen=self._size)

    @property
    def time_queue(self) -> deque[float]:
        """How long the last episodes took [s] (waits for the device)."""
        return self._queue(2)

    def _begin(self, rows: torch.Tensor) -> None:
        self.episode_returns = self.episode_returns.masked_fill(rows, 0)
        self.episode_lengths = self.episode_lengths.masked_fill(rows, 0)
        self.episode_start_times = self.episode_start_times.masked_fill(rows, time.perf_counter())

    def _keep(self, done: torch.Tensor, elapsed: torch.Tensor) -> None:
        """Put the figures of these rows into the queues; where more end at once than there is room, the last stay."""
        rank = done.cumsum(0) - 1
        ended = done.sum()
        stays = done & (rank >= ended - self._size)
        place = torch.where(stays, (self._count + rank) % self._size, self._size)
        figures = torch.stack((self.episode_returns, self.episode_lengths.double(), elapsed))
        self._kept.index_copy_(1, place, figures)
        self._count = self._count + ended

    def _queue(self, which: int) -> deque[float]:
        count = self.episode_count
        kept = self._kept[which, : self._size].tolist()
        start = count % self._size if count > self._size else 0
        return deque(kept[start:] + kept[:start] if count > self._size else kept[:count], maxlen=self._size)
