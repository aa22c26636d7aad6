"""Options and loop of the commands that render; `trainers` and `league` choose the policies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_envs.cli.options import DeviceOptions, OptionalInt
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.settings import MAX_INT, setting

if TYPE_CHECKING:
    import numpy as np
    import torch

    from gpu_envs.runtime.core import Core


@dataclass(frozen=True, kw_only=True)
class VideoOptions(DeviceOptions):
    """Content of a rendered file."""

    output: Path = Path("out/render.mp4")
    """File to write: a video (.mp4, .gif, .webp) or a picture of the last step (.png)."""
    num_envs: int = setting(4, ge=1, le=MAX_INT)
    """Number of environments (worlds), tiled in one frame."""
    steps: int = setting(200, ge=1, le=MAX_INT)
    """Number of steps to play."""
    trails: OptionalInt = setting(None, ge=0, le=MAX_INT)
    """Length of the trails behind moving agents [steps]; 0 for none. Default: half a second."""
    size: int = setting(320, ge=1, le=MAX_INT)
    """Height and width of one environment [pixels]. All environments together take at most 2 GiB."""
    seed: int = 0
    """Random seed of the environments and the actions."""
    greedy: bool = False
    """Take the most probable action of each policy instead of a sample."""


def render_play(
    args: VideoOptions,
    core: Core,
    act: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor],
    sides: Mapping[str, Sequence[int]] | None = None,
) -> int:
    """Play and write the rendered frames.

    Args:
        args: Options of the command.
        core: Core whose worlds are all rendered. With autoreset "next_step" the last frame of an episode is rendered
            too.
        act: Function `act(obs, info)` that returns the actions.
        sides: Rows of the agents of the sides whose names and returns are shown; None: no names.

    Returns:
        Exit code.
    """
    from gpu_envs.rendering.scoreboard import Scoreboard
    from gpu_envs.rendering.trails import TrailRenderer
    from gpu_envs.rendering.video import tile, write_video

    renderer = TrailRenderer(core, tuple(range(core.num_envs)), args.size, args.trails)
    board = Scoreboard(core, sides, args.size) if sides else None
    obs, info = core.reset()

    def frames(progress: ProgressBar) -> Iterator[np.ndarray]:
        nonlocal obs, info
        for step in range(args.steps):
            if args.output.suffix.lower() != ".png" or step == args.steps - 1:
                frame = renderer.frame()
                yield tile(frame if board is None else board.add_lines(frame))
            else:
                renderer.skip()
            obs, reward, _, _, info = core.step(act(obs, info))
            if board is not None:
                board.observe(reward)
            progress(step + 1)
        core.raise_pending_errors()

    with ProgressBar(args.steps, "steps", file=sys.stderr) as progress:
        path = write_video(args.output, frames(progress), core.render_fps)
    print(path)
    return 0
