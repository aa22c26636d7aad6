"""Fixtures of tests of leagues."""

import pytest
from toy_league import start


@pytest.fixture
def store(tmp_path):
    with start(tmp_path / "run") as store:
        yield store
