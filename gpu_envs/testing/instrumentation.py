"""Checks inside the functions of an author: indices, divisors of integers and the length of ``while`` loops.

Warp's debug mode checks indices, too, but it ends the process and names a line of Warp's C++. These checks name the
author's line and go on with a harmless value. They change the functions for the rest of the process.
"""

import ast
import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warp as wp

import warp_kernels
from warp_kernels.rules import Rules
from warp_kernels.rules_source import rules_functions

MARK = "gpu-envs-fault"
"""First word of a line that a check prints; kind, number of the site, value, size and world follow."""
LONGEST_LOOP: int = wp.constant(1_000_000)
"""Most rounds of a ``while`` loop."""
FRAMEWORK = tuple(
    str(Path(warp_kernels.__file__).parent / name) for name in ("framework", "episode.py", "philox.py", "networks")
)
"""Code that is not an author's."""


@wp.func
def _report_index(index: int, size: int, site: int, env: int):
    wp.printf("gpu-envs-fault index %d %d %d %d\n", site, index, size, env)


@wp.func
def _checked_index(index: int, size: int, site: int, env: int) -> int:
    """Return the index, or 0 for one outside of the axis; a negative one counts from the end, as everywhere in Warp."""
    if index < -size or index >= size:
        _report_index(index, size, site, env)
        return 0
    return index


@wp.func
def _checked_divisor(divisor: int, site: int, env: int) -> int:  # pyright: ignore[reportRedeclaration]
    """Return the divisor, or 1 for an integer 0."""
    if divisor == 0:
        wp.printf("gpu-envs-fault divisor %d 0 0 %d\n", site, env)
        return 1
    return divisor


@wp.func
def _checked_divisor(divisor: wp.int64, site: int, env: int) -> wp.int64:  # pyright: ignore[reportRedeclaration]
    if divisor == wp.int64(0):
        wp.printf("gpu-envs-fault divisor %d 0 0 %d\n", site, env)
        return wp.int64(1)
    return divisor


@wp.func
def _checked_divisor(divisor: wp.uint32, site: int, env: int) -> wp.uint32:  # pyright: ignore[reportRedeclaration]
    if divisor == wp.uint32(0):
        wp.printf("gpu-envs-fault divisor %d 0 0 %d\n", site, env)
        return wp.uint32(1)
    return divisor


@wp.func
def _checked_divisor(divisor: wp.uint64, site: int, env: int) -> wp.uint64:  # pyright: ignore[reportRedeclaration]
    if divisor == wp.uint64(0):
        wp.printf("gpu-envs-fault divisor %d 0 0 %d\n", site, env)
        return wp.uint64(1)
    return divisor


@wp.func
def _checked_divisor(divisor: Any, site: int, env: int):
    return divisor


@wp.func
def _checked_round(count: int, site: int, env: int) -> bool:
    """Return whether a loop may go on."""
    if count > LONGEST_LOOP:
        wp.printf("gpu-envs-fault loop %d %d 0 %d\n", site, count, env)
        return False
    return True


HELPERS: dict[str, Any] = {
    "_checked_index": _checked_index,
    "_checked_divisor": _checked_divisor,
    "_checked_round": _checked_round,
}
"""Functions that the author's code calls, by name."""


@dataclass(frozen=True)
class Site:
    """A place in an author's code that is checked."""

    location: str
    """File and line."""
    function: str
    """Name of the function."""
    code: str
    """The expression or assignment."""
    axis: int = 0
    """Axis of the array that an index is for."""


def instrument(rules: Rules) -> list[Site]:
    """Add checks to the functions of rules and to those that they call; return the checked places by number."""
    sites: list[Site] = []
    for function in rules_functions(rules):
        adjoint = function.adj
        if adjoint.filename.startswith(FRAMEWORK) or function.native_snippet:
            continue
        arrays = {name: _array_fields(kind) for name, kind in adjoint.arg_types.items()}
        visitor = _Instrument(sites, adjoint, {name: fields for name, fields in arrays.items() if fields})
        adjoint.tree = ast.fix_missing_locations(visitor.visit(copy.deepcopy(adjoint.tree)))
        adjoint.source += f"\n# checked at {visitor.first}"  # part of the module's key
        for cache in ("_shared_source", "_reference_nodes", "_assigned_name_ids", "_assignment_call_metadata"):
            setattr(adjoint, cache, None)
        for name, helper in HELPERS.items():
            function.func.__globals__[name] = helper
    return sites


