"""Limits of size: modules per folder, one class per name, one test file per name."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("warp_kernels", "gpu_envs", "trainers", "league", "benchmarks")
MAX_MODULES = 16
"""Modules in one folder, `__init__.py` not counted."""
AUTHORING_CONTRACT = {"Config", "Params", "State", "Sizes"}
"""Class names that every environment may define."""


def modules(package):
    """Return the Python modules of a package; templates are text, not code of the package."""
    return [path for path in sorted((ROOT / package).rglob("*.py")) if "templates" not in path.parts]


class Outline(NamedTuple):
    """Names in a module."""

    classes: list[str]  # also those in other classes and in functions
    public: set[str]  # functions and classes of the module itself
    exported: set[str] | None  # by `__all__`


@cache  # parsing all modules takes more than a second
def outlines(package):
    """Return the outline of each module of a package by its path."""
    return {path: outline(ast.parse(path.read_text(encoding="utf-8")).body) for path in modules(package)}


def outline(body):
    """Return the outline of a module from its statements."""
    exports = [
        ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    defined = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    exported = {name for names in exports for name in names} if exports else None
    public = {name for name in defined if not name.startswith("_")}
    return Outline([node.name for node in statements(body) if isinstance(node, ast.ClassDef)], public, exported)


def statements(body):
    """Return statements and those in them."""
    nodes = list(body)
    for node in nodes:
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, name, ())
    return nodes


@pytest.mark.parametrize("package", PACKAGES)
def test_folder_has_at_most_16_modules(package):
    counts = defaultdict(int)
    for path in modules(package):
        counts[str(path.parent.relative_to(ROOT))] += path.name != "__init__.py"
    assert counts
    assert not {folder: count for folder, count in counts.items() if count > MAX_MODULES}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_a_package(package):
    """Import-linter does not see modules in a folder without `__init__.py`."""
    folders = {path.parent for path in modules(package)}
    assert not [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file()]


def test_class_names_are_unique():
    places = defaultdict(list)
    for package in PACKAGES:
        for path, outline in outlines(package).items():
            for name in outline.classes:
                places[name].append(str(path.relative_to(ROOT)))
    assert places.keys() >= AUTHORING_CONTRACT
    names = places.keys() - AUTHORING_CONTRACT
    assert not {name: places[name] for name in names if len(places[name]) > 1}


def test_only_environments_share_class_names():
    """Config, Params, State and Sizes are the authoring contract of environments and mean nothing else."""
    groups = {path.name for path in (ROOT / "gpu_envs" / "envs").iterdir() if path.is_dir()}
    places = defaultdict(list)
    for package in PACKAGES:
        for path, outline in outlines(package).items():
            parts = path.relative_to(ROOT).parts
            if parts[:2] == ("gpu_envs", "envs") or (parts[0] == "warp_kernels" and parts[1] in groups):
                continue
            for name in AUTHORING_CONTRACT.intersection(outline.classes):
                places[name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def test_every_public_name_is_exported():
    """`__all__` of a module names its public functions and classes; the API reference documents just these."""
    missing = {}
    for package in PACKAGES[:-1]:
        for path, outline in outlines(package).items():
            if path.name == "__init__.py" and outline.exported is None:
                continue
            if public := outline.public - (outline.exported or set()):
                missing[str(path.relative_to(ROOT))] = sorted(public)
    assert not missing


def test_recorded_traces_are_small():
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in (ROOT / "tests" / "parity").rglob("*.npz")}
    assert len(sizes) >= 9
    assert not {name: size for name, size in sizes.items() if size > 500_000}


def test_names_of_test_files_are_unique():
    """Pytest cannot collect two files of one name outside packages; `tests/libraries` runs alone."""
    places = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if not (path.parent / "__init__.py").exists() and "libraries" not in path.parts:
            places[path.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}
