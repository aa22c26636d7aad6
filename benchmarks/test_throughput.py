"""Every case under pytest-benchmark; figures are printed, none is asserted. Ratios: ``python -m benchmarks.report``."""

import pytest

from benchmarks.bounds.build import compiler
from benchmarks.cases import CASES, Case, available, build

WARM_UP = 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_step(benchmark, case: Case):
    """One step of all worlds; results and autoreset included."""
    if not available(case):
        pytest.skip(f"{case.env_id} is not there")
    if case.entrance == "bound" and compiler() is None:
        pytest.skip("gcc is not installed")
    step = build(case)
    for _ in range(WARM_UP):
        step()
    benchmark.group = f"{case.env_id} {case.num_envs}"
    benchmark(step)
    if benchmark.stats is not None:
        benchmark.extra_info["env_steps_per_second"] = case.num_envs / benchmark.stats.stats.median
