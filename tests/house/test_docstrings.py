"""Public names have docstrings with shapes, units, errors and sources. The sources are read, not imported."""

import ast
import dataclasses
import functools
import pydoc
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from gpu_envs.definition.environment import EnvDefinition
from league import solvers
from trainers.algorithms import algorithm_specs
from warp_kernels.episode import IO
from warp_kernels.rules import Rules

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpu_envs", "trainers", "league", "warp_kernels")
HOOKS = ("action_names", "action_parts", "build", "draw", "observation_blocks")
"""Functions of a host file that are documented once: in `gpu_envs.descriptions` and with the fields of EnvDefinition
and EnvSpec."""
ARRAYS = re.compile(r"\b(Tensor|ndarray|NDArray|array[1-4]?d?)\b")
SHAPE = re.compile(
    r"\([\w.*]+( (or|[-+*/]) \w+)*,[^)]*\)|\([A-Z]\)"
    r"|\b(scalars?|numbers?|shapes?|one-element|One element|[sS]ee)\b|\b[aA]s (of |for )?[:`]"
)
"""Pattern of a documented shape: a shape in brackets, a word for "none", or a reference."""
SOURCE = re.compile(r"\b(19|20)\d\d\b|\b(mpe2|Gymnasium|OpenSpiel) \d|\bWarpDrive\b")
UNITLESS = re.compile(r"reward|penalty|cost|payoff|weight|ratio|skill_level|max_action|goal_height")
"""Constants that have no unit: points, shares, factors."""
LEAGUES = (
    "psro/psro",
    "psro/variants/anytime",
    "psro/variants/pipeline",
    "leagues/alphastar",
    "leagues/self_play",
    "leagues/matchmaking",
)


@dataclasses.dataclass
class Symbol:
    """A public name; `text` is its docstring, or the comment beside or above a field or constant."""

    location: str
    name: str
    owner: str
    """Class of a member, or an empty string."""
    text: str
    node: ast.AST = dataclasses.field(repr=False)

    def __str__(self):
        return f"{self.location} {self.owner}.{self.name}"

    @property
    def all_text(self):
        """Its own text and that of members of other classes with its name, which it may implement."""
        return "\n".join([self.text, *(texts_of_members()[self.name] if self.owner else ())])


@functools.cache
def symbols():
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [symbol for path in paths if "/_" not in str(path).replace("__init__", "") for symbol in symbols_of(path)]


@functools.cache
def texts_of_members():
    texts = defaultdict(list)
    for symbol in symbols():
        if symbol.owner:
            texts[symbol.name].append(symbol.text)
    return texts


def symbols_of(path):
    source = path.read_text(encoding="utf-8")
    tree, lines, name = ast.parse(source), source.splitlines(), str(path.relative_to(ROOT))
    yield Symbol(name, name, "", ast.get_docstring(tree) or "", tree)
    yield from symbols_in(tree.body, lines, name, "", {})


def symbols_in(body, lines, path, owner, attributes):
    """Yield the public names of a module or class; `attributes` are the entries in the docstring of the class."""
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.If | ast.Try):
            yield from symbols_in(node.body, lines, path, owner, attributes)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") or "overload" in map(ast.unparse, node.decorator_list):
                continue
            text = ast.get_docstring(node) or ""
            yield Symbol(f"{path}:{node.lineno}", node.name, owner, text or attributes.get(node.name, ""), node)
            if isinstance(node, ast.ClassDef):
                yield from symbols_in(node.body, lines, path, node.name, attributes_in(text))
        else:
            for name in assigned_names(node):
                text = text_of_assignment(node, following, lines, bool(owner)) or attributes.get(name, "")
                yield Symbol(f"{path}:{node.lineno}", name, owner, text, node)


