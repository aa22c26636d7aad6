"""NVIDIA's disassembler on the fused kernels of four environments: their accesses to memory are in wide words."""

import pytest

from benchmarks.kernels import budgets
from benchmarks.kernels.words import SUBJECTS, count_accesses


@pytest.mark.optimized
@pytest.mark.parametrize("name", SUBJECTS)
def test_fused_kernels_access_memory_in_words_of_16_bytes(name):
    small, _, wide = count_accesses(name)
    recorded = budgets.load()["words"][name]
    assert wide >= recorded[2] > 0
    assert small <= recorded[0]
