"""Buffers for the results of one episode in every world."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gpu_envs.runtime.rollout.rollout_core import RolloutCore
from gpu_envs.utils.devices import host_view
from gpu_envs.utils.settings import MAX_INT
from warp_kernels.framework.policies import Trace

__all__ = ["EpisodeResults"]


@dataclass(frozen=True)
class EpisodeResults:
    """Results of the first episode of E worlds with A agents."""

    finished: Tensor
    """(E, A) bool, the episode of the agent has ended. Worlds do not play if it is set for all their agents."""
    terminated: Tensor
    """(E, A) bool, the rules ended it; otherwise a limit truncated it."""
    episode_return: Tensor
    """(E, A) float32."""
    episode_length: Tensor
    """(E, A) int32 [steps]."""
    episode_results: Tensor
    """(E, A, R) float32, declared results (`EnvDefinition.results`) at the end of the agent."""

    @classmethod
    def allocate(cls, core: RolloutCore) -> EpisodeResults:
        """Allocate the buffers."""
        shape = (core.num_envs, core.num_agents)

        def zeros(dtype: torch.dtype, *more: int) -> Tensor:
            return torch.zeros((*shape, *more), dtype=dtype, device=core.device)

        results = zeros(torch.float32, len(core.definition.results))
        return cls(zeros(torch.bool), zeros(torch.bool), zeros(torch.float32), zeros(torch.int32), results)

    @property
    def num_steps(self) -> int:
        """Largest number of steps, which the buffers do not limit."""
        return MAX_INT

    @cached_property
    def _rows(self) -> Any:
        return host_view(self.finished)

    @cached_property
    def _return_rows(self) -> Any:
        return host_view(self.episode_return)

    def start(self, count: int) -> None:
        """Let the first ``count`` worlds play an episode, and no others."""
        self._rows[:count], self._rows[count:] = False, True

    def num_finished(self, count: int) -> int:
        """Return the number of worlds among the first ``count`` whose episode is over, after waiting for a GPU."""
        ended = self._rows[:count]
        if isinstance(ended, np.ndarray) and np.count_nonzero(ended) == ended.size:  # the fastest check
            return count
        return count if bool(ended.all()) else int(ended.all(1).sum())

    def returns(self, count: int) -> np.ndarray:
        """Return the returns of the first ``count`` worlds on the host, (count, A) float32; on a CPU without a copy."""
        rows = self._return_rows[:count]
        return rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()

    def struct(self) -> Any:
        """Return Warp's struct over the buffers."""
        trace = Trace()
        trace.finished = wp.from_torch(self.finished)
        for name in ("terminated", "episode_return", "episode_length", "episode_results"):
            setattr(trace, name, wp.from_torch(getattr(self, name).unsqueeze(0)))
        return trace
