"""Shared by the tests with other libraries."""

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def workers_find_tests():
    """Let the workers of a Ray cluster that starts in a module of tests import the functions of its tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TESTS / "league", TESTS.parent))))
        yield
