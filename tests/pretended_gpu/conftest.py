"""Fixtures of the tests on the pretended GPU."""

import pytest

from pretended_gpu import activate


@pytest.fixture
def gpu():
    """State of two pretended GPUs that are active during the test."""
    with activate() as gpu:
        yield gpu
