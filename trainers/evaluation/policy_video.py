"""Pictures of policies at play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from gpu_envs.core import Core
from trainers.evaluate import Cast, Players
from trainers.logs import Progress

MAX_FRAMES = 600
"""Frames that a video ends at in any case."""


def frames(
    core: Core, players: Players, seed: int, size: int = 256, progress: Progress | None = None
) -> Iterator[np.ndarray]:
    """Plays until every world has ended an episode, and yields all worlds side by side, with trails, at each step.

    Args:
        core: A core whose worlds are all shown, so make it small.
        players: A policy, or None for random actions, by group or agent.
        seed: Of the worlds and the policies' samples.
        size: Side of one world [pixels].
        progress: Called after every frame with the number so far; the last one counts as MAX_FRAMES.

    Yields:
        (height, width, 3) uint8.
    """
    from gpu_envs.film import Film
    from gpu_envs.video import tile

    film = Film(core, tuple(range(core.num_envs)), size)
    obs, info = core.reset(seed=seed)
    cast = Cast(core, players)
    for policy in players.values():
        if policy is not None:
            policy.seed(seed)
    finished = torch.zeros((core.num_envs, core.num_agents), dtype=torch.bool, device=core.device)
    for count in range(1, MAX_FRAMES + 1):
        yield tile(film.frame())
        obs, _, terminated, truncated, info = core.step(cast.act(obs, info))
        finished |= terminated | truncated
        over = bool(finished.all())
        if progress is not None:
            progress(MAX_FRAMES if over else count, "video")
        if over:
            return


def record(
    core: Core, players: Players, path: Path, seed: int, size: int = 256, progress: Progress | None = None
) -> Path:
    """Writes the frames as a video (.mp4 or .gif) at the environment's own pace."""
    from gpu_envs.video import write_video

    return write_video(path, frames(core, players, seed, size, progress), core.render_fps)
