"""Rollout and replay buffers, returns, and recurrent state."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.buffers.recurrent_state import RecurrentState
    from trainers.buffers.replay_buffer import ReplayBuffer
    from trainers.buffers.reservoir_buffer import ReservoirBuffer
    from trainers.buffers.returns import gae, gae_by_turns, n_step
    from trainers.buffers.rollout_buffer import RolloutBuffer, RolloutOverflowError
    from trainers.buffers.vtrace import Correction, vtrace, vtrace_by_turns

__all__ = [
    "Correction",
    "RecurrentState",
    "ReplayBuffer",
    "ReservoirBuffer",
    "RolloutBuffer",
    "RolloutOverflowError",
    "gae",
    "gae_by_turns",
    "n_step",
    "vtrace",
    "vtrace_by_turns",
]

__getattr__, __dir__ = lazy_exports(__name__)
