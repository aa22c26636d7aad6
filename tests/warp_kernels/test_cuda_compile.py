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
ARCHITECTURES = [80, 90]


def binaries(module, folder, architectures):
    """Compile, and count the binaries."""
    warp_kernels.start()
    paths = wp.compile_aot_module(module, device=None, arch=architectures, module_dir=folder)
    return len([path for path in map(str, paths) if path.endswith((".ptx", ".cubin"))])


def compiled(rules, schedule, folder):
    """Compile all kernels of a schedule for every architecture."""
    return binaries(kernel_program(rules, schedule, True).module, folder, ARCHITECTURES)


def rules_of(env_id, settings):
    kind, build = find(env_id).load()
    return build(build_config(kind, SMALL[env_id] | settings, env_id)).rules


def test_compiles_for_cuda(env_id, tmp_path):
    """The schedule that a GPU would take, for one architecture; the slow tests below have all of both."""
    rules = rules_of(env_id, {})
    schedule = choose_schedule(rules.num_agents, torch.device("cuda"))
    assert binaries(kernel_program(rules, schedule, True).module, tmp_path, ARCHITECTURES[-1:]) == 1


@pytest.mark.slow
@SCHEDULES
def test_all_of_it_compiles_for_cuda(env_id, schedule, tmp_path):
    assert compiled(rules_of(env_id, {}), schedule, tmp_path) == 2


@pytest.mark.slow
def test_random_play_compiles_for_cuda(env_id, tmp_path):
    assert binaries(rollout_kernel(rules_of(env_id, {}), True)[1], tmp_path, ARCHITECTURES) == 2


@pytest.mark.slow
@SCHEDULES
@pytest.mark.parametrize(("env_id", "settings"), SPECIAL)
def test_special_settings_compile_for_cuda(env_id, settings, schedule, tmp_path):
    assert compiled(rules_of(env_id, settings), schedule, tmp_path) == 2


@pytest.mark.slow
@SCHEDULES
@pytest.mark.parametrize("host", [toy, turns])
def test_masks_turns_and_items_compile_for_cuda(host, schedule, tmp_path):
    assert compiled(host.build(host.Config()).rules, schedule, tmp_path) == 2
