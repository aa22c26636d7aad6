"""What the source of rules says: their functions, values known at compile time, and a fingerprint."""

import ast
import copy
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import warp as wp

from warp_kernels.rules import Rules


class CompileTimeValues:
    """Values that expressions of a Warp function have when it is compiled."""

    def __init__(self, function: Any) -> None:
        run = function.func
        code = run.__code__
        captured = zip(code.co_freevars, run.__closure__ or (), strict=True)
        self.values: dict[str, Any] = run.__globals__ | {name: cell.cell_contents for name, cell in captured}
        for local in code.co_varnames:
            self.values.pop(local, None)
        self._file = Path(function.adj.filename).name
        self._first_line = function.adj.fun_lineno

    def location_of(self, node: ast.For) -> str:
        """Return ``file:line`` of a statement."""
        return f"{self._file}:{self._first_line + node.lineno - 1}"

    def value(self, node: ast.AST) -> Any:
        """Return the value of an expression; None if it is known only when the kernel runs."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value
        if isinstance(node, ast.Name):
            return self.values.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        if isinstance(node, ast.Call) and self.is_static(node):
            try:  # Warp evaluates it in the same way, and reports its errors
                return eval(compile(ast.Expression(node.args[0]), "wp.static", "eval"), dict(self.values))
            except Exception:  # noqa: BLE001
                return None
        return None

    def is_static(self, node: ast.AST) -> bool:
        """Return whether an expression is ``wp.static(...)``."""
        return isinstance(node, ast.Call) and self.value(node.func) is wp.static

    def constant_range(self, node: ast.expr) -> range | None:
        """Return the indices of a loop over a constant range; None for another loop."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"):
            return None
        bounds = list(map(self.value, node.args))
        return range(*bounds) if bounds and all(isinstance(bound, int) for bound in bounds) else None


def rules_functions(rules: Rules) -> list[Any]:
    """Return the Warp functions of rules and those that they call, each once and without Warp's own."""
    functions: dict[Any, None] = {}

    def collect(function: Any) -> None:
        if not isinstance(function, wp.Function) or function.is_builtin() or function in functions:
            return
        functions[function] = None
        names = CompileTimeValues(function)
        for node in ast.walk(function.adj.tree):
            if isinstance(node, ast.Name | ast.Attribute):
                collect(names.value(node))

    phases = [phase.run for phase in (*rules.phases, *rules.build_grid)]
    start = (rules.reset, rules.reset_agent, rules.forget, rules.relayout)
    sight = (rules.observe, rules.observe_slot, rules.legal, rules.global_state)
    for function in (*phases, *start, *sight, rules.stake):
        collect(function)
    return list(functions)


@cache
def rules_fingerprint(rules: Rules) -> str:
    """Return a hexadecimal number of what rules compute: the code and constants of their functions, and their order.

    Comments, docstrings, formatting and names of variables, constants and functions do not change it.
    """
    functions = rules_functions(rules)
    numbers = {function: number for number, function in enumerate(functions)}
    order = [(phase.over, numbers[phase.run], phase.called) for phase in (*rules.phases, *rules.build_grid)]
    flags = (rules.masked, rules.illegal_noop, rules.turn_based, rules.shared_stake)
    texts = [rules.key, f"{order} {flags}", *(_text(function, numbers) for function in functions)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _text(function: Any, numbers: dict[Any, int]) -> str:
    """Return the code of a function without names that may change."""
    definition = copy.deepcopy(function.adj.tree.body[0])
    assert isinstance(definition, ast.FunctionDef)
    if ast.get_docstring(definition) is not None and len(definition.body) > 1:
        definition.body = definition.body[1:]
    definition.name, definition.decorator_list = "", []
    return f"{ast.unparse(_Anonymous(function, numbers).visit(definition))}\n{function.native_snippet or ''}"


class _Anonymous(ast.NodeTransformer):
    """Replace local variables and functions by their numbers, and names of constants by their values."""

    def __init__(self, function: Any, numbers: dict[Any, int]) -> None:
        self.names = CompileTimeValues(function)
        self.locals = {name: f"v{number}" for number, name in enumerate(function.func.__code__.co_varnames)}
        self.numbers = numbers

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.locals[node.arg]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.locals.get(node.id) or self._text_of(node) or node.id
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        text = self._text_of(node)
        return ast.Name(text) if text else self.generic_visit(node)

    def _text_of(self, node: ast.AST) -> str:
        value = self.names.value(node)
        if isinstance(value, wp.Function) and value in self.numbers:
            return f"f{self.numbers[value]}"
        return repr(value) if _is_constant(value) else ""


def _is_constant(value: Any) -> bool:
    """Return whether a value is a number or a text, a vector or a matrix of Warp, or a tuple of such values."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    is_number = hasattr(value, "_wp_scalar_type_") and not isinstance(value, type)
    return isinstance(value, bool | int | float | str) or is_number
