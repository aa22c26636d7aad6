"""Public names of the packages and their docstrings, read from the sources without an import."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("gpu_envs", "trainers", "league", "warp_kernels")
HOOKS = ("draw",)
"""Functions of a host file whose arguments and results are documented once, with the field of EnvDefinition."""


@dataclass
class Symbol:
    """Something public."""

    location: str
    """File and line."""
    name: str
    kind: str
    """module, class, function, field or constant."""
    words: str
    """Docstring; of fields and constants the string below, the comment on the line or of their block, or the entry
    in the Attributes of the class."""
    node: ast.AST = field(repr=False)
    owner: str = ""
    """Class that it belongs to."""

    def __str__(self) -> str:
        return f"{self.location} {self.name}"


@functools.cache
def symbols() -> list[Symbol]:
    """Return all public symbols of the packages."""
    collected = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(ROOT).parts):
                collected += _File(path).symbols()
    return collected


@functools.cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """Public classes by name; several modules may have one of a name."""
    nodes: dict[str, list[ast.ClassDef]] = {}
    for symbol in symbols():
        if isinstance(symbol.node, ast.ClassDef):
            nodes.setdefault(symbol.node.name, []).append(symbol.node)
    return nodes


@functools.cache
def members() -> dict[tuple[str, str], str]:
    """Return the docstrings of members by class and name."""
    return {(symbol.owner, symbol.name.rpartition(".")[2]): symbol.words for symbol in symbols() if symbol.owner}


def above(name: str) -> list[str]:
    """Return the names of a class and of its base classes."""
    names = [name]
    for ancestor in names:
        for node in classes().get(ancestor, ()):
            bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
            names += [base for base in bases if base not in names]
    return names


@functools.cache
def stands_for(name: str) -> list[str]:
    """Return the base classes of a class, and the protocols whose methods it has."""
    ancestors = above(name)
    has = {member for owner, member in members() if owner in ancestors}
    protocols = [protocol for protocol in classes() if "Protocol" in above(protocol) and protocol not in ancestors]
    return ancestors[1:] + [protocol for protocol in protocols if methods(protocol) and methods(protocol) <= has]


def methods(name: str) -> set[str]:
    """Public methods of a class."""
    return {member.name for node in classes()[name] for member in node.body if isinstance(member, ast.FunctionDef)}


def inherited(symbol: Symbol) -> str:
    """Return the docstring of the same member in a base class or in a protocol that the class follows."""
    name = symbol.name.rpartition(".")[2]
    texts = [members().get((owner, name), "") for owner in stands_for(symbol.owner)] if symbol.owner else []
    return "\n".join(filter(None, texts))


class _File:
    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.path, self.lines, self.tree = path.relative_to(ROOT), text.splitlines(), ast.parse(text)

    def symbols(self) -> Iterator[Symbol]:
        yield Symbol(str(self.path), str(self.path), "module", ast.get_docstring(self.tree) or "", self.tree)
        yield from self._within(self.tree.body, "")

    def _within(self, body: list[ast.stmt], owner: str) -> Iterator[Symbol]:
        for index, node in enumerate(body):
            if isinstance(node, ast.If | ast.Try):
                yield from self._within(node.body, owner)
                continue
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("_") or "overload" in map(ast.unparse, node.decorator_list):
                    continue
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                yield self._symbol(node, node.name, kind, ast.get_docstring(node) or "", owner)
                if isinstance(node, ast.ClassDef):
                    attributes = _attributes(ast.get_docstring(node) or "")
                    for member in self._within(node.body, node.name):
                        member.words = member.words or attributes.get(member.name.rpartition(".")[2], "")
                        yield member
            for name in _assigned(node):
                if not name.startswith("_"):
                    words = self._words(body, index, bool(owner))
                    yield self._symbol(node, name, "field" if owner else "constant", words, owner)

    def _symbol(self, node: ast.stmt, name: str, kind: str, words: str, owner: str) -> Symbol:
        name = f"{owner}.{name}" if owner else name
        return Symbol(f"{self.path}:{node.lineno}", name, kind, words, node, owner)

    def _words(self, body: list[ast.stmt], index: int, in_class: bool) -> str:
        """Return the docstring of a field; constants in a block without blank lines may share one."""
        node, after = body[index], body[index + 1 : index + 2]
        texts = [self.lines[line].partition("#")[2] for line in range(node.lineno - 1, node.end_lineno or 0)]
        if after and _is_text(after[0]):
            texts.append(ast.unparse(after[0]))
        if not in_class:
            first = node.lineno - 2
            while first >= 0 and self.lines[first].strip() not in ("", ")", "}", "]"):
                line = self.lines[first].strip()
                texts.append(line[1:] if line.startswith("#") else "")
                first -= 1
        return "\n".join(filter(None, texts))


def _attributes(docstring: str) -> dict[str, str]:
    """Return the entries of the section "Attributes" of a docstring by name."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", docstring, re.MULTILINE)
    return dict(re.findall(r"^ {4}(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", section[1] if section else "", re.MULTILINE))


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Assign):
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar":
            return []
        targets = node.targets
    else:
        return []
    names = [element for target in targets for element in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [name.id for name in names if isinstance(name, ast.Name)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


ARRAYS = re.compile(r"\b(Tensor|ndarray|NDArray|array[1-4]?d?)\b")
SHAPE = re.compile(
    r"\([\w.*]+( (or|[-+*/]) \w+)*,[^)]*\)|\([A-Z]\)"
    r"|\b(scalars?|numbers?|shapes?|one-element|One element|[sS]ee)\b|\b[aA]s (of |for )?[:`]"
)
"""Pattern of a documented shape: a shape in brackets, a word for "none", or a reference."""


def lacks_shape(symbol: Symbol) -> bool:
    """Return whether a symbol takes, returns or is an array without a documented shape."""
    node = symbol.node
    if isinstance(node, ast.FunctionDef):
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        kinds = [parameter.annotation for parameter in parameters if parameter is not None] + [node.returns]
    elif isinstance(node, ast.AnnAssign) and symbol.owner:
        kinds = [node.annotation]
    else:
        return False
    arrays = any(ARRAYS.search(ast.unparse(kind)) for kind in kinds if kind is not None)
    return arrays and not SHAPE.search(symbol.words) and not SHAPE.search(inherited(symbol))


@functools.cache
def errors() -> frozenset[str]:
    """Return the names of the error classes."""
    tree = ast.parse((ROOT / "gpu_envs" / "errors.py").read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))


def raised(function: ast.FunctionDef) -> set[str]:
    """Deliberate errors that the lines of a function raise themselves."""
    names, waiting = set(), list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).rpartition(".")[2]
            names.add({"missing": "MissingExtraError"}.get(name, name))
        waiting += ast.iter_child_nodes(node)
    return names & errors()
