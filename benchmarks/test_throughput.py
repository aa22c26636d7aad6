"""The comparisons under pytest-benchmark; figures are printed, none is asserted.

All entrants of a heat take turns in one run. Every one of them is a row here, made out of the turns it has played: the
clock of its benchmark shows those.
"""

import pytest

from benchmarks.contests import CONTESTS

_now = [0.0]


def clock():
    """Shows the time that the turns replayed so far have taken [s]."""
    return _now[0]


def pytest_generate_tests(metafunc):
    """A row for every entrant of every heat."""
    quick = metafunc.config.getoption("--quick")
    rows = [
        pytest.param(contest, heat, entrant, id=f"{contest.id}-{heat.title}-{entrant.name}")
        for contest in CONTESTS
        for heat in contest.heats
        if heat.quick or not quick
        for entrant in heat.entrants
    ]
    metafunc.parametrize(("contest", "heat", "entrant"), rows)


@pytest.mark.benchmark(timer=clock)
def test_step(benchmark, suite, contest, heat, entrant):
    """One step of all worlds; results and autoreset included."""
    played = suite.play(contest, heat)
    if entrant.name in played.absent:
        pytest.skip(played.absent[entrant.name])
    (result,) = (one for one in played.results if one.seat.entrant.name == entrant.name)
    turns = iter(result.seconds)

    def turn():
        _now[0] += next(turns)

    benchmark.group = f"{contest.id}, {heat.title}"
    benchmark.extra_info |= result.seat.describe() | {"kind": entrant.kind, "unit": contest.unit}
    benchmark.extra_info["per_second"] = result.units / sorted(result.seconds)[len(result.seconds) // 2]
    benchmark.pedantic(turn, rounds=len(result.seconds))
