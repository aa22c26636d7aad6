"""The blocks of docs/guides/libraries.md run, of the sections whose libraries are tested here; with little training."""

import shlex
import subprocess
import sys

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


def test_command_of_rl_zoo_trains_with_the_file_of_the_page(tmp_path):
    page = notebook.LIBRARIES.read_text(encoding="utf-8")
    (settings,), (command,) = (notebook.blocks(page, kind, "RL Zoo") for kind in ("yaml", "sh"))
    (tmp_path / "cartpole.yml").write_text(settings.code)
    program, *words = shlex.split(command.code)
    assert program == "python"
    done = subprocess.run(
        [sys.executable, *words, "--n-timesteps", "512"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("logs/ppo/*/*.zip"))) == 1
