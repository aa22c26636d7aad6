"""A folder with one JSON file of results per task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["ResultFolder"]


class ResultFolder:
    """Results by task. Processes that measure different tasks can write at the same time."""

    def __init__(self, path: Path) -> None:
        """Use a folder, which need not exist."""
        self.path = path

    def read(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the recorded results of these tasks by name, in the given order."""
        files = {name: self.path / f"{name}.json" for name in names}
        return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}

    def write(self, name: str, result: Any) -> None:
        """Replace the results of a task; an interrupted call changes nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / f".{name}.tmp"
        temporary.write_text(json.dumps(result) + "\n", encoding="utf-8")
        temporary.replace(self.path / f"{name}.json")
