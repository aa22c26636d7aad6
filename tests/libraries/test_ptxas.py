"""NVIDIA's assembler on every kernel: no spill, and no growth beyond benchmarks/results/kernels.json.xz."""

import os

import pytest

from benchmarks.kernels import assembler, budgets, measurement, programs

NAME = "SimpleTag-v0"


@pytest.fixture(scope="module")
def ptxas():
    return assembler.find()


def test_no_kernel_spills_or_exceeds_its_budget(ptxas):
    jobs = measurement.essential_jobs(programs.subjects())
    measured = measurement.measure(jobs, processes=int(os.environ.get("JOBS", "2")), with_bytes=False, progress=True)
    violations = budgets.violations(budgets.load(), measured)
    assert not violations, "\n".join(["", *violations])


def test_planted_spill_and_planted_growth_are_found(ptxas):
    """The same kernels with too few registers, and with a budget that is too small."""
    rules = programs.subjects()[NAME].definition().rules
    (ptx,) = programs.compile_ptx(rules, "fused", (90,))
    plain, starved = (ptxas.usage(ptx, "sm_90", *options) for options in ((), ("-maxrregcount=32",)))
    key = next(name for name in plain if name.startswith("fused_"))
    assert plain[key].spill_stores == 0 < starved[key].spill_stores
    assert starved[key].registers <= 32 < plain[key].registers
    recorded = budgets.load()
    kernels = recorded["environments"][NAME]["kernels"]
    kernels["fused"]["step and reset, per world"]["sm_90"][0] -= 1
    measured = measurement.measure([measurement.KernelJob(NAME, "fused")], processes=1, with_bytes=False)
    assert [line.split(":")[0] for line in budgets.violations(recorded, measured)] == [
        f"{NAME}, fused, step and reset, per world, sm_90"
    ]


def test_refused_code_raises(ptxas):
    with pytest.raises(assembler.AssemblerError, match=f"ptxas {ptxas.version} for sm_90: .*fatal"):
        ptxas.usage(b".version 99.0\n.target sm_90\n\0", "sm_90")
