"""Text of result files: compact JSON with a row per line."""

import json
from typing import Any


def dumps(data: Any, levels: int) -> str:
    """Return JSON with a line end.

    Args:
        data: What `json.dumps` takes.
        levels: Number of outer levels whose items have a line each. Deeper objects and lists are within a line.
    """
    return f"{_text(data, levels)}\n"


def _text(data: Any, levels: int) -> str:
    if not levels or not data or not isinstance(data, dict | list):
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if isinstance(data, list):
        return "[\n" + ",\n".join(_text(item, levels - 1) for item in data) + "\n]"
    lines = (f"{json.dumps(name, ensure_ascii=False)}:{_text(item, levels - 1)}" for name, item in data.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def rounded(data: Any) -> Any:
    """Return JSON data with its floats rounded to six significant digits."""
    if isinstance(data, dict):
        return {name: rounded(item) for name, item in data.items()}
    if isinstance(data, list):
        return [rounded(item) for item in data]
    return float(f"{data:.6g}") if isinstance(data, float) else data
