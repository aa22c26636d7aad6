"""Pages on libraries that go into one environment run: docs/guides/libraries.md with little training, and tutorials."""

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


@pytest.mark.filterwarnings("ignore::UserWarning")  # SuperSuit's and Lightning's
@pytest.mark.parametrize("page", ["lightning.md", "sb3.md", "skrl.md", "supersuit_pettingzoo.md", "torchrl.md"])
def test_cells_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    notebook.run(notebook.TUTORIALS / "libraries" / page)
