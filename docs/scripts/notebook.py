"""The Python of a page, run in order in one namespace: how the tests hold a page to its word, without Sphinx.

    python -m docs.scripts.notebook PAGE ...           run pages here and now
    python -m docs.scripts.notebook --write PAGE ...   and put what they print into them

A tutorial is a MyST notebook: its code is in ``{code-cell}`` blocks, and other blocks are only shown. The site runs
the pages that need this library only, and shows their output. Other pages have ``execution_mode: 'off'`` at the top,
are run by `make test-libraries`, and contain their output between ``<!-- printed -->`` and ``<!-- end -->``, except for
cells with the tag ``remove-output``. Blocks that start with ``# not run:`` and a reason are not run.

A line ``!gpu-envs ...`` of a cell is a command, as in Jupyter. Here and in the site it runs in the process of the page,
and a failure is an error of the page.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TUTORIALS = Path(__file__).parents[1] / "tutorials"
LIBRARIES = Path(__file__).parents[1] / "guides" / "libraries.md"
CELL, PYTHON = r"\{code-cell\} ipython3", "python"
"""Kinds of blocks: a notebook's cells, and the Python of other pages."""
PRINTED = re.compile(r"\n*<!-- printed -->\n```text\n(.*?)```\n<!-- end -->\n", re.DOTALL)


COMMAND = re.compile(r"^!(.*)$", re.MULTILINE)


class CodeBlock(NamedTuple):
    """Some Python of a page."""

    line: int  # of its first line in the page, from 1
    code: str
    end: int  # where its closing fence ends in the page's text
    options: str  # the lines before the code that begin with a colon


def blocks(text: str, kind: str = CELL, heading: str | None = None) -> list[CodeBlock]:
    """Return the blocks of a language in order, only those of one section if its heading (of level two) is given."""
    start, stop = 0, len(text)
    if heading is not None:
        section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, f"there is no section {heading!r}"
        start, stop = section.span(1)
    matches = re.compile(rf"^```{kind}\n((?::[^\n]*\n)*)(.*?)^```$", re.MULTILINE | re.DOTALL).finditer(
        text, start, stop
    )
    return [CodeBlock(text[: match.start(2)].count("\n") + 1, match[2], match.end(), match[1]) for match in matches]


def command(line: str) -> None:
    """Run a command of gpu-envs in this process.

    Raises:
        RuntimeError: It is the command of another program, or it fails.
    """
    from gpu_envs.cli import main

    program, *words = shlex.split(line)
    if program != "gpu-envs":
        raise RuntimeError(f"{line}: expected a command of gpu-envs in a cell, got {program}")
    if code := main(words):
        raise RuntimeError(f"{line}: exit code {code}")


class _Shell:
    """Stands in for IPython in cells with commands."""

    system = staticmethod(command)


def _python(code: str) -> str:
    """Return the code of a cell with its commands as Python."""
    return COMMAND.sub(lambda match: f"get_ipython().system({match[1]!r})", code)


def run(path: Path, kind: str = CELL, heading: str | None = None, space: dict | None = None) -> dict:
    """Run a page's blocks, of which there must be one; returns their namespace. Errors name the page and its line."""
    for _ in _results(path, kind, heading, space := {"__name__": "page"} if space is None else space):
        pass
    return space


def executed(path: Path) -> bool:
    """Return whether the site runs this notebook."""
    return not re.match(r"---\n.*?execution_mode: 'off'\n.*?^---$", path.read_text(), re.DOTALL | re.MULTILINE)


def notebooks() -> list[Path]:
    """Return all tutorials that are notebooks."""
    return sorted(path for path in TUTORIALS.rglob("*.md") if path.read_text().startswith("---\n"))


def printed(path: Path) -> str:
    """Return a page with the printed output after each cell."""
    text = path.read_text(encoding="utf-8")
    parts, position = [], 0
    for block, output in _results(path, CELL, None, {"__name__": "page"}):
        parts.append(text[position : block.end])
        old = PRINTED.match(text, block.end)
        position = old.end() if old else block.end
        output = "" if "remove-output" in block.options else output
        parts.append(f"\n\n<!-- printed -->\n```text\n{output.strip()}\n```\n<!-- end -->" if output.strip() else "")
        parts.append("\n" if old else "")
    return "".join((*parts, text[position:]))


def _results(path: Path, kind: str, heading: str | None, space: dict) -> Iterator[tuple[CodeBlock, str]]:
    """Run block after block; what each printed."""
    results = blocks(path.read_text(encoding="utf-8"), kind, heading)
    assert results, f"{path.name} shows no Python to run"
    space["get_ipython"] = _Shell
    for block in results:
        code = compile("\n" * (block.line - 1) + _python(block.code), str(path), "exec")
        if re.match(r"# not run: \w", block.code):
            continue
        with contextlib.redirect_stdout(_Both(sys.stdout)) as out:
            exec(code, space)
        yield block, out.getvalue()


class _Both(io.StringIO):
    """Keeps what is printed, and shows it too."""

    def __init__(self, shown) -> None:
        super().__init__()
        self.shown = shown

    def write(self, text: str) -> int:
        self.shown.write(text)
        return super().write(text)


def main(argv: list[str] | None = None) -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    for path in [path.resolve() for path in args.pages]:
        with tempfile.TemporaryDirectory() as folder:  # some pages write files
            os.chdir(folder)
            if args.write:
                path.write_text(printed(path), encoding="utf-8")
            else:
                run(path)


if __name__ == "__main__":
    main()
