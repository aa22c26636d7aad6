"""How much code Warp makes of rules by unrolling loops, estimated from their source, and the limit for it.

Warp writes the body of a loop over a constant range once for every iteration, and nested loops multiply. The compiler
takes as long as the code is large, and large code does not run faster.
"""

import ast
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import warp as wp

from warp_kernels.rules import AGENT, Rules, agent_phase
from warp_kernels.rules_source import CompileTimeValues

MAX_OPERATIONS = 2_500
"""Most operations of a step of a world with unrolled loops, see :func:`count_operations`. They compile in 10 s."""

_OPERATIONS = (ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.IfExp, ast.Subscript, ast.UnaryOp)
_CONDITIONS = (ast.BoolOp, ast.Compare)
_TOTAL = ""  # key of all operations of a function, beside the keys of its loops


@cache
def affordable_unroll(rules: Rules) -> int:
    """Return the length of the longest loop to unroll: ``rules.max_unroll``, or less if the code would be too large.

    A warning then names the largest loop that is not unrolled. Loops with ``wp.static`` are always unrolled.
    """
    longest = rules.max_unroll
    if longest <= 1:
        return longest
    total, loops = requested, requested_loops = count_operations(rules, longest)
    while total > MAX_OPERATIONS and (lengths := [length for length, _ in loops.values() if length <= longest]):
        longest = max(lengths) - 1
        total, loops = count_operations(rules, longest)
    if rolled := requested_loops.keys() - loops.keys():
        advice = (
            f"more than {MAX_OPERATIONS:,} compile for long and run no faster, so loops of more than {longest} "
            f"iterations stay loops; Rules.max_unroll={longest} does the same without this warning"
        )
    elif loops and requested > MAX_OPERATIONS:
        advice = (
            f"more than {MAX_OPERATIONS:,} compile for long; Warp unrolls every loop with wp.static: shorten it, or "
            "replace wp.static"
        )
    else:
        return longest
    candidates = [(location, *loop) for location, loop in requested_loops.items() if location in (rolled or loops)]
    location, length, operations = max(reversed(candidates), key=lambda loop: loop[2])  # the outermost of nested loops
    warnings.warn(
        f"{location}: this loop of {length} iterations, unrolled, has {operations:,} of the {requested:,} operations "
        f"of a step; {advice}",
        stacklevel=2,
    )
    return longest


def count_operations(rules: Rules, max_unroll: int) -> tuple[int, dict[str, tuple[int, int]]]:
    """Count the operations of a step of a world if loops of at most ``max_unroll`` iterations are unrolled.

    Operations are calls, indices, attributes, comparisons and arithmetic. Conditions count twice: the compiler works as
    long on a branch. Operations of inlined functions count at every call, and operations of phases over agents for
    every agent, as in the fused kernel.

    Returns:
        Number of operations; and by ``file:line`` of every unrolled loop, its length and the operations of its copies.
    """
    functions = _Functions(max_unroll)
    sizes: Counter[str] = Counter()
    for phase in (*rules.phases, *map(agent_phase, filter(None, (rules.legal, rules.observe)))):
        count = rules.num_agents if phase.over == AGENT else phase.over
        sizes += _times(functions.size(phase.run), count if isinstance(count, int) and count <= max_unroll else 1)
    for start in filter(None, (rules.reset, rules.reset_agent, rules.legal, rules.observe)):
        sizes += functions.size(start)  # the loops over agents of a start are not unrolled
    total = sizes.pop(_TOTAL, 0)
    return total, {location: (functions.lengths[location], operations) for location, operations in sizes.items()}


def _times(size: Counter[str], count: int) -> Counter[str]:
    return Counter({location: count * operations for location, operations in size.items()})


class _Functions:
    """Operations of Warp functions: of every unrolled loop by ``file:line``, and all of a function under _TOTAL."""

    def __init__(self, max_unroll: int) -> None:
        self.lengths: dict[str, int] = {}  # of unrolled loops, by place
        self._max_unroll = max_unroll
        self._sizes: dict[Any, Counter[str]] = {}

    def size(self, function: Any) -> Counter[str]:
        """Return the operations of a function and of all that is inlined into it."""
        if function not in self._sizes:
            (definition,) = function.adj.tree.body
            self._sizes[function] = self._block(definition.body, CompileTimeValues(function))
        return self._sizes[function]

    def _block(self, nodes: Iterable[ast.AST], names: CompileTimeValues) -> Counter[str]:
        size: Counter[str] = Counter()
        for node in nodes:
            size += self._node(node, names)
        return size

    def _node(self, node: ast.AST, names: CompileTimeValues) -> Counter[str]:
        if isinstance(node, ast.For):
            return self._loop(node, names)
        if isinstance(node, ast.If) and isinstance(condition := names.value(node.test), int):
            return self._block(node.body if condition else node.orelse, names)
        if names.is_static(node):
            return Counter()
        size = self._block(ast.iter_child_nodes(node), names)
        if isinstance(node, _OPERATIONS):
            size[_TOTAL] += 2 if isinstance(node, _CONDITIONS) else 1
        if isinstance(node, ast.Call):
            function = names.value(node.func)
            if isinstance(function, wp.Function) and function.inline_hint == "forceinline":
                size += self.size(function)
        return size

    def _loop(self, node: ast.For, names: CompileTimeValues) -> Counter[str]:
        indices = names.constant_range(node.iter)
        is_forced = any(map(names.is_static, ast.walk(node)))  # Warp unrolls a loop with wp.static at any length
        if indices is None or not (is_forced or (len(indices) <= self._max_unroll and not has_break(node.body))):
            return self._block([node.iter, *node.body], names)
        assert isinstance(node.target, ast.Name)
        size: Counter[str] = Counter()
        if self._varies(node, names):
            for index in indices:
                names.values[node.target.id] = index
                size += self._block(node.body, names)
            names.values.pop(node.target.id, None)  # a later loop may use the name
        else:
            size = _times(self._block(node.body, names), len(indices))
        location = names.location_of(node)
        self.lengths[location] = max(len(indices), self.lengths.get(location, 0))
        size[location] += size[_TOTAL]
        return size

    def _varies(self, loop: ast.For, names: CompileTimeValues) -> bool:
        """Return whether the iterations of a loop differ: ranges or ``wp.static`` in it depend on its index."""
        deciding = [node.iter for node in ast.walk(loop) if isinstance(node, ast.For) and node is not loop]
        deciding += filter(names.is_static, ast.walk(loop))
        return any(
            isinstance(name, ast.Name) and isinstance(loop.target, ast.Name) and name.id == loop.target.id
            for node in deciding
            for name in ast.walk(node)
        )


def has_break(body: list[ast.stmt]) -> bool:
    """Return whether statements leave the loop whose body they are."""
    return any(
        isinstance(node, ast.Break) or (isinstance(node, ast.If) and (has_break(node.body) or has_break(node.orelse)))
        for node in body
    )
