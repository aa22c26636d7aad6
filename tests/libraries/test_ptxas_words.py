"""NVIDIA's disassembler on the fused kernels of four environments: their accesses to memory are in 16-byte words."""

import importlib.metadata
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.kernels import assembler, programs

ARCHITECTURE = 90
ACCESS = re.compile(r"\b(LDG?|STG?)\.E(?:\.\w+)*? ")
# Least number of accesses of 16 bytes in the kernel of steps and resets.
LEAST = {"SimpleTag-v0": 90, "SimpleSpread-v0": 20, "Overcooked-v0": 100, "SMAX-v0": 15}
# Most accesses of 4 bytes or less; it was 939 without words of 8 and 16 bytes.
MOST_SMALL = {"SimpleTag-v0": 250}


def accesses(name, folder):
    """Return the number of accesses to memory of the kernel of steps and resets, by their bytes (4: or less)."""
    ptxas = assembler.find().path
    (disassembler,) = (
        Path(str(file.locate()))
        for file in importlib.metadata.files("nvidia-cuda-nvdisasm") or []
        if file.name in ("nvdisasm", "nvdisasm.exe")
    )
    (ptx,) = programs.compile_ptx(programs.subjects()[name].definition().rules, "fused", (ARCHITECTURE,))
    source, code = folder / "kernels.ptx", folder / "kernels.cubin"
    source.write_bytes(ptx.rstrip(b"\0"))
    subprocess.run([ptxas, f"-arch=sm_{ARCHITECTURE}", source, "-o", code], check=True, capture_output=True)
    done = subprocess.run([disassembler, "-c", code], check=True, capture_output=True, text=True)
    sections = re.split(r"\n\s*\.section\s+\.text\.", done.stdout)
    (kernel,) = (section for section in sections if section.startswith("fused_"))
    words = Counter()
    for access in ACCESS.finditer(kernel):
        words[16 if ".128" in access[0] else 8 if ".64" in access[0] else 4] += 1
    return words


@pytest.mark.parametrize("name", LEAST)
def test_fused_kernels_access_memory_in_words_of_16_bytes(name, tmp_path):
    words = accesses(name, tmp_path)
    assert words[16] >= LEAST[name], words
    assert words[4] <= MOST_SMALL.get(name, sum(words.values())), words
