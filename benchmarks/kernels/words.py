"""Accesses to memory in the machine code of fused kernels by the size of their words, by NVIDIA's disassembler."""

import importlib.metadata
import re
import subprocess
import tempfile
from pathlib import Path

from benchmarks.kernels import assembler, programs

PACKAGE = "nvidia-cuda-nvdisasm"
ARCHITECTURE = 90
SUBJECTS = ("SimpleTag-v0", "SimpleSpread-v0", "Overcooked-v0", "SMAX-v0")
"""Environments whose kernels of steps are counted."""
SIZES = (4, 8, 16)
"""Sizes of words [bytes]; the first one and smaller ones are counted together."""
ACCESS = re.compile(r"\b(LDG?|STG?)\.E(?:\.\w+)*? ")


def count_accesses(name: str) -> list[int]:
    """Return the number of loads and stores of global memory in the fused kernel of steps, by `SIZES`.

    Raises:
        AssemblerError: The assembler or the disassembler is missing.
    """
    ptxas = assembler.find().path
    (ptx,) = programs.compile_ptx(programs.subjects()[name].definition().rules, "fused", (ARCHITECTURE,))
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_bytes(ptx.rstrip(b"\0"))
        subprocess.run([ptxas, f"-arch=sm_{ARCHITECTURE}", source, "-o", code], check=True, capture_output=True)
        done = subprocess.run([_disassembler(), "-c", code], check=True, capture_output=True, text=True)
    sections = re.split(r"\n\s*\.section\s+\.text\.", done.stdout)
    (kernel,) = (section for section in sections if section.startswith("fused_"))
    accesses = [match[0] for match in ACCESS.finditer(kernel)]
    count_16, count_8 = (sum(f".{bits}" in access for access in accesses) for bits in (128, 64))
    return [len(accesses) - count_16 - count_8, count_8, count_16]


def _disassembler() -> Path:
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise assembler.AssemblerError(f"nvdisasm: pip install {PACKAGE}") from None
    return next(Path(str(file.locate())) for file in files if file.name in ("nvdisasm", "nvdisasm.exe"))
