"""Which tests are slow, and which are in a part of all tests."""

import argparse
import zlib

import pytest
from small_environments import REPRESENTATIVES, SMALL


def mark_slow(items):
    """Mark the tests as slow that `representative` and `variations` say are."""
    for item in items:
        if item.get_closest_marker("representative") is not None and environment(item) not in (None, *REPRESENTATIVES):
            item.add_marker(pytest.mark.slow)
        variations = item.get_closest_marker("variations")
        if variations is not None and _further(item, *variations.args, **variations.kwargs):
            item.add_marker(pytest.mark.slow)


def _further(item, quick=1):
    """Return whether a test has other values than the first ones of each of its parameters."""
    return max(item.callspec.indices.values()) >= quick


def part_of(text):
    """Return the numbers of K/N."""
    try:
        part, parts = map(int, text.split("/"))
    except ValueError:
        part = parts = 0
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"expected K/N with 1 <= K <= N, such as 1/3, got {text!r}")
    return part, parts


def is_in_part(item, part, parts):
    """Return whether a test is in one of several parts. Every test is in one of them.

    Tests that compile the same kernels are in the same part: all tests of an environment, and all tests of a file.
    """
    unit = environment(item) or item.nodeid.partition("::")[0]
    return zlib.crc32(unit.encode()) % parts == part - 1


def environment(item):
    """Return the environment that a test is given as `env_id`, if it is one of `SMALL`."""
    env_id = item.callspec.params.get("env_id") if hasattr(item, "callspec") else None
    return env_id if isinstance(env_id, str) and env_id in SMALL else None
