"""Conversions of constants to 64 bits in Warp functions.

Warp 1.19 gives the variable of a constant the new type in ``wp.float64(constant)``. If the function uses the same name
elsewhere, that use reads a variable of the wrong type, before it has a value.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONVERSIONS = {"wp.float64", "wp.int64", "wp.uint64"}

WRONG = """
@wp.func
def aim(state: State, env: int):
    center = state.pos[env, num_agents]
    return wp.float64(num_agents)
"""
LOOP = """
@wp.func
def add(state: State):
    for row in range(3):
        state.sum[row] += wp.float64(row)
"""
RIGHT = """
@wp.func
def aim(state: State, count: int):
    other = count + num_agents
    return wp.float64(count) / wp.float64(other) * wp.float64(scale) * wp.float64(num_agents - 1)
"""


def shared_constants(source):
    """Return the lines where a Warp function converts a constant that it uses elsewhere too."""
    lines = []
    converts = any(f"{conversion}(" in source for conversion in CONVERSIONS)  # parsing and walking take long
    for function in ast.walk(ast.parse(source)) if converts else ():
        decorators = function.decorator_list if isinstance(function, ast.FunctionDef) else []
        if not any(ast.unparse(decorator).startswith(("wp.func", "wp.kernel")) for decorator in decorators):
            continue
        nodes = list(ast.walk(function))
        loops = {node.target.id for node in nodes if isinstance(node, ast.For)}
        dynamic = {arg.arg for arg in function.args.args}
        dynamic |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for call in nodes:
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) in CONVERSIONS):
                continue
            (value,) = call.args
            if isinstance(value, ast.Name) and value.id not in dynamic - loops:
                uses = sum(isinstance(node, ast.Name) and node.id == value.id for node in nodes)
                if uses > 1:
                    lines.append(call.lineno)
    return lines


@pytest.mark.parametrize(("source", "count"), [(WRONG, 1), (LOOP, 1), (RIGHT, 0)], ids=["wrong", "loop", "right"])
def test_shared_constant_in_conversion_is_found(source, count):
    assert len(shared_constants(source)) == count


def test_no_conversion_shares_its_constant():
    files = sorted((ROOT / "warp_kernels").rglob("*.py"))
    assert len(files) > 50
    shared = {str(path.relative_to(ROOT)): shared_constants(path.read_text(encoding="utf-8")) for path in files}
    assert not {path: lines for path, lines in shared.items() if lines}
