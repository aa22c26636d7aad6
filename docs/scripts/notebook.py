"""The Python of a page, run in order in one namespace: how the tests hold a page to its word, without Sphinx.

    python -m docs.scripts.notebook PAGE ...           run pages here and now
    python -m docs.scripts.notebook --write PAGE ...   and put what they print into them

A tutorial is a MyST notebook: its code is in ``{code-cell}`` blocks, and other blocks are only shown. The site runs
the pages that need this library only, and shows their output. Other pages have ``execution_mode: 'off'`` at the top,
are run by `make test-libraries`, and contain their output between ``<!-- printed -->`` and ``<!-- end -->``, except for
cells with the tag ``remove-output``. Blocks that start with ``# not run:`` and a reason are not run.

Cells with code of a script in examples/ are not committed: ``<!-- on the site: script FILE NAME ... -->``, with lines
up to ``<!-- end -->`` that readers of the repository see instead, stands for them.

A line ``!gpu-envs ...`` of a cell is a command, as in Jupyter. Here and in the site it runs in the process of the page,
and a failure is an error of the page.
"""

import argparse
import ast
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
EXAMPLES = Path(__file__).parents[2] / "examples"
LIBRARIES = Path(__file__).parents[1] / "guides" / "libraries.md"
CELL, PYTHON = r"\{code-cell\} ipython3", "python"
"""Kinds of blocks: a notebook's cells, and the Python of other pages."""
PRINTED = re.compile(r"\n*<!-- printed -->\n```text\n(.*?)```\n<!-- end -->\n", re.DOTALL)
SCRIPT = re.compile(r"<!-- on the site: script (.+?) -->\n(?:.+\n)+?<!-- end -->")
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


def script(file: str, *names: str) -> str:
    """Return parts of a script in examples/ as a notebook cell: "imports" or top-level definitions by name."""
    text = (EXAMPLES / f"{file}.py").read_text(encoding="utf-8")
    lines, parts, start = text.splitlines(), dict[str, str](), len(text)
    for node in ast.parse(text).body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        code = "\n".join(lines[first - 1 : node.end_lineno])
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = min(start, node.lineno)
            parts["imports"] = "\n".join(lines[start - 1 : node.end_lineno])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) else (node.target,)
            parts[ast.unparse(target)] = code
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            parts[node.name] = code
    chosen = [parts[name] for name in names]
    code = "".join(("\n\n\n" if part.startswith(("def", "class", "@")) else "\n\n") + part for part in chosen)
    return f"```{{code-cell}} ipython3\n{code.lstrip()}\n```"


def filled(text: str) -> str:
    """Return a page with its code of scripts."""
    return SCRIPT.sub(lambda match: script(*match[1].split()), text)


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
    """Return a page with the printed output after each cell; code of scripts prints nothing."""
    text = path.read_text(encoding="utf-8")
    parts, position = [], 0
    results = iter([*_results(path, CELL, None, {"__name__": "page"})])
    for block in filter(_is_run, blocks(text)):
        output = next(output for ran, output in results if ran.code == block.code)
        parts.append(text[position : block.end])
        old = PRINTED.match(text, block.end)
        position = old.end() if old else block.end
        output = "" if "remove-output" in block.options else output
        parts.append(f"\n\n<!-- printed -->\n```text\n{output.strip()}\n```\n<!-- end -->" if output.strip() else "")
        parts.append("\n" if old else "")
    return "".join((*parts, text[position:]))


def _results(path: Path, kind: str, heading: str | None, space: dict) -> Iterator[tuple[CodeBlock, str]]:
    """Run block after block; what each printed."""
    results = blocks(filled(path.read_text(encoding="utf-8")), kind, heading)
    assert results, f"{path.name} shows no Python to run"
    space["get_ipython"] = _Shell
    for block in results:
        code = compile("\n" * (block.line - 1) + _python(block.code), str(path), "exec")
        if not _is_run(block):
            continue
        with contextlib.redirect_stdout(_Both(sys.stdout)) as out:
            exec(code, space)
        yield block, out.getvalue()


def _is_run(block: CodeBlock) -> bool:
    return not re.match(r"# not run: \w", block.code)


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
