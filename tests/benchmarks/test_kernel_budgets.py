"""The record of kernels and its page; tests/libraries/test_ptxas.py compiles the kernels and compares them."""

import copy
import json
import lzma

import pytest

from benchmarks.hardware.page_files import filled
from benchmarks.kernels import assembler, budgets, measurement, networks, page, programs
from benchmarks.kernels.assembler import AssemblerError, KernelUsage
from benchmarks.kernels.occupancy import ARCHITECTURES, occupancy
from gpu_envs.definition.registry import list_envs
from gpu_envs.runtime.kernels import LARGE_BLOCK
from warp_kernels.networks.tile_memory import SHARED_MEMORY, shared_bytes

RECORDED = budgets.load()
NAMES = list(programs.subjects())
EVERY_NAME = pytest.mark.parametrize("name", NAMES)
A100, H100, RTX = ARCHITECTURES


def test_page_and_file_are_those_of_the_record():
    assert page.PAGE.read_text(encoding="utf-8") == filled(page.PAGE, page.parts(RECORDED))
    assert lzma.decompress(budgets.RECORD.read_bytes()).decode() == budgets.dumps(RECORDED)
    assert json.loads(budgets.dumps(RECORDED)) == RECORDED


def test_every_registered_environment_is_recorded():
    assert set(list_envs()) <= set(RECORDED["environments"])
    assert list(RECORDED["environments"]) == NAMES


@EVERY_NAME
def test_record_has_the_kernels_of_the_rules(name):
    """Kernels are built and not compiled. After a change of the phases, run `make kernels`."""
    rules = programs.subjects()[name].definition().rules
    entry = RECORDED["environments"][name]
    assert {key: entry[key] for key in ("agents", "schedule")} == measurement.describe(name)
    assert list(entry["kernels"]) == list(programs.schedules(rules))
    for schedule in programs.schedules(rules):
        assert sorted(entry["kernels"][schedule]) == sorted(programs.kernel_names(rules, schedule).values())
        for usage in entry["kernels"][schedule].values():
            assert list(usage) == [architecture.name for architecture in ARCHITECTURES]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.optimized] * name.startswith("TagContinuous"))  # for its many steps
        for name in NAMES
    ],
)
def test_recorded_bytes_are_those_of_a_step(name):
    assert measurement.bytes_moved(name) == RECORDED["environments"][name]["bytes"]


@pytest.mark.parametrize("name", networks.networks())
def test_record_has_the_kernels_of_learning(name):
    """Kernels are built and not compiled. After a change of their names, run `make kernels`."""
    (kernels,) = RECORDED["networks"][name]["kernels"].values()
    for architecture in ARCHITECTURES:
        assert sorted(kernels) == sorted(networks.networks()[name].kernels(architecture))
    for usage in kernels.values():
        assert list(usage) == [architecture.name for architecture in ARCHITECTURES]


def test_tiles_of_recorded_gradients_fit_the_shared_memory_of_a_block():
    """Warp reserves some in addition to the tiles, and the record has what the compiled kernel needs."""
    for name, subject in networks.networks().items():
        for architecture in ARCHITECTURES if subject.width else ():
            rows = subject.tile_rows(architecture)
            usage = RECORDED["networks"][name]["kernels"]["learning"]["policy gradient"][architecture.name]
            shared = usage[measurement.FIGURES.index("shared")]
            assert 0 <= shared - shared_bytes(subject.policy, rows) <= 1024
            assert shared <= SHARED_MEMORY[architecture.compute_capability] << 10


# ---------------------------------------------------------------- comparison


def changed(figure, by):
    """Return the record with a figure of a kernel changed on one architecture."""
    measured = copy.deepcopy(RECORDED)
    usage = measured["environments"]["SimpleTag-v0"]["kernels"]["fused"]["sample, per world"]["sm_90"]
    usage[measurement.FIGURES.index(figure)] += by
    return measured


def test_record_keeps_to_itself():
    """Only the known kernels spill."""
    assert budgets.violations(RECORDED, RECORDED) == []


