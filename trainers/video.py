"""Pictures of policies at play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainers.evaluate import Players, joint_action


def frames(core: Any, players: Players, seed: int, size: int = 256, max_frames: int = 600) -> Iterator[np.ndarray]:
    """Plays until every world has ended an episode, and yields all worlds side by side after each step.

    Args:
        core: A core whose worlds are all shown, so make it small.
        players: A policy, or None for random actions, per group.
        seed: Of the worlds and the policies' samples.
        size: Side of one world [pixels].
        max_frames: Frames to stop at in any case.

    Yields:
        (height, width, 3) uint8.
    """
    from gpu_envs.video import tile

    envs = tuple(range(core.num_envs))
    rows = {group: torch.tensor(members, device=core.device) for group, members in core.groups.items()}
    obs, info = core.reset(seed=seed)
    for policy in players.values():
        if policy is not None:
            policy.seed(seed)
    finished = torch.zeros((core.num_envs, core.num_agents), dtype=torch.bool, device=core.device)
    for _ in range(max_frames):
        yield tile(np.asarray(core.frame(envs, size)))
        action = joint_action(core, obs, info.get("action_mask"), players, rows, greedy=False)
        obs, _, terminated, truncated, info = core.step(action)
        finished |= terminated | truncated
        if bool(finished.all()):
            return


def record(core: Any, players: Players, path: Path, seed: int, size: int = 256) -> Path:
    """Writes the frames as a video (.mp4 or .gif) at the environment's own pace."""
    from gpu_envs.video import write_video

    return write_video(path, frames(core, players, seed, size), core.render_fps)