def _array_fields(kind: Any) -> dict[str, int]:
    """Return the number of axes by field of a struct's arrays; "" names an argument that is an array itself."""
    kind = getattr(kind, "value_type", kind)  # of a reference
    if hasattr(kind, "vars"):
        return {name: var.type.ndim for name, var in kind.vars.items() if hasattr(var.type, "ndim")}
    return {"": kind.ndim} if hasattr(kind, "ndim") and hasattr(kind, "dtype") else {}


class _Instrument(ast.NodeTransformer):
    """Wrap indices and divisors, and count the rounds of loops, in a function."""

    def __init__(self, sites: list[Site], adjoint: Any, arrays: dict[str, dict[str, int]]) -> None:
        self.first = len(sites)
        self._sites, self._adjoint, self._arrays = sites, adjoint, arrays
        world = "env" if "env" in adjoint.arg_types else "-1"
        self._world = ast.parse(world, mode="eval").body

    def _add_site(self, node: ast.expr | ast.AugAssign, axis: int = 0) -> ast.Constant:
        adjoint = self._adjoint
        line = adjoint.fun_lineno + node.lineno - 1
        self._sites.append(Site(f"{adjoint.filename}:{line}", adjoint.fun_name, ast.unparse(node), axis))
        return ast.Constant(len(self._sites) - 1)

    def _call(self, helper: str, *arguments: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(helper, ast.Load()), [*arguments, copy.deepcopy(self._world)], [])

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Check every index of an array."""
        original = copy.deepcopy(node)
        self.generic_visit(node)
        axes = self._axes(original.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(indices) > axes or any(isinstance(index, ast.Slice) for index in indices):
            return node
        checked: list[ast.expr] = []
        for axis, index in enumerate(indices):
            shape = ast.Attribute(copy.deepcopy(original.value), "shape", ast.Load())
            size = ast.Subscript(shape, ast.Constant(axis), ast.Load())
            number = ast.Call(ast.Name("int", ast.Load()), [index], [])
            checked.append(self._call("_checked_index", number, size, self._add_site(original, axis)))
        node.slice = ast.Tuple(checked, ast.Load()) if len(checked) > 1 else checked[0]
        return node

    def _axes(self, value: ast.expr) -> int:
        """Return the number of axes of an expression that is an argument or a field of one; 0 if it is no array."""
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            return self._arrays.get(value.value.id, {}).get(value.attr, 0)
        return self._arrays.get(value.id, {}).get("", 0) if isinstance(value, ast.Name) else 0

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Check the divisor of a division or a remainder."""
        return self._check_divisor(node, "right")

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Check the divisor of ``x /= y``, ``x //= y`` and ``x %= y``."""
        return self._check_divisor(node, "value")

    def _check_divisor(self, node: ast.BinOp | ast.AugAssign, operand: str) -> ast.AST:
        original = copy.deepcopy(node)
        self.generic_visit(node)
        divisor = getattr(node, operand)
        if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod) and not isinstance(divisor, ast.Constant):
            setattr(node, operand, self._call("_checked_divisor", divisor, self._add_site(original)))
        return node

    def visit_While(self, node: ast.While) -> Any:
        """Count the rounds of a loop and leave it after many."""
        site = self._add_site(node.test)
        self.generic_visit(node)
        name = f"_rounds_{site.value}"
        start, count = ast.parse(f"{name} = int(0)\n{name} += 1").body
        check = self._call("_checked_round", ast.Name(name, ast.Load()), site)
        node.body = [count, ast.If(ast.UnaryOp(ast.Not(), check), [ast.Break()], []), *node.body]
        return [start, node]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave expressions alone that Warp evaluates while it compiles."""
        static = isinstance(node.func, ast.Attribute) and node.func.attr == "static"
        return node if static else self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """Leave the range of a loop alone, which Warp may need as a constant."""
        node.body = [statement for child in node.body for statement in _as_list(self.visit(child))]
        return node


def _as_list(value: Any) -> list[Any]:
    """Return what a visitor has returned for a statement as a list."""
    return value if isinstance(value, list) else [value]
