"""Which tests are quick, and what the parts of all tests are."""

import argparse
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from selection import is_in_part, mark_slow, part_of
from small_environments import REPRESENTATIVES, SMALL

ROOT = Path(__file__).parents[2]


class Item:
    """Stand-in of a collected test."""

    def __init__(self, nodeid, marks=(), **params):
        self.nodeid, self.marks = nodeid, {mark.name: mark.mark for mark in marks}
        if params:
            self.callspec = SimpleNamespace(params=params, indices=params)

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark.mark


def quick(items):
    mark_slow(items)
    return [item.nodeid for item in items if "slow" not in item.marks]


def items_of_environments():
    return [
        Item(f"{file}::test[{env_id}]", [pytest.mark.representative], env_id=env_id)
        for file in "ab"
        for env_id in SMALL
    ]


def test_environments_that_represent_no_others_are_slow():
    items = [*items_of_environments(), Item("a::test_of_none", [pytest.mark.representative], env_id={"a": 1})]
    wanted = [f"{file}::test[{each}]" for file in "ab" for each in SMALL if each in REPRESENTATIVES]
    assert quick(items) == [*wanted, "a::test_of_none"]


@pytest.mark.parametrize(
    ("mark", "count"),
    [(pytest.mark.variations, 1), (pytest.mark.variations(3), 3), (pytest.mark.variations(quick=3), 3)],
)
def test_first_variations_are_quick(mark, count):
    items = [Item(f"a::test[{i}]", [mark], i=i) for i in range(5)]
    assert quick([*items, Item("a::test_without", i=9)]) == [
        *(f"a::test[{i}]" for i in range(count)),
        "a::test_without",
    ]
    assert quick([Item("a::test[4]", [mark], i=4)]) == []  # also if it is the only one selected


def test_variations_of_several_parameters_are_the_first_of_each():
    items = [Item(f"a::test[{i}-{j}]", [pytest.mark.variations(quick=2)], i=i, j=j) for i in range(3) for j in range(3)]
    assert quick(items) == [f"a::test[{i}-{j}]" for i in range(2) for j in range(2)]


def test_misspelled_number_of_variations_is_an_error():
    with pytest.raises(TypeError, match="quik"):
        mark_slow([Item("a::test[0]", [pytest.mark.variations(quik=3)], i=0)])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_every_test_is_in_one_part(parts):
    items = [*items_of_environments(), *(Item(f"{file}::test[{i}]", i=i) for file in "cdefgh" for i in range(5))]
    of = {item: [part for part in range(1, parts + 1) if is_in_part(item, part, parts)] for item in items}
    assert {len(found) for found in of.values()} == {1}
    assert {found[0] for found in of.values()} == {*range(1, parts + 1)}
    units = {}
    for item, found in of.items():
        unit = item.callspec.params.get("env_id", item.nodeid[0])
        assert units.setdefault(unit, found) == found


@pytest.mark.slow
def test_parts_of_two_files_are_the_whole():
    """With the options of pytest itself."""
    files = ["tests/house/test_selection.py", "tests/house/test_project.py", "tests/house/test_sizes.py"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]

    def collected(*options):
        done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
        return {line for line in done.stdout.splitlines() if "::" in line}

    parts = [collected("--part", f"{part}/2") for part in (1, 2)]
    assert parts[0] | parts[1] == collected()
    assert not parts[0] & parts[1]
    assert all(parts)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/2/3", ""])
def test_wrong_part_is_explained(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected K/N with 1 <= K <= N, such as 1/3, got"):
        part_of(text)


def test_part_is_read():
    assert part_of("2/3") == (2, 3)
