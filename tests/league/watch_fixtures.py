"""A training and a league to watch; a plugin of the tests that do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from watch_runs import psro, trained, watching


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("run") / "tag")


@pytest.fixture(scope="module")
def league(tmp_path_factory) -> Path:
    return psro(tmp_path_factory.mktemp("run") / "rps")


@pytest.fixture
def watched() -> Iterator:
    """Function that gives the Api of a run."""
    with watching() as watch:
        yield watch
