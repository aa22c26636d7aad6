"""The Python blocks of a library's section of docs/guides/libraries.md, run where that library is installed."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "libraries.md"


def run_blocks(heading: str) -> dict:
    """Run the blocks under a heading, in order, in one namespace, which is returned; there must be one at least."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} has no section {heading!r}"
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", found[1], re.MULTILINE | re.DOTALL))
    assert blocks, f"{heading!r} shows no Python"
    space = {"__name__": "example"}
    for block in blocks:
        line = text[: found.start(1) + block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], PAGE, "exec"), space)
    return space
