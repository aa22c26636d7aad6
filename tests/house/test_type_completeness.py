"""The check of type completeness in `make lint` finds names without known types."""

import re

import pytest

from tests.house import type_completeness
from tests.house.type_completeness import PACKAGES, ROOT, measure

TYPED, UNTYPED = "def f(x: int) -> int: return x\n", "def g(x): return x\n"


def package(folder, *lines):
    """Write a typed package `sample`."""
    (folder / "sample").mkdir()
    (folder / "sample" / "py.typed").touch()
    (folder / "sample" / "__init__.py").write_text("".join(lines), encoding="utf-8")
    return folder


def test_names_without_types_are_counted_and_named(tmp_path):
    share, lines = measure("sample", package(tmp_path, TYPED, UNTYPED))
    assert share == pytest.approx(0.5)
    assert len(lines) == 1
    assert lines[0].startswith("sample.g: ")


def test_check_fails_below_the_required_share(monkeypatch, capsys):
    found = {"gpu_envs": (0.96, ["a: b"]), "league": (0.94, ["c: d"])}
    monkeypatch.setattr(type_completeness, "measure", found.get)
    monkeypatch.setattr(type_completeness, "PACKAGES", tuple(found))
    assert type_completeness.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "gpu_envs: types of 96.0% of public names are known",
        "  c: d",
        "league: types of 94.0% of public names are known, expected 95%",
    ]
    found["league"] = (0.95, [])
    assert type_completeness.main([]) == 0


def test_lint_checks_every_typed_package():
    assert {path.parent.name for path in ROOT.glob("*/py.typed")} == set(PACKAGES)
    lint = re.search(r"^lint:.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert lint
    assert "python -m tests.house.type_completeness\n" in lint[1]