@pytest.mark.parametrize("spill", budgets.KNOWN_SPILLS)
def test_known_spills_exist_and_may_not_grow(spill):
    """A kernel that no longer spills leaves the list."""
    name, schedule = spill
    measured, index = copy.deepcopy(RECORDED), measurement.FIGURES.index("spill_stores")
    kernels = measured["environments"][name]["kernels"][schedule]
    usage = next(usage for kernel in kernels.values() for usage in kernel.values() if usage[index])
    usage[index] += 4
    (line,) = budgets.violations(RECORDED, measured)
    assert f"spill_stores: expected at most {usage[index] - 4}, got {usage[index]}" in line


@pytest.mark.parametrize("figure", ["registers", "stack", "shared"])
def test_growth_is_one_line(figure):
    usage = RECORDED["environments"]["SimpleTag-v0"]["kernels"]["fused"]["sample, per world"]["sm_90"]
    value = usage[measurement.FIGURES.index(figure)]
    assert budgets.violations(RECORDED, changed(figure, 1)) == [
        f"SimpleTag-v0, fused, sample, per world, sm_90: {figure}: expected at most {value}, got {value + 1}; if that "
        "is intended, run `make kernels`"
    ]
    assert budgets.violations(changed(figure, 1), RECORDED) == []


@pytest.mark.parametrize("figure", ["spill_stores", "spill_loads"])
def test_spill_is_found_even_if_recorded(figure):
    spilled = changed(figure, 8)
    for recorded in (RECORDED, spilled):
        (line,) = budgets.violations(recorded, spilled)
        assert line.startswith(f"SimpleTag-v0, fused, sample, per world, sm_90: {figure}: expected 0 bytes, got 8;")


def test_growth_of_a_kernel_of_learning_is_found():
    measured = copy.deepcopy(RECORDED)
    measured["environments"] = {}
    measured["networks"]["Networks 18-64-64"]["kernels"]["learning"]["values"]["sm_80"][0] += 1
    (line,) = budgets.violations(RECORDED, measured)
    assert line.startswith("Networks 18-64-64, learning, values, sm_80: registers: expected at most ")


def test_other_kernels_are_found():
    measured = copy.deepcopy(RECORDED)
    kernels = measured["environments"]["SimpleTag-v0"]["kernels"]["fused"]
    kernels["new, per world"] = kernels.pop("sample, per world")
    lines = budgets.violations(RECORDED, measured)
    assert len(lines) == 2 * len(ARCHITECTURES)
    assert "sample, per world, sm_80: recorded, but not compiled; if that is intended" in lines[0]
    assert "new, per world, sm_120: not recorded; if that is intended" in lines[-1]


def test_essential_jobs_have_one_architecture_for_environments():
    network = next(iter(measurement.networks()))
    jobs = measurement.essential_jobs(["SimpleTag-v0", network])
    assert {(job.name, job.schedule): [architecture.name for architecture in job.architectures] for job in jobs} == {
        ("SimpleTag-v0", "fused"): ["sm_90"],
        ("SimpleTag-v0", "phased"): ["sm_90"],
        ("SimpleTag-v0", "random rollout"): ["sm_90"],
        (network, measurement.LEARNING): ["sm_80", "sm_90", "sm_120"],
    }


def test_kernels_that_were_not_compiled_are_not_compared():
    measured = copy.deepcopy(RECORDED)
    measured["environments"] = {"SimpleTag-v0": measured["environments"]["SimpleTag-v0"]}
    kernels = measured["environments"]["SimpleTag-v0"]["kernels"]
    del kernels["phased"]
    for usage in kernels["fused"].values():
        del usage["sm_80"]
    assert budgets.violations(RECORDED, measured) == []
    del kernels["fused"]["sample, per world"]["sm_120"]
    (line,) = budgets.violations(RECORDED, measured)
    assert "sample, per world, sm_120: recorded, but not compiled" in line


def test_other_versions_are_named():
    measured = changed("registers", 1) | {"versions": {"warp-lang": "9.9.9", "ptxas": "99.9"}}
    assert budgets.violations(RECORDED, measured)[1].endswith("of {'warp-lang': '9.9.9', 'ptxas': '99.9'}.")


