"""Gymnasium's vector wrappers for rows of tensors: same names and arguments, values stay on the device.

::

    env = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=1024, group="adversary")
    env = NormalizeObservation(RecordEpisodeStatistics(env))

They wrap rows of tensors (:class:`gpu_envs.views.rows.RowsEnv`) in all three autoreset modes. For ``to_numpy=True``
use Gymnasium's own wrappers. Rows of agents that have left their world are excluded from all statistics, and their
observations stay 0.
"""

from gpu_envs.wrappers.bounds import ClipAction, ClipReward, RescaleAction, RescaleObservation
from gpu_envs.wrappers.frames import FrameStackObservation
from gpu_envs.wrappers.normalize import NormalizeObservation, NormalizeReward
from gpu_envs.wrappers.statistics import RecordEpisodeStatistics

__all__ = [
    "ClipAction",
    "ClipReward",
    "FrameStackObservation",
    "NormalizeObservation",
    "NormalizeReward",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "RescaleObservation",
]
