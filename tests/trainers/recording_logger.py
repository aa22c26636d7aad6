"""A logger of one's own, for tests of several rooms; `--logger recording_logger:Recording`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CALLS: list[tuple[Any, ...]] = []
"""Calls of all loggers since a test cleared the list."""


class Recording:
    """Records every call."""

    def __init__(self, run_dir: Path, last_step: int) -> None:
        CALLS.append(("open", run_dir, last_step))

    def log(self, row: Mapping[str, float], step: int) -> None:
        CALLS.append(("log", dict(row), step))

    def log_config(self, config: Mapping[str, Any]) -> None:
        CALLS.append(("config", dict(config)))

    def log_video(self, file: Path, step: int) -> None:
        CALLS.append(("video", file, step))

    def close(self) -> None:
        CALLS.append(("close",))
