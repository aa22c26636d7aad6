"""Plugin of tests with a training and a league to watch."""

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
    """Return a function that makes the `ViewerApi` of a run."""
    with watching() as watch:
        yield watch