def test_page_shows_the_largest_figures_of_a_family():
    measured = copy.deepcopy(RECORDED)
    usage = measured["environments"]["SimpleTag-v0"]["kernels"]["fused"]["step and reset, per world"]
    usage["sm_90"][:] = [254, 9_996, 4, 8, 2048]
    row = next(line for line in page.parts(measured)["kernels"].splitlines() if line.startswith("| mpe |"))
    assert row.split(" | ")[2:7] == ["254", "9,996", "12", "2,048", "12.5 %"]


# ---------------------------------------------------------------- ptxas

MESSAGES = """\
ptxas info    : 154 bytes gmem
ptxas info    : Compiling entry function 'fused_39742c02_cuda_kernel_forward' for 'sm_90'
ptxas info    : Function properties for fused_39742c02_cuda_kernel_forward
    448 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 118 registers, used 0 barriers, 448 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 265.817 ms
ptxas info    : Compiling entry function 'sample_fused_3b74350f_cuda_kernel_forward' for 'sm_90'
ptxas info    : Function properties for sample_fused_3b74350f_cuda_kernel_forward
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for a_called_function
    64 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
"""


def test_messages_of_ptxas_are_read():
    first, second = assembler.read(MESSAGES).items()
    assert first == ("fused_39742c02_cuda_kernel_forward", KernelUsage(118, 448, 12, 16, 1024))
    assert second == ("sample_fused_3b74350f_cuda_kernel_forward", KernelUsage(40, 0, 0, 0, 0))
    with pytest.raises(AssemblerError, match="says nothing about the stack of fused_39742c02"):
        assembler.read(MESSAGES.replace("spill", "other"))


def script(folder, version):
    """Write a program that prints the version of a ptxas."""
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release 13, {version}'\n")
    path.chmod(0o755)
    return path


def test_only_a_new_ptxas_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(assembler, "PACKAGE", "a-package-that-is-not-installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssemblerError, match=r"ptxas: expected 13\.5 or newer, got none; `make kernels` installs"):
        assembler.find()
    path = script(tmp_path, "V13.0.88")
    with pytest.raises(AssemblerError, match=f"ptxas: expected 13.5 or newer, got 13.0.88 at {path};"):
        assembler.find()
    script(tmp_path, "V13.10.1")
    assert assembler.find() == assembler.Assembler(path, "13.10.1")


# ---------------------------------------------------------------- occupancy


@pytest.mark.parametrize(
    ("architecture", "registers", "block_dim", "blocks"),
    [
        *((A100, registers, 256, blocks) for registers, blocks in ((32, 8), (33, 6), (118, 2), (168, 1), (255, 1))),
        *((A100, registers, 32, blocks) for registers, blocks in ((32, 32), (96, 20), (118, 16), (168, 12), (255, 8))),
        *((H100, registers, 64, blocks) for registers, blocks in ((32, 32), (40, 24), (64, 16), (96, 10), (168, 6))),
        *((RTX, registers, 256, blocks) for registers, blocks in ((32, 6), (40, 6), (64, 4), (118, 2), (255, 1))),
        *((RTX, registers, 32, blocks) for registers, blocks in ((32, 24), (64, 24), (96, 20), (168, 12), (255, 8))),
    ],
)
def test_occupancy_is_that_of_the_calculator_by_nvidia(architecture, registers, block_dim, blocks):
    """Compare with active blocks by ``cuda_occupancy.h`` of nvidia-cuda-runtime 13.5, with 1,024 bytes shared."""
    assert occupancy(architecture, registers, 1024, block_dim) == blocks * block_dim / 32 / architecture.max_warps


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_no_block_has_a_larger_occupancy_than_the_chosen_size(architecture):
    """Whatever registers a kernel needs; rules use no shared memory."""
    for registers in range(16, 256):
        chosen, *larger = (occupancy(architecture, registers, 0, size) for size in (LARGE_BLOCK, 128, 256))
        assert chosen >= max(larger)


def test_shared_memory_limits_occupancy():
    assert occupancy(H100, 32, 48 << 10, 256) == 4 * 8 / 64
    assert occupancy(RTX, 32, 48 << 10, 256) == 2 * 8 / 48
