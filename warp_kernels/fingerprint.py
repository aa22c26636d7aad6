"""Fingerprint of rules: it changes with what they compute, and not with comments, docstrings and formatting."""

import ast
import hashlib
import textwrap
import types
from functools import cache
from typing import Any

import warp as wp

from warp_kernels.rules import Rules

__all__ = ["rules_fingerprint"]


@cache
def rules_fingerprint(rules: Rules) -> str:
    """Return a hexadecimal number of the code of all functions that rules call, of their order and constants."""
    phases = (*rules.phases, *rules.build_grid)
    order = [(phase.over, phase.called) for phase in phases]
    flags = (rules.masked, rules.illegal_noop, rules.turn_based, rules.shared_stake)
    functions = [phase.run for phase in phases]
    functions += [rules.reset, rules.reset_agent, rules.observe, rules.legal, rules.stake, rules.global_state]
    texts: dict[Any, str] = {}
    for function in filter(None, functions):
        _collect(function, texts)
    return hashlib.sha256("\n".join([rules.key, f"{order} {flags}", *texts.values()]).encode()).hexdigest()[:16]


def _collect(function: Any, texts: dict[Any, str]) -> None:
    """Add the code of a Warp function, and of the functions that it calls, in the order of their first use."""
    if function in texts:
        return
    (definition,) = ast.parse(textwrap.dedent(function.adj.source)).body
    assert isinstance(definition, ast.FunctionDef)
    is_documented = ast.get_docstring(definition) is not None
    definition.body = definition.body[1:] if is_documented and len(definition.body) > 1 else definition.body
    run, constants = function.func, []
    captured = zip(run.__code__.co_freevars, run.__closure__ or (), strict=True)
    values = run.__globals__ | {name: cell.cell_contents for name, cell in captured}
    texts[function] = ""  # its place
    called = []
    for node in ast.walk(definition):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        value = _value(node, values)
        if isinstance(value, wp.Function) and not value.is_builtin():
            called.append(value)
        elif _is_constant(value):
            constants.append(f"{ast.unparse(node)} = {value}")
    texts[function] = "\n".join([ast.unparse(definition), *constants])
    for other in called:
        _collect(other, texts)


def _is_constant(value: Any) -> bool:
    """Return whether a value is a number or a text, a vector or a matrix of Warp, or a tuple of such values."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, bool | int | float | str) or hasattr(value, "_wp_scalar_type_")


def _value(node: ast.AST, values: dict[str, Any]) -> Any:
    """Return the value of a name, or of a name in a module; None for others."""
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, values)
        return getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
    return None
