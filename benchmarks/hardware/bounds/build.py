"""Compile a bound with gcc, once per source and machine, and step it on tensors with the layout of the core."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch

# No contraction: every product is rounded as in the kernels, so that distances and ties agree bit for bit.
# No errno from sqrtf, which would keep loops with a square root from vectorizing.
FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-lm"]
OUT = Path(__file__).resolve().parents[3] / "out" / "bounds"
NO_ERROR = 2**63 - 1


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
        constants: Values of the constants of the struct in order: a number, or a tensor for a pointer.
    """

    source: ClassVar[str]
    fields: ClassVar[
        Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
    ]  # pointers led by num_envs; "action" comes first
    constants: ClassVar[Mapping[str, type]]  # ctypes types

    def __init__(self, num_envs: int, threads: int, constants: Mapping[str, float | torch.Tensor]) -> None:
        self.library = compile_c(self.source)
        self.threads = ctypes.c_int(threads)
        self.num_envs = ctypes.c_long(num_envs)
        self.tensors = {
            name: torch.zeros((num_envs, *tail), dtype=dtype) for name, (dtype, tail) in self.fields.items()
        }
        self.values = dict(constants)  # keeps the memory of tensors alive
        self.error = ctypes.c_int64(NO_ERROR)
        struct = type("Batch", (ctypes.Structure,), {"_fields_": self._members()})
        pointers = [t.data_ptr() for t in self.tensors.values()]
        values = [
            v.data_ptr() if isinstance(v, torch.Tensor) else v for v in (constants[name] for name in self.constants)
        ]
        self.batch = struct(*pointers, ctypes.addressof(self.error), *values)
        self.call("reset")

    @classmethod
    def _members(cls) -> list[tuple[str, type]]:
        return [*((name, ctypes.c_void_p) for name in cls.fields), ("error", ctypes.c_void_p), *cls.constants.items()]

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
