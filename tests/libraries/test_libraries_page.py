"""The blocks of docs/guides/libraries.md run, of the sections whose libraries are tested here; with little training."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "libraries.md"
SECTIONS = ("Stable-Baselines3", "Gymnasium's vector wrappers, with tensors", "SuperSuit and PettingZoo's wrappers")


@pytest.mark.parametrize("section", SECTIONS)
def test_the_blocks_run(section):
    text = PAGE.read_text(encoding="utf-8")
    part = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    blocks = re.findall(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    assert blocks
    space = {}
    exec("import gpu_envs", space)
    for code in blocks:
        exec(compile(code.replace("0_000)", ")"), section, "exec"), space)
