"""Which tests are quick, and what the parts of all tests are."""

import argparse
from types import SimpleNamespace

import pytest
from selection import in_part, mark_slow, part_of
from small_environments import REPRESENTATIVES, SMALL


class Item:
    """Stand-in of a collected test."""

    def __init__(self, nodeid, marks=(), **params):
        self.nodeid, self.marks = nodeid, {mark.name: mark.mark for mark in marks}
        if params:
            self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark.mark


def items_of_environments():
    return [
        Item(f"{file}::test[{env_id}]", [pytest.mark.representative], env_id=env_id)
        for file in "ab"
        for env_id in SMALL
    ]


def test_environments_that_represent_no_others_are_slow():
    items = [*items_of_environments(), Item("a::test_of_none", [pytest.mark.representative], env_id={"a": 1})]
    mark_slow(items)
    quick = [item.nodeid for item in items if "slow" not in item.marks]
    assert quick == [
        *(f"{file}::test[{each}]" for file in "ab" for each in SMALL if each in REPRESENTATIVES),
        items[-1].nodeid,
    ]


@pytest.mark.parametrize(("mark", "quick"), [(pytest.mark.variations, 1), (pytest.mark.variations(quick=3), 3)])
def test_first_variations_of_each_test_are_quick(mark, quick):
    items = [Item(f"{file}::test[{i}]", [mark]) for file in "ab" for i in range(5)]
    items.append(Item("b::test_without"))
    mark_slow(items)
    assert [item.nodeid for item in items if "slow" not in item.marks] == [
        *(f"{file}::test[{i}]" for file in "ab" for i in range(quick)),
        "b::test_without",
    ]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_every_test_is_in_one_part(parts):
    items = [*items_of_environments(), *(Item(f"{file}::test[{i}]", other=i) for file in "cdefg" for i in range(5))]
    found = [in_part(items, part, parts) for part in range(1, parts + 1)]
    assert sum(map(len, found)) == len(items) == len(set().union(*found))
    assert min(map(len, found)) >= len(items) // parts - 10
    for of_part in found:
        files = {item.nodeid[0] for item in of_part if not item.nodeid.startswith(("a", "b"))}
        assert all(item in of_part for item in items if item.nodeid[0] in files)
        names = {item.callspec.params["env_id"] for item in of_part if "env_id" in item.callspec.params}
        assert all(item in of_part for item in items if item.callspec.params.get("env_id") in names)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/2/3", ""])
def test_wrong_part_is_explained(text):
    with pytest.raises(argparse.ArgumentTypeError, match="write K/N with 1 <= K <= N, such as 1/3"):
        part_of(text)


def test_part_is_read():
    assert part_of("2/3") == (2, 3)
