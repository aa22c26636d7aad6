"""TensorBoard events of a run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_envs.errors import missing_extra, packages
from gpu_envs.utils.paths import utf8_name
from trainers.loggers.logger import finite_values
from trainers.storage.learning_curves import COUNTERS

try:
    from tensorboard.compat.proto import summary_pb2
    from torch.utils.tensorboard import SummaryWriter
except ModuleNotFoundError as error:
    raise missing_extra(error, "--logger tensorboard", ("tensorboard",), packages("train")) from None

MAX_FRAMES = 100
"""Largest number of frames of a video, which TensorBoard stores as a GIF."""


class TensorBoardLogger:
    """Write event files in the folder of the run; `trainers.loggers.logger.Logger` describes the methods."""

    def __init__(self, run_dir: Path, last_step: int) -> None:
        """Open a file; TensorBoard hides the events of earlier files after `last_step`."""
        self._summary: Any = summary_pb2.Summary  # type: ignore[attr-defined]
        self._name = contextlib.ExitStack()  # TensorBoard opens its file again for every write
        name = self._name.enter_context(utf8_name(run_dir))
        self.board: SummaryWriter = SummaryWriter(name, purge_step=last_step + 1 if last_step else None)

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Add the scalars of a row."""
        metrics = {name: value for name, value in finite_values(row).items() if name not in COUNTERS}
        # one event per row: `add_scalar` writes one per value, which takes as long as a small update
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._add(values, step)

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Add the configuration as text."""
        self.board.add_text("config", f"```json\n{json.dumps(config, indent=1)}\n```")

    def log_video(self, file: Path, step: int) -> None:
        """Add the video as a GIF, with some of its frames if it is long."""
        import imageio.v3

        frames = imageio.v3.imread(file)
        frames = frames[:: -(-len(frames) // MAX_FRAMES)]
        gif = imageio.v3.imwrite("<bytes>", frames, extension=".gif", loop=0, duration=100)
        height, width = frames.shape[1:3]
        image = self._summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._add([self._summary.Value(tag="video", image=image)], step)

    def _add(self, values: list[Any], step: int) -> None:
        writer: Any = self.board.file_writer
        writer.add_summary(self._summary(value=values), step)

    def close(self) -> None:
        """Flush and close the file."""
        self.board.close()
        self._name.close()
