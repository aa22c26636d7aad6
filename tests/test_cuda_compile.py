"""Every kernel of every environment and schedule compiles for CUDA, with or without a GPU on this machine."""

import pytest
import warp as wp
from conftest import SMALL

import warp_kernels
from gpu_envs.config import build_config
from gpu_envs.registry import find
from gpu_envs.runner import program


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_compiles_for_cuda(env_id, schedule, tmp_path):
    warp_kernels.start()
    kind, build = find(env_id).load()
    rules = build(build_config(kind, SMALL[env_id], env_id)).rules
    module = program(rules, schedule, True).module
    paths = wp.compile_aot_module(module, device=None, arch=[80, 90], module_dir=tmp_path)
    built = [path for path in map(str, paths) if path.endswith((".ptx", ".cubin"))]
    assert len(built) == 2, paths
