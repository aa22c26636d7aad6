"""Every kernel of every environment and schedule compiles for CUDA, with or without a GPU on this machine."""

import pytest
import torch
import toy
import turns
import warp as wp
from conftest import SMALL, SPECIAL

import warp_kernels
from gpu_envs.definition.registry import find
from gpu_envs.runtime.kernels import choose_schedule, kernel_program, rollout_kernel
from gpu_envs.utils.settings import build_config

SCHEDULES = pytest.mark.parametrize("schedule", ["fused", "phased"])
H100 = 90


@pytest.fixture(scope="session")
def newest():
    """Return the newest architecture that Warp's compiler knows, at least that of consumer Blackwell GPUs."""
    architecture = wp.get_cuda_supported_archs()[-1]
    assert architecture >= 120
    return architecture


@pytest.fixture
def architectures(newest):
    """Return A100, H100 and the newest architecture."""
    return [80, H100, newest]


def assert_compiles(module, folder, architectures):
    """Compile a module into machine code, and check that there is one binary per architecture."""
    warp_kernels.start()
    paths = wp.compile_aot_module(module, device=None, arch=architectures, module_dir=folder)
    binaries = [path for path in paths if path.suffix in (".ptx", ".cubin")]
    assert [path.suffixes[-2:] for path in binaries] == [[f".sm{number}", ".cubin"] for number in architectures]
    assert all(path.read_bytes().startswith(b"\x7fELF") for path in binaries)


def assert_rules_compile(rules, schedule, folder, architectures):
    """Compile all kernels of a schedule."""
    assert_compiles(kernel_program(rules, schedule, True).module, folder, architectures)


def rules_of(env_id, settings):
    kind, build = find(env_id).load()
    return build(build_config(kind, SMALL[env_id] | settings, env_id)).rules


def test_compiles_for_cuda(env_id, tmp_path):
    """The schedule that a GPU would take, for one architecture; the slow tests below have all of both."""
    rules = rules_of(env_id, {})
    assert_rules_compile(rules, choose_schedule(rules.num_agents, torch.device("cuda")), tmp_path, [H100])


@pytest.mark.parametrize(("env_id", "schedule"), [("SimpleTag-v0", "fused"), ("TagContinuous-v0", "phased")])
def test_compiles_for_the_newest_architecture(env_id, schedule, newest, tmp_path):
    """The slow tests below compile all kernels for it."""
    assert_rules_compile(rules_of(env_id, {}), schedule, tmp_path, [newest])


@pytest.mark.slow
@SCHEDULES
def test_all_of_it_compiles_for_cuda(env_id, schedule, architectures, tmp_path):
    assert_rules_compile(rules_of(env_id, {}), schedule, tmp_path, architectures)


@pytest.mark.slow
def test_random_play_compiles_for_cuda(env_id, architectures, tmp_path):
    assert_compiles(rollout_kernel(rules_of(env_id, {}), True)[1], tmp_path, architectures)


@pytest.mark.slow
@SCHEDULES
@pytest.mark.parametrize(("env_id", "settings"), SPECIAL)
def test_special_settings_compile_for_cuda(env_id, settings, schedule, architectures, tmp_path):
    assert_rules_compile(rules_of(env_id, settings), schedule, tmp_path, architectures)


@pytest.mark.slow
@SCHEDULES
@pytest.mark.parametrize("host", [toy, turns])
def test_masks_turns_and_items_compile_for_cuda(host, schedule, architectures, tmp_path):
    assert_rules_compile(host.build(host.Config()).rules, schedule, tmp_path, architectures)
