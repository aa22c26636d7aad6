"""Rollouts of actors on their way to the learner, and weights on their way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["Trajectory", "Weights"]

Weights = Mapping[str, Mapping[str, Tensor]]
"""Tensors of the networks and normalizers by policy and name."""


@dataclass(frozen=True)
class Trajectory:
    """One rollout of an actor's worlds; its tensors are written by nothing else."""

    number: int
    """Number of the rollout in the run, unique over all actors."""
    version: int
    """Version of the weights that sampled it."""
    steps: int
    """Environment steps of the rollout, summed over its worlds."""
    rollouts: Mapping[str, Mapping[str, Tensor]]
    """Buffers by policy and name, see `ActorCriticAgent.export_rollout`."""
    episodes: Mapping[str, Tensor]
    """Ends, returns, lengths and results of episodes, see `EpisodeStatistics`."""
    seconds: float = 0.0
    """Duration of the rollout, without the time to send it [s]."""
    ready: Any = None
    """CUDA event after the last write; None on a CPU."""
