"""The blocks of docs/guides/libraries.md run, of the sections whose libraries are tested here; with little training."""

import pytest

from docs.scripts import notebook

SECTIONS = (
    "Stable-Baselines3",
    "sb3-contrib",
    "Gymnasium's vector wrappers, with tensors",
    "SuperSuit and PettingZoo's wrappers",
)


@pytest.mark.parametrize("section", SECTIONS)
def test_blocks_of_a_section_run(section):
    blocks = notebook.blocks(notebook.LIBRARIES.read_text(encoding="utf-8"), notebook.PYTHON, section)
    assert blocks
    space = {"__name__": "page"}  # nothing is imported that the section does not import
    for block in blocks:
        exec(compile(block.code.replace("0_000)", ")"), section, "exec"), space)
