"""The benchmark of the dispatcher runs; what it measures is for docs/scaling.md."""

import pytest

pytest.importorskip("ray")

from benchmarks.league import executor_scaling


def test_sleeping_calls_are_submitted_and_committed():
    row = executor_scaling.dispatch(2, seconds=0.2, tasks=4)
    assert (row["workers"], row["calls"]) == (2, 8)
    assert 0.2 < row["efficiency"] <= 1.0
    assert 0 < row["commit_ms"] < row["ms_per_call"] < 1000
