"""Which tests are slow, and which are in a part of all tests."""

import argparse
from collections import Counter

import pytest
from small_environments import REPRESENTATIVES, SMALL


def mark_slow(items):
    """Mark the tests as slow that `representative` and `variations` say are."""
    seen = Counter()
    for item in items:
        if item.get_closest_marker("representative") is not None and environment(item) not in (None, *REPRESENTATIVES):
            item.add_marker(pytest.mark.slow)
        variations = item.get_closest_marker("variations")
        if variations is not None:
            function = item.nodeid.partition("[")[0]
            seen[function] += 1
            if seen[function] > variations.kwargs.get("quick", 1):
                item.add_marker(pytest.mark.slow)


def part_of(text):
    """Return the numbers of K/N."""
    try:
        part, parts = map(int, text.split("/"))
    except ValueError:
        part = parts = 0
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of tests; write K/N with 1 <= K <= N, such as 1/3")
    return part, parts


def in_part(items, part, parts):
    """Return the tests of one of several parts. All tests are in one of them.

    Tests that compile the same kernels are in the same part: those of an environment, and those of a file.
    """
    kept = set(sorted({_unit(item) for item in items})[part - 1 :: parts])
    return {item for item in items if _unit(item) in kept}


def environment(item):
    """Return the environment that a test is given as `env_id`, if it is one of `SMALL`."""
    env_id = item.callspec.params.get("env_id") if hasattr(item, "callspec") else None
    return env_id if isinstance(env_id, str) and env_id in SMALL else None


def _unit(item):
    return environment(item) or item.nodeid.partition("::")[0]
