"""NVIDIA's assembler ptxas: where it is, and what it says about kernels."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "nvidia-cuda-nvcc"
OLDEST = (13, 5)
"""Oldest version that is used. Warp 1.19 writes PTX 9.4, which ptxas 13.0 refuses."""
ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)'")
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
FUNCTION = re.compile(r"Function properties for (?P<name>\w+)")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


class AssemblerError(RuntimeError):
    """Ptxas is missing or too old, or refuses a kernel."""


@dataclass(frozen=True)
class KernelUsage:
    """Resources of a kernel on one architecture."""

    registers: int
    """Registers of a thread."""
    stack: int
    """Stack frame of a thread [bytes]."""
    spill_stores: int
    """Registers stored to the stack for lack of registers [bytes of a thread]."""
    spill_loads: int
    """The same, loaded [bytes of a thread]."""
    shared: int
    """Shared memory of a block [bytes]."""


@dataclass(frozen=True)
class Assembler:
    """An installed ptxas."""

    path: Path
    """Executable."""
    version: str
    """Version, such as "13.5.37"."""

    def usage(self, ptx: bytes, architecture: str, *options: str) -> dict[str, KernelUsage]:
        """Return the resources of every kernel by its name in PTX.

        Args:
            ptx: Code as Warp writes it, with a zero byte at its end.
            architecture: Architecture, such as "sm_90".
            *options: Further options of ptxas.

        Raises:
            AssemblerError: Ptxas refuses the code.
        """
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "kernels.ptx"
            source.write_bytes(ptx.rstrip(b"\0"))
            command = [self.path, "-v", f"-arch={architecture}", *options, source, "-o", os.devnull]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssemblerError(f"ptxas {self.version} for {architecture}: {' '.join(done.stderr.split())[:500]}")
        return read(done.stdout + done.stderr)


def find() -> Assembler:
    """Return ptxas from the package ``nvidia-cuda-nvcc`` of this Python, or from PATH.

    Raises:
        AssemblerError: There is none, or none that is new enough.
    """
    paths = [path for path in (_from_package(), shutil.which("ptxas")) if path]
    older = []
    for path in map(Path, paths):
        text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"V(\d+)\.(\d+)\.(\d+)", text)
        if version and (int(version[1]), int(version[2])) >= OLDEST:
            return Assembler(path, version[0][1:])
        older.append(f"{version[0][1:] if version else 'an unknown version'} at {path}")
    oldest = ".".join(map(str, OLDEST))
    raise AssemblerError(
        f"ptxas: expected {oldest} or newer, got {' and '.join(older) or 'none'}; `make kernels` installs it for itself"
    )


def _from_package() -> Path | None:
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name in ("ptxas", "ptxas.exe")), None)


def read(text: str) -> dict[str, KernelUsage]:
    """Return the resources of every kernel from the messages of ``ptxas -v``.

    Raises:
        AssemblerError: A kernel lacks a figure.
    """
    frames: dict[str, tuple[int, int, int]] = {}
    usages, kernel, function = {}, "", ""
    for line in text.splitlines():
        if match := ENTRY.search(line):
            kernel = match["name"]
        elif match := FUNCTION.search(line):
            function = match["name"]
        elif match := PROPERTIES.search(line):
            frames[function] = int(match[1]), int(match[2]), int(match[3])
        elif match := USED.search(line):
            if kernel not in frames:
                raise AssemblerError(f"ptxas -v says nothing about the stack of {kernel}")
            shared = SHARED.search(line)
            usages[kernel] = KernelUsage(int(match[1]), *frames[kernel], int(shared[1]) if shared else 0)
    return usages
