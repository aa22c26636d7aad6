"""Bounds of the throughput suite: the same steps in scalar C with OpenMP, on tensors with the layout of the core.

gcc compiles a source at its first use, once per source and machine.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

# No contraction: every product is rounded as in the kernels, so that distances and ties agree bit for bit.
# No errno from sqrtf, which would keep loops with a square root from vectorizing.
FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-lm"]
OUT = Path(__file__).resolve().parents[2] / "out" / "bounds"
NO_ERROR = 2**63 - 1
NO_EXITS = {"runner_exits_game_after_tagged": False}
"""Settings of TagContinuous that differ from its defaults."""


def compiler() -> str | None:
    """Return the path of gcc, or None."""
    return shutil.which("gcc")


def compiler_version() -> str:
    """Return the version of gcc, or "none"."""
    gcc = compiler()
    if gcc is None:
        return "none"
    return subprocess.run([gcc, "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()


def compile_c(name: str) -> ctypes.CDLL:
    """Load ``name``.c of this folder as a shared library, compiled at first use and kept under the ignored out/."""
    source = Path(__file__).with_name(f"{name}.c")
    # -march=native: a result of another machine or compiler must not be loaded here.
    version = f"{platform.node()} {compiler_version()} {' '.join(FLAGS)}"
    digest = hashlib.sha256(source.read_bytes() + version.encode()).hexdigest()[:12]
    target = OUT / f"{name}_{digest}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}.tmp")
        subprocess.run(["gcc", str(source), *FLAGS, "-o", str(fresh)], check=True)
        os.replace(fresh, target)
    return ctypes.CDLL(str(target))


Field = tuple[torch.dtype, tuple[int, ...]]
"""Dtype of a buffer, and its shape without the axis of the worlds."""


def episode_fields(agents: int, width: int) -> dict[str, Field]:
    """Return the buffers that every environment has apart from actions and state, in the order of the C functions."""
    per_agent = (agents,)
    return {
        **dict.fromkeys(("obs", "final_obs"), (torch.float32, (agents, width))),
        **dict.fromkeys(("reward", "running_return", "episode_return"), (torch.float32, per_agent)),
        "episode_length": (torch.int32, per_agent),
        **dict.fromkeys(("terminated", "truncated", "alive", "valid"), (torch.bool, per_agent)),
        **dict.fromkeys(("step", "episode"), (torch.int32, ())),
    }


class Bound:
    """A batch of worlds stepped by C. Subclasses define the fields of the struct of their C source.

    Args:
        num_envs: Number of worlds.
        threads: Number of OpenMP threads.
    """

    source: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]]
    """Buffers of the worlds; "action" comes first."""
    constants: ClassVar[Mapping[str, tuple[type, float | torch.Tensor]]]
    """Constants of the struct in order: their type in ctypes, and a number, or a tensor for a pointer."""

    def __init__(self, num_envs: int, threads: int) -> None:
        self.library = compile_c(self.source)
        self.threads, self.num_envs = ctypes.c_int(threads), ctypes.c_long(num_envs)
        self.tensors = {
            name: torch.zeros((num_envs, *tail), dtype=dtype) for name, (dtype, tail) in self.fields.items()
        }
        self.error = ctypes.c_int64(NO_ERROR)
        pointers = dict.fromkeys((*self.fields, "error"), ctypes.c_void_p)
        types = {**pointers, **{name: kind for name, (kind, _) in self.constants.items()}}
        struct = type("Batch", (ctypes.Structure,), {"_fields_": list(types.items())})
        values = [
            value.data_ptr() if isinstance(value, torch.Tensor) else value for _, value in self.constants.values()
        ]
        addresses = [tensor.data_ptr() for tensor in self.tensors.values()]
        self.batch = struct(*addresses, ctypes.addressof(self.error), *values)
        self.call("reset")

    def call(self, function: str) -> None:
        """Run a function of the library over all worlds."""
        self.library.set_threads(self.threads)  # OpenMP's setting is the process's: another bound may have changed it
        getattr(self.library, function)(ctypes.byref(self.batch), self.num_envs)

    def step(self, action: torch.Tensor) -> None:
        """Step all worlds; action (E, A) or (E, A, K) int64, contiguous, read in place."""
        self.batch.action = action.data_ptr()
        self.call("step")
        if self.error.value != NO_ERROR:
            raise ValueError(f"{self.source}: bad action, key {self.error.value:#x}")


class SimpleTagBound(Bound):
    """The C step of SimpleTag-v0: one good agent, three adversaries, two obstacles, discrete actions."""

    source = "simple_tag"
    fields: ClassVar = {
        "action": (torch.int64, (4,)),
        "pos": (torch.float32, (6, 2)),
        "vel": (torch.float32, (4, 2)),
        **episode_fields(4, 16),
    }
    constants: ClassVar = {"seed": (ctypes.c_uint64, 1), "max_steps": (ctypes.c_int32, 25)}


def _action_table(high: float, levels: int = 10) -> torch.Tensor:
    """Return float32 levels between -high and high, with a leading 0 for the no-op."""
    high = float(np.float32(high))
    return torch.from_numpy(np.concatenate([[0.0], np.linspace(-high, high, levels)]).astype(np.float32))


class TagContinuousBound(Bound):
    """The C step of TagContinuous-v0: 5 taggers, 100 runners, the 10 nearest observed, no exits."""

    agents, nearest = 105, 10
    source = "tag_continuous"
    fields: ClassVar = {
        "action": (torch.int64, (agents, 2)),
        "pos": (torch.float32, (agents, 2)),
        "speed": (torch.float32, (agents,)),
        "acceleration": (torch.float32, (agents,)),
        "direction": (torch.float32, (agents,)),
        **episode_fields(agents, 7 * nearest + 1),
    }
    constants: ClassVar = {
        "accelerations": (ctypes.c_void_p, _action_table(0.1)),
        "turns": (ctypes.c_void_p, _action_table(2.35)),
        "seed": (ctypes.c_uint64, 1),
        "max_steps": (ctypes.c_int32, 500),
        "length": (ctypes.c_float, 20.0),
        "max_speed": (ctypes.c_float, 1.0),
        "margin": (ctypes.c_float, 0.02 * 20.0),
        "tag_reward": (ctypes.c_float, 10.0),
        "tag_penalty": (ctypes.c_float, -10.0),
        "end_reward": (ctypes.c_float, 1.0),
    }


BOUNDS = {"SimpleTag-v0": SimpleTagBound, "TagContinuous-v0": TagContinuousBound}
"""C steps by id of the environment."""
