"""The arrays that the phases of an environment declare to read and write are those that their functions touch."""

import ast
from collections import defaultdict
from typing import Any

import warp as wp
from small_environments import SMALL, SPECIAL

from gpu_envs.definition.registry import find
from gpu_envs.utils.settings import build_config
from warp_kernels.rules_source import CompileTimeValues

MORE = (
    ("TagContinuous-v0", {"num_taggers": 40, "num_runners": 400, "num_other_agents_observed": 5}),  # sorted into cells
    ("SimpleSpread-v0", {"benchmark_data": True}),
    ("SimpleTag-v0", {"benchmark_data": True}),
)


class ArrayUses:
    """Arrays of State and IO that a Warp function and its callees touch.

    Attributes:
        names: By mode, "reads" or "writes": fields of State, fields of IO as ``io.field``, arguments as ``*argument``.
    """

    def __init__(self, function: Any) -> None:
        (definition,) = function.adj.tree.body
        self.names: dict[str, set[str]] = {"reads": set(), "writes": set()}
        self._kinds = {name: getattr(kind, "value_type", kind) for name, kind in function.adj.arg_types.items()}
        self._aliases: dict[str, str] = {}
        values = CompileTimeValues(function)
        for node in ast.walk(definition):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=alias)], value=ast.Call(keywords=[ast.keyword("ptr", pointer), *_])
                ):
                    assert isinstance(pointer, ast.Attribute)
                    self._aliases[alias] = self._name(pointer.value) or ""
                case ast.AugAssign(target=target):
                    self._add("reads", target)
                case ast.Call() if isinstance(callee := values.value(node.func), wp.Function):
                    self._call(callee, node)
            if isinstance(node, ast.Subscript | ast.Attribute):
                self._add("reads" if isinstance(node.ctx, ast.Load) else "writes", node)

    def _add(self, mode: str, node: ast.expr) -> None:
        """Add the array of an element, or of a component of an element, such as ``state.pos[env, agent][0]``."""
        element = node
        while isinstance(element, ast.Attribute | ast.Subscript):
            if isinstance(element, ast.Subscript) and (name := self._name(element.value)):
                self.names[mode].add(name)
            element = element.value

    def _name(self, node: ast.expr) -> str | None:
        """Return the name of an array; None for other expressions."""
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=field):
                kind = self._kinds.get(owner)
                if hasattr(getattr(kind, "vars", {}).get(field), "type") and hasattr(kind.vars[field].type, "ndim"):
                    return f"io.{field}" if kind.key.endswith("IO") else field
            case ast.Name(id=name) if name in self._aliases:
                return self._aliases[name]
            case ast.Name(id=name) if hasattr(self._kinds.get(name), "ndim"):
                return f"*{name}"
        return None

    def _call(self, callee: Any, call: ast.Call) -> None:
        """Add what a call touches."""
        if callee.is_builtin():
            if callee.key.startswith("atomic"):
                self.names["reads"].add(self._name(call.args[0]) or "")
                self.names["writes"].add(self._name(call.args[0]) or "")
            return
        arguments = dict(zip(callee.adj.arg_types, call.args, strict=False))
        arguments |= {keyword.arg: keyword.value for keyword in call.keywords}
        for mode, names in ArrayUses(callee).names.items():
            self.names[mode] |= {name for name in names if not name.startswith("*")}
            self.names[mode] |= {self._name(arguments[name[1:]]) or "" for name in names if name.startswith("*")}


def test_phases_declare_the_arrays_that_they_touch():
    touched, declared = defaultdict(set), defaultdict(set)
    for env_id, settings in (*SMALL.items(), *SPECIAL, *MORE):
        kind, build = find(env_id).load()
        rules = build(build_config(kind, settings, env_id)).rules
        for phase in (*rules.phases, *rules.build_grid):
            uses = ArrayUses(phase.run)
            for mode, names in uses.names.items():
                use = f"{phase.run.adj.filename}:{phase.run.adj.fun_lineno} {phase.called} {mode}"
                declared[use] |= set(getattr(phase, mode).split())
                touched[use] |= names
    assert touched == declared
