"""Compilation of an environment's kernels for NVIDIA GPUs, on a machine with or without one."""

import tempfile
from typing import Any

import torch
import warp as wp

import warp_kernels
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.runtime.kernels import choose_schedule, kernel_program


def compile_for_cuda(id: str, architecture: int = 90, **config: Any) -> int:
    """Compile the kernels of a step into machine code of an NVIDIA GPU, in the schedule that a GPU takes.

    It needs no GPU: Warp brings NVIDIA's compiler. It finds what only this compiler refuses; nothing runs.

    Args:
        id: ID of the environment.
        architecture: Compute capability, such as 90 for 9.0 (H100).
        **config: Settings of the environment.

    Returns:
        Size of the machine code [bytes].

    Raises:
        ConfigError: Warp is built without CUDA, or does not know the architecture.
    """
    warp_kernels.start()
    architectures = wp.get_cuda_supported_archs()
    if architecture not in architectures:
        build = (
            f"one of {', '.join(map(str, architectures))}"
            if architectures
            else "a build of Warp with CUDA (the one of PyPI)"
        )
        raise ConfigError(f"compile_for_cuda: architecture: expected {build}, got {architecture}")
    rules = configured_definition(id, config.pop("max_episode_steps", None), config)[2].rules
    module = kernel_program(rules, choose_schedule(rules.num_agents, torch.device("cuda")), True).module
    with warp_kernels.building, tempfile.TemporaryDirectory() as folder:
        paths = wp.compile_aot_module(module, device=None, arch=[architecture], module_dir=folder)
        return sum(path.stat().st_size for path in paths if path.suffix == ".cubin")
