"""Public names have docstrings with shapes, units, errors and sources."""

import ast
import dataclasses
import pydoc
import re
import sys

import pytest

from gpu_envs.definition.environment import EnvDefinition
from league import solvers
from tests.docstrings import HOOKS, ROOT, inherited, lacks_shape, raised, symbols
from trainers.algorithms import registry
from warp_kernels.episode import IO
from warp_kernels.rules import Rules

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


def report_lines(entries):
    """Return one line for each missing docstring."""
    return "\n".join(["", *map(str, entries)])


def test_public_names_have_docstrings():
    offenders = [symbol for symbol in symbols() if not symbol.words and not inherited(symbol)]
    assert not offenders, report_lines(offenders)


@pytest.mark.parametrize("owner", [IO, Rules, EnvDefinition])
def test_help_of_what_authors_write_describes_every_field(owner):
    names = owner.vars if owner is IO else [field.name for field in dataclasses.fields(owner)]
    text = pydoc.plain(pydoc.render_doc(owner))
    assert not [name for name in names if not re.search(rf"^[ |]* {name}: \S", text, re.MULTILINE)]


def test_tensors_have_documented_shapes():
    offenders = [symbol for symbol in symbols() if symbol.name not in HOOKS and lacks_shape(symbol)]
    assert not offenders, report_lines(offenders)


def test_raised_errors_are_documented():
    """But for console commands, whose errors are lines that the command line prints."""
    messages = []
    for symbol in symbols():
        if not isinstance(symbol.node, ast.FunctionDef) or [arg.arg for arg in symbol.node.args.args] == ["argv"]:
            continue
        left = raised(symbol.node)
        left = left and {error for error in left if error not in symbol.words + inherited(symbol)}
        messages += [f"{symbol}: {', '.join(sorted(left))}"] if left else []
    assert not messages, report_lines(messages)


def test_constants_of_rules_have_units():
    offenders = [
        symbol
        for symbol in symbols()
        if symbol.location.startswith("warp_kernels/")
        and symbol.owner == "Params"
        and isinstance(symbol.node, ast.AnnAssign)
        if ast.unparse(symbol.node.annotation) == "float"
        and not UNITLESS.search(symbol.name)
        and "[" not in symbol.words
    ]
    assert not offenders, report_lines(offenders)


def words_of(path):
    return ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("package", ["classic", "games", "mpe", "tag"])
def test_rules_name_their_source(package):
    """The host file of an environment names the file of its rules."""
    names = {file.name for file in (ROOT / "gpu_envs" / "envs" / package).glob("*.py")} - {"__init__.py"}
    rules = names & {file.name for file in (ROOT / "warp_kernels" / package).glob("*.py")}
    assert rules
    for name in sorted(rules):
        path = f"warp_kernels/{package}/{name}"
        assert SOURCE.search(words_of(path)), f"{path} names no source"
        assert path in words_of(f"gpu_envs/envs/{package}/{name}"), (
            f"gpu_envs/envs/{package}/{name} does not name {path}"
        )


def test_algorithms_name_their_source():
    recorded = registry.IMITATION.values()
    modules = [entry.module for entry in (*registry.ALGORITHMS.values(), *recorded)]
    files = {f"trainers/algorithms/{module.replace(chr(46), chr(47))}.py" for module in modules}
    for path in sorted(files | {f"league/{name}.py" for name in LEAGUES}):
        assert SOURCE.search(words_of(path)), f"{path} names no source"
    for name, solver in solvers.SOLVERS.items():
        words = f"{solver.__doc__}\n{sys.modules[solver.__module__].__doc__}"
        assert name == "uniform" or SOURCE.search(words), f"league.solvers: {name} names no source"
