"""Faults planted into the source of an environment, as an author would make them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import toy
import turns

SOURCES = {"walk": Path(__file__).with_name("walk_environment.py"), "turns": Path(turns.__file__)}
ENV_ID = "Planted-v0"


def planted_source(base: str, *changes: tuple[str, str]) -> str:
    """Return one of the ``SOURCES`` with changes (old text, new text), each of which fits once."""
    text = SOURCES[base].read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {SOURCES[base].name}"
        text = text.replace(old, new)
    return text


def fault_line(base: str, old: str, new: str) -> int:
    """Return the number of the first line that a change of :func:`planted_source` changes."""
    original, after = (planted_source(base, *changes).splitlines() for changes in ((), ((old, new),)))
    return next(i for i, lines in enumerate(zip(original, after, strict=False), start=1) if lines[0] != lines[1])


def planted_module(folder: Path, text: str) -> ModuleType:
    """Write a source with faults to a folder, and import it."""
    file = folder / "rules.py"
    key = f"{crc32(f'{folder}{text}'.encode()):08x}"  # rules with equal keys share kernels
    file.write_text(text.replace('key=f"', f'key=f"{key} '), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted_rules", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def register_planted(monkeypatch: Any, folder: Path, base: str, *changes: tuple[str, str]) -> None:
    """Register an environment with faults as ``Planted-v0`` for one test."""
    toy.announce(monkeypatch, ENV_ID, host=planted_module(folder, planted_source(base, *changes)))
