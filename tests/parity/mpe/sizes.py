"""How many worlds the tests compare with mpe2: few in the quick suite, all of them in the slow one."""

import pytest

few_or_all = pytest.mark.parametrize(
    ("worlds", "continuous"),
    [(30, False), *(pytest.param(200, value, marks=pytest.mark.slow) for value in (False, True))],
    ids=["few", "discrete", "continuous"],
)
"""Episodes of 25 steps with either kind of actions."""


def first_of(settings, few, many):
    """Return settings and numbers of worlds: the first settings with few worlds, and slow ones, all with many."""
    return [(settings[0], few), *(pytest.param(case, many, marks=pytest.mark.slow) for case in settings)]