def assigned_names(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    is_alias = targets and isinstance(node.value, ast.Attribute)  # documented where it is defined
    if is_alias or (targets and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar"):
        return []
    names = [name for target in targets for name in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [name.id for name in names if isinstance(name, ast.Name) and not name.id.startswith("_")]


def text_of_assignment(node, following, lines, in_class):
    """Return the string or comment of a field or constant; constants without blank lines between may share one."""
    texts = [lines[number].partition("#")[2] for number in range(node.lineno - 1, node.end_lineno)]
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        texts.append(str(following.value.value))
    number = node.lineno - 2
    while not in_class and number >= 0 and lines[number].strip() not in ("", ")", "}", "]"):
        texts.append(lines[number].strip()[1:] if lines[number].strip().startswith("#") else "")
        number -= 1
    return "\n".join(filter(None, texts))


def attributes_in(docstring):
    """Return the entries of the section "Attributes" of a docstring by name."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", docstring, re.MULTILINE)
    return dict(re.findall(r"^ {4}(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", section[1] if section else "", re.MULTILINE))


def report_lines(entries):
    """Return one line for each missing docstring."""
    return "\n".join(["", *map(str, entries)])


def test_public_names_have_docstrings():
    hooks = [symbol for symbol in symbols() if symbol.name in HOOKS and symbol.location.startswith("gpu_envs/envs/")]
    offenders = [symbol for symbol in symbols() if not symbol.all_text.strip() and symbol not in hooks]
    assert not offenders, report_lines(offenders)


@pytest.mark.parametrize("owner", [IO, Rules, EnvDefinition])
def test_help_of_what_authors_write_describes_every_field(owner):
    names = owner.vars if owner is IO else [field.name for field in dataclasses.fields(owner)]
    text = pydoc.plain(pydoc.render_doc(owner))
    assert not [name for name in names if not re.search(rf"^[ |]* {name}: \S", text, re.MULTILINE)]


def test_tensors_have_documented_shapes():
    offenders = []
    for symbol in symbols():
        annotations = []
        if isinstance(symbol.node, ast.FunctionDef) and symbol.name not in HOOKS:
            args = symbol.node.args
            parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
            annotations = [parameter.annotation for parameter in parameters if parameter] + [symbol.node.returns]
        elif isinstance(symbol.node, ast.AnnAssign) and symbol.owner:
            annotations = [symbol.node.annotation]
        if any(ARRAYS.search(ast.unparse(annotation)) for annotation in annotations if annotation):
            offenders += [] if SHAPE.search(symbol.all_text) else [symbol]
    assert not offenders, report_lines(offenders)


def test_raised_errors_are_documented():
    """But for console commands, whose errors are lines that the command line prints."""
    tree = ast.parse((ROOT / "gpu_envs" / "errors.py").read_text(encoding="utf-8"))
    errors = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    offenders = []
    for symbol in symbols():
        if isinstance(symbol.node, ast.FunctionDef) and [arg.arg for arg in symbol.node.args.args] != ["argv"]:
            names = errors.intersection(raised_names(symbol.node))
            offenders += [f"{symbol}: {name}" for name in sorted(names) if name not in symbol.all_text]
    assert not offenders, report_lines(offenders)


def raised_names(function):
    """Yield the names of the errors that the lines of a function raise themselves."""
    nodes = list(function.body)
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).rpartition(".")[2]
            yield "MissingExtraError" if name == "missing" else name
        nodes += ast.iter_child_nodes(node)


def test_constants_of_rules_have_units():
    offenders = [
        symbol
        for symbol in symbols()
        if symbol.location.startswith("warp_kernels/")
        and symbol.owner == "Params"
        and isinstance(symbol.node, ast.AnnAssign)
        and ast.unparse(symbol.node.annotation) == "float"
        and not UNITLESS.search(symbol.name)
        and "[" not in symbol.text
    ]
    assert not offenders, report_lines(offenders)


def docstring_of(path):
    return ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("package", ["classic", "games", "mpe", "tag"])
def test_rules_name_their_source(package):
    names = {file.name for file in (ROOT / "gpu_envs" / "envs" / package).glob("*.py")} - {"__init__.py"}
    rules = names & {file.name for file in (ROOT / "warp_kernels" / package).glob("*.py")}
    assert rules
    for name in sorted(rules):
        path = f"warp_kernels/{package}/{name}"
        assert SOURCE.search(docstring_of(path)), f"{path} names no source"


def test_algorithms_name_their_source():
    modules = {entry.module for entry in (*algorithm_specs.ALGORITHMS.values(), *algorithm_specs.IMITATION.values())}
    files = {f"trainers/algorithms/{module.replace('.', '/')}.py" for module in modules}
    for path in sorted(files | {f"league/{name}.py" for name in LEAGUES}):
        assert SOURCE.search(docstring_of(path)), f"{path} names no source"
    for name, solver in solvers.SOLVERS.items():
        text = f"{solver.__doc__}\n{sys.modules[solver.__module__].__doc__}"
        assert name == "uniform" or SOURCE.search(text), f"league.solvers: {name} names no source"
