"""Pages of the API reference, from the public names of the packages: one page per room, one section per module.

The build of the site writes them; they are not committed. Nothing is imported: names and docstrings are read from the
sources.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from docs.scripts.tables import ROOT, table

GROUPS = ("cards", "classic", "economy", "games", "grid", "kitchen", "mpe", "smax", "tag", "vmas")
PAGES = ROOT / "docs" / "reference"
PACKAGES = ("gpu_envs", "trainers", "league", "warp_kernels")
COMMANDS = ("gpu_envs.cli", "trainers.cli", "league.cli")
ELSEWHERE = (*COMMANDS, "gpu_envs.envs", *(f"warp_kernels.{group}" for group in GROUPS))
"""Rooms without a page: commands and environments have pages of their own."""


def _module(path: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def public_names(tree: ast.Module) -> list[str]:
    """Return ``__all__`` of a package, or the public classes and functions of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    definitions = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in definitions if not name.startswith("_")]


def _summary(tree: ast.AST) -> str:
    """Return the first paragraph of a docstring in one line."""
    text = ast.get_docstring(tree) or ""  # type: ignore[arg-type]
    line = " ".join(text.split("\n\n")[0].split())
    return re.sub(r"(?::\w+:)?`+~?([^`]+)`+", r"`\1`", line)  # roles of reStructuredText as plain code


def _defined(name: str, path: Path) -> tuple[str, str]:
    """Module and summary of a name that a package exports: its own, or from one of its modules."""
    for node in ast.walk(_tree(path)):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        alias = next((alias for alias in node.names if (alias.asname or alias.name) == name), None)
        if alias is not None:
            name = alias.name
            file = ROOT / Path(*node.module.split("."))
            module_file = file / name  # the name is a module of its own, or stands in one
            module = module_file if module_file.is_dir() or module_file.with_suffix(".py").is_file() else file
            source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            tree = _tree(source)
            if module == module_file:
                return _module(source), _summary(tree)
            for statement in tree.body:
                if isinstance(statement, ast.ClassDef | ast.FunctionDef) and statement.name == name:
                    return node.module, _summary(statement)
            return _defined(name, source) if source.name == "__init__.py" else (node.module, "")
    return _module(path), ""


def rooms() -> dict[str, list[Path]]:
    """Return the sources with public names by room: the package itself, or one of its folders."""
    modules: dict[str, list[Path]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            folder = path.relative_to(ROOT).parent
            room = ".".join(folder.parts[:2])
            if room in ELSEWHERE:
                continue
            alone = path.name == "__init__.py" and len(folder.parts) == 2 and len(list(path.parent.rglob("*.py"))) == 1
            if alone or (path.name != "__init__.py" and public_names(_tree(path))):
                modules.setdefault(room, []).append(path)
    return modules


def room_page(room: str, paths: list[Path]) -> str:
    """Return the page of a room: a section for each of its modules."""
    lines = [f"# {room}", "", "```{eval-rst}", f".. automodule:: {room}", "   :no-members:", "```", ""]
    for path in paths:
        name = _module(path)
        if name == room:
            rows = [(f"`{public}`", _defined(public, path)[1]) for public in public_names(_tree(path))]
            lines += [table(("name", "description"), rows), ""]
            continue
        lines += [f"## {name}", "", "```{eval-rst}", f".. automodule:: {name}", "```", ""]
    return "\n".join(lines)


def index_page(names: list[str]) -> str:
    """Return the entry page: public names of the packages, and links to the rooms."""
    lines = ["# API", "", "Signatures, shapes, units and errors of the public names.", ""]
    for package in PACKAGES:
        init = ROOT / package / "__init__.py"
        tree = _tree(init)
        lines += [f"## {package}", "", _summary(tree), ""]
        rows = []
        for name in public_names(tree):
            module, summary = _defined(name, init)
            room = ".".join(module.split(".")[:2]) if (ROOT / Path(*module.split(".")[:2])).is_dir() else package
            link = f"[{module}]({room}.md)" if room in names else f"`{module}`"
            rows.append((f"`{name}`", link, summary))
        if rows:
            lines += [table(("name", "defined in", "description"), rows), ""]
        lines += ["```{toctree}", ":maxdepth: 1", ""]
        lines += [name for name in names if name.split(".")[0] == package]
        lines += ["```", ""]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Return the text of every page of the reference by path."""
    by_room = rooms()
    names = sorted(by_room, key=lambda room: (PACKAGES.index(room.split(".")[0]), room))
    texts = {PAGES / f"{room}.md": room_page(room, by_room[room]) for room in names}
    return {PAGES / "index.md": index_page(names), **texts}


def write() -> None:
    """Write the pages that have changed, and remove those of rooms that are gone."""
    PAGES.mkdir(exist_ok=True)
    current = pages()
    for path in set(PAGES.glob("*.md")) - set(current):
        path.unlink()
    for path, text in current.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
