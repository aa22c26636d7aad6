"""Videos of policies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from gpu_envs.runtime.core import Core
from gpu_envs.utils.progress import Progress
from trainers.evaluation.policy_runner import Players, PolicyRunner

__all__ = ["MAX_FRAMES", "frames", "record"]

MAX_FRAMES = 600
"""Largest number of frames of a video."""


def frames(
    core: Core, players: Players, seed: int, size: int = 256, progress: Progress | None = None
) -> Iterator[np.ndarray]:
    """Play one episode in every environment, and yield a frame per step with all environments side by side.

    Args:
        core: A few environments; all of them are shown.
        players: Policy of each group or agent; None: random actions.
        seed: Random seed of the environments and of sampled actions.
        size: Side of the image of one environment [pixels].
        progress: Called after every frame with the number of frames; the last one counts as MAX_FRAMES.

    Yields:
        Frames with trails, (height, width, 3) uint8.
    """
    from gpu_envs.rendering.trails import TrailRenderer
    from gpu_envs.rendering.video import tile

    renderer = TrailRenderer(core, tuple(range(core.num_envs)), size)
    obs, info = core.reset(seed=seed)
    runner = PolicyRunner(core, players)
    for policy in players.values():
        if policy is not None:
            policy.seed(seed)
    finished = torch.zeros((core.num_envs, core.num_agents), dtype=torch.bool, device=core.device)
    for count in range(1, MAX_FRAMES + 1):
        yield tile(renderer.frame())
        obs, _, terminated, truncated, info = core.step(runner.act(obs, info))
        finished |= terminated | truncated
        over = bool(finished.all())
        if progress is not None:
            progress(MAX_FRAMES if over else count, "video")
        if over:
            return


def record(
    core: Core, players: Players, path: Path, seed: int, size: int = 256, progress: Progress | None = None
) -> Path:
    """Write a video (.mp4 or .gif) at the frame rate of the environment, see `frames`, and return its path."""
    from gpu_envs.rendering.video import write_video

    return write_video(path, frames(core, players, seed, size, progress), core.render_fps)
