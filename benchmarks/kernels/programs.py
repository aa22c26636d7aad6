"""GPU kernels of every environment with default settings, by name, and their PTX."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import warp as wp

import warp_kernels
from benchmarks.throughput.cases import many_agent_settings
from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.definition.registry import find, list_envs
from gpu_envs.runtime.kernels import choose_schedule, kernel_program, rollout_kernel
from gpu_envs.utils.settings import build_config
from warp_kernels.framework.step import step_phases
from warp_kernels.rules import Rules

ROLLOUT = "random rollout"
SCHEDULES = ("fused", "phased", ROLLOUT)
"""Sets of kernels of every environment, each a Warp module."""
FUSE_FP = True
"""Contracted multiply-adds, the default on a GPU."""
ENTRY = re.compile(r"(?P<key>\w+)_[0-9a-f]{8}_cuda_kernel_forward")
"""Name of a kernel in PTX."""
MANY_AGENTS = 1000
"""Agents of a second TagContinuous, which searches neighbors in cells."""
MANY = f"TagContinuous-v0 with {MANY_AGENTS:,} agents"


@dataclass(frozen=True)
class EnvSubject:
    """An environment with settings."""

    env_id: str
    """ID."""
    settings: dict[str, Any]
    """Settings that differ from the defaults."""

    def definition(self) -> EnvDefinition:
        """Return the definition."""
        config, build = find(self.env_id).load()
        return build(build_config(config, self.settings, self.env_id))


def subjects() -> dict[str, EnvSubject]:
    """Return all environments by their names in the record."""
    many = EnvSubject("TagContinuous-v0", many_agent_settings(MANY_AGENTS))
    defaults = {env_id: EnvSubject(env_id, {}) for env_id in list_envs()}
    return dict(sorted({**defaults, MANY: many}.items()))


def default_schedule(rules: Rules) -> str:
    """Return the schedule of steps on a GPU."""
    return choose_schedule(rules.num_agents, torch.device("cuda"))


def schedules(rules: Rules) -> tuple[str, ...]:
    """Return ``SCHEDULES`` and the schedule of steps on a GPU."""
    return tuple(dict.fromkeys((*SCHEDULES, default_schedule(rules))))


def kernel_names(rules: Rules, schedule: str) -> dict[str, str]:
    """Return the names in the record of the kernels of an entry of ``schedules``, by their keys in Warp."""
    if schedule == ROLLOUT:
        return {rollout_kernel(rules, FUSE_FP)[0].key: f"{ROLLOUT}, per world"}
    program = kernel_program(rules, schedule, FUSE_FP)
    states = {stage.kernel.key: "global state, per agent" for stage in program.global_state}
    if schedule == "fused":
        step, sample = program.step[0].kernel.key, program.sample[0].kernel.key
        return {step: "step and reset, per world", sample: "sample, per world", **states}
    if schedule == "block":
        step, sample = program.step[0].kernel.key, program.sample[0].kernel.key
        return {step: "step and reset, a block per world", sample: "sample, per agent", **states}
    parts = step_phases(rules, in_slots=True)
    names = {}
    for launch, phases in (("step", (*parts.play, *parts.start)), ("reset", (*parts.renew, *parts.start))):
        for number, (stage, phase) in enumerate(zip(getattr(program, launch), phases, strict=True), 1):
            names[stage.kernel.key] = f"{launch} {number} {phase.called}, per {_threads(phase.over)}"
    return {**names, program.sample[0].kernel.key: "sample, per agent", **states}


def _threads(over: str | int) -> str:
    """Return the index set of a phase's threads."""
    return over if isinstance(over, str) else f"item ({over:,})"


def compile_ptx(rules: Rules, schedule: str, compute_capabilities: Sequence[int]) -> list[bytes]:
    """Compile the kernels of an entry of ``schedules`` and return their PTX, one per compute capability."""
    warp_kernels.start()
    module = (
        rollout_kernel(rules, FUSE_FP)[1] if schedule == ROLLOUT else kernel_program(rules, schedule, FUSE_FP).module
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = wp.compile_aot_module(
            module, device=None, arch=list(compute_capabilities), module_dir=folder, use_ptx=True
        )
        return [Path(path).read_bytes() for path in paths]
