"""Every kernel of every environment and schedule compiles for CUDA, with or without a GPU on this machine."""

import pytest
import toy
import turns
import warp as wp
from conftest import SMALL, SPECIAL

import warp_kernels
from gpu_envs.config import build_config
from gpu_envs.registry import find
from gpu_envs.runner import program

SCHEDULES = pytest.mark.parametrize("schedule", ["fused", "phased"])


def compiled(rules, schedule, folder):
    """Compile for two architectures, and count the binaries."""
    warp_kernels.start()
    paths = wp.compile_aot_module(program(rules, schedule, True).module, device=None, arch=[80, 90], module_dir=folder)
    return len([path for path in map(str, paths) if path.endswith((".ptx", ".cubin"))])


def rules_of(env_id, settings):
    kind, build = find(env_id).load()
    return build(build_config(kind, SMALL[env_id] | settings, env_id)).rules


@SCHEDULES
def test_compiles_for_cuda(env_id, schedule, tmp_path):
    assert compiled(rules_of(env_id, {}), schedule, tmp_path) == 2


@SCHEDULES
@pytest.mark.parametrize(("env_id", "settings"), SPECIAL)
def test_special_settings_compile_for_cuda(env_id, settings, schedule, tmp_path):
    assert compiled(rules_of(env_id, settings), schedule, tmp_path) == 2


@SCHEDULES
@pytest.mark.parametrize("host", [toy, turns])
def test_masks_turns_and_items_compile_for_cuda(host, schedule, tmp_path):
    assert compiled(host.build(host.Config()).rules, schedule, tmp_path) == 2
