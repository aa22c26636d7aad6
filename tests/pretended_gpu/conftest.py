"""Fixtures of the tests on the pretended GPU."""

import pytest

from pretended_gpu import activate
from trainers.base.learner_spec import LearnerSpec


@pytest.fixture
def gpu():
    """State of two pretended GPUs that are active during the test."""
    with activate() as gpu:
        yield gpu


@pytest.fixture(autouse=True)
def _learners_of_the_cpu_as_on_a_gpu(monkeypatch):
    """On the CPU too, keep invalid rows and make step sizes tensors, so that results can be compared bit for bit."""

    def captured(spec):
        return spec.cuda_graph and (spec.shard is None or spec.shard.ranks == 1)

    monkeypatch.setattr(LearnerSpec, "captured", property(captured))
