"""Limits of size: modules per folder, one class per name, one test file per name."""

import ast
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("warp_kernels", "gpu_envs", "trainers", "league", "benchmarks")
MAX_MODULES = 16
"""Modules in one folder, `__init__.py` not counted."""
MAX_TREE = 14 * 2**20
"""Size of all files under version control [bytes]: the tree is copied as a whole to machines with a GPU."""
AUTHORING_CONTRACT = {"Config", "Params", "State", "Sizes"}
"""Class names that every environment may define, and that mean nothing else."""


def modules(package):
    """Return the Python modules of a package; templates are text, not code of the package."""
    return [path for path in sorted((ROOT / package).rglob("*.py")) if "templates" not in path.parts]


@pytest.fixture(scope="module")
def trees():
    """Syntax trees of all modules by path in the repository."""
    paths = [path for package in PACKAGES for path in modules(package)]
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def repeated(places):
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def is_of_environment(path):
    """Return whether a module belongs to the host side or to the rules of an environment."""
    groups = {folder.name for folder in (ROOT / "gpu_envs" / "envs").iterdir() if folder.is_dir()}
    return path.parts[:2] == ("gpu_envs", "envs") or (path.parts[0] == "warp_kernels" and path.parts[1] in groups)


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_are_packages_of_at_most_16_modules(package):
    """Import-linter does not see modules in a folder without `__init__.py`."""
    counts = Counter(path.parent for path in modules(package) if path.name != "__init__.py")
    assert counts
    assert not {str(folder): count for folder, count in counts.items() if count > MAX_MODULES}
    assert not [str(folder) for folder in counts if not (folder / "__init__.py").is_file()]


def test_class_names_are_unique(trees):
    """Also those in functions and in other classes."""
    places = defaultdict(list)
    for path, tree in trees.items():
        contract = AUTHORING_CONTRACT if is_of_environment(path) else ()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in contract:
                places[node.name].append(str(path))
    assert len(places) > 100
    assert not repeated(places)


def test_recorded_traces_are_small():
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in (ROOT / "tests" / "parity").rglob("*.npz.xz")}
    assert len(sizes) >= 9
    assert not {name: size for name, size in sizes.items() if size > 500_000}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_files_under_version_control_are_small():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for name in listed.split("\0")[:-1] if (path := ROOT / name).is_file()]
    sizes = sorted(((path.stat().st_size, str(path.relative_to(ROOT))) for path in paths), reverse=True)
    assert len(sizes) > 1000
    total = sum(size for size, _ in sizes)
    assert total < MAX_TREE, f"{total} bytes, expected fewer than {MAX_TREE}; the largest files: {sizes[:10]}"


def test_names_of_test_files_are_unique():
    """Pytest cannot collect two files of one name outside packages; `tests/libraries` runs alone."""
    places = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if not (path.parent / "__init__.py").exists() and "libraries" not in path.parts:
            places[path.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert not repeated(places)
