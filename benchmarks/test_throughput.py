"""The comparisons under pytest-benchmark; figures are printed, none is asserted.

All contenders of a round alternate in one run. Each is one row, and the clock of its benchmark replays its samples.
"""

import pytest

from benchmarks.throughput.comparisons import COMPARISONS

_now = [0.0]


def clock():
    """Clock that shows the time of the replayed samples [s]."""
    return _now[0]


def pytest_generate_tests(metafunc):
    """Yield a row for every contender of every round."""
    quick = metafunc.config.getoption("--quick")
    rows = [
        pytest.param(comparison, round_, contender, id=f"{comparison.id}-{round_.title}-{contender.name}")
        for comparison in COMPARISONS
        for round_ in comparison.rounds
        if round_.quick or not quick
        for contender in round_.contenders
    ]
    metafunc.parametrize(("comparison", "round_", "contender"), rows)


@pytest.mark.benchmark(timer=clock)
def test_step(benchmark, suite, comparison, round_, contender):
    """Benchmark one step of all worlds, results and autoreset included."""
    played = suite.play(comparison, round_)
    if contender.name in played.absent:
        pytest.skip(played.absent[contender.name])
    (result,) = (entry for entry in played.results if entry.seat.contender.name == contender.name)
    turns = iter(result.seconds)

    def turn():
        _now[0] += next(turns)

    benchmark.group = f"{comparison.id}, {round_.title}"
    benchmark.extra_info |= result.seat.describe() | {"kind": contender.kind, "unit": comparison.unit}
    benchmark.extra_info["per_second"] = result.units / sorted(result.seconds)[len(result.seconds) // 2]
    benchmark.pedantic(turn, rounds=len(result.seconds))
