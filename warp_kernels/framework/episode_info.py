"""Warp functions for the fields of State that an environment declares as ``info`` and ``results``."""

from typing import Any

from warp_kernels import episode
from warp_kernels.generated_source import compiled
from warp_kernels.rules import Rules

__all__ = ["keep_results", "show_info"]


def show_info(rules: Rules) -> Any:
    """Build ``show(state, io, env, agent)``, which copies ``Rules.info`` of an agent to the tensors of ``info``.

    The addresses of these tensors are in ``io.info``, because fields of any dtype and shape can be declared.
    """
    lines = ["worlds = io.alive.shape[0]"]
    dtypes: dict[str, Any] = {}
    for number, (field, shape) in enumerate(rules.info):
        dtypes[f"type_{number}"] = rules.state.vars[field].type.dtype
        sizes = ", ".join(map(str, ("worlds", rules.num_agents, *shape)))
        lines.append(f"array_{number} = wp.array(ptr=io.info[{number}], shape=({sizes},), dtype=type_{number})")
        names = [f"index_{number}_{axis}" for axis in range(len(shape))]
        for depth, (name, size) in enumerate(zip(names, shape, strict=True)):
            lines += [f"{'    ' * depth}{name} = int(0)", f"{'    ' * depth}while {name} < {size}:"]
        entry = ", ".join(("env", "agent", *names))
        lines.append(f"{'    ' * len(shape)}array_{number}[{entry}] = state.{field}[{entry}]")
        lines += [f"{'    ' * (depth + 1)}{name} += 1" for depth, name in reversed(list(enumerate(names)))]
    constants = {"State": rules.argument(rules.state), "IO": rules.argument(episode.IO), **dtypes}
    return compiled("show", "state: State, io: IO, env: int, agent: int", lines, constants)


def keep_results(rules: Rules) -> Any:
    """Build ``keep(state, io, env, agent)``, which copies ``Rules.results`` of an agent to ``io.episode_results``."""
    lines = ["worlds = io.alive.shape[0]"]  # a function of Warp has at least one line
    for column, field in enumerate(rules.results):
        lines.append(f"io.episode_results[env, agent, {column}] = float(state.{field}[env, agent])")
    constants = {"State": rules.argument(rules.state), "IO": rules.argument(episode.IO)}
    return compiled("keep", "state: State, io: IO, env: int, agent: int", lines, constants)
