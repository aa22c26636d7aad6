"""What MPE's host files share: names, action spaces, the parts of a definition that are alike, and the camera."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition import Definition, box

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Colour, Scene

MOVES = 5
"""Nothing, left, right, down, up."""
VIEW = 1.4
"""Half the side of a picture [m]: the arena's half, 1 m, and a margin."""


def action_space(continuous: bool, moves: int = MOVES, letters: int = 0) -> spaces.Space:
    """mpe2's action space of an agent.

    Args:
        continuous: One component per move, then one per letter, in [0, 1]; else one number for both,
            letter * moves + move.
        moves: MOVES, or 0 where the agent stands still.
        letters: What it can say; 0 where it is silent.
    """
    if continuous:
        return spaces.Box(0.0, 1.0, (moves + letters,), np.float32)
    return spaces.Discrete(max(moves, 1) * max(letters, 1))


def define(
    config: Any,
    counts: dict[str, int],
    widths: dict[str, int],
    actions: dict[str, spaces.Space] | None = None,
    **rest: Any,
) -> Definition:
    """A definition of a scenario.

    Args:
        config: The scenario's Config.
        counts: Agents by group, in row order; they are named "group_0", "group_1", ...
        widths: Width of the observation by group.
        actions: Action space by group; None: every agent moves and is silent.
        **rest: What remains of :class:`gpu_envs.definition.Definition`.
    """
    group_of = {f"{group}_{index}": group for group, count in counts.items() for index in range(count)}
    agents, benchmark = tuple(group_of), {"benchmark_data": "benchmark"} if config.benchmark_data else {}
    actions = actions or {group: action_space(config.continuous_actions) for group in counts}
    return Definition(
        agents=agents,
        groups={group: tuple(row for row, agent in enumerate(agents) if group_of[agent] == group) for group in counts},
        observation_spaces={agent: box(widths[group]) for agent, group in group_of.items()},
        action_spaces={agent: actions[group] for agent, group in group_of.items()},
        max_steps=config.max_cycles,
        limit_terminates=False,
        render_fps=10,
        info=benchmark,
        **rest,
    )


class Discs(NamedTuple):
    """Some entities of a picture."""

    rows: slice
    """Of ``pos``."""
    size: str | float
    """Radius [m], or name of the constant that holds it."""
    colour: "Colour"
    """It broadcasts to (W, rows, 3)."""
    target: bool = False
    """A ring around a dot, for places to go to, instead of a disc."""


def scene(core: "Core", envs: torch.Tensor, *parts: Discs) -> "Scene":
    """Scene of some worlds, seen by a camera that backs away until all entities are in the picture, as mpe2's does.

    With ``config.dynamic_rescaling`` they shrink as it backs away; without, they keep their size in the picture.

    Args:
        core: The core.
        envs: (W,) int64, the worlds.
        *parts: Entities in the order of painting.
    """
    from gpu_envs.rendering import DARK, Scene, boxes, circles, join, rings

    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    sizes = [params[p.size][:, None] if isinstance(p.size, str) else pos.new_full((1, 1), p.size) for p in parts]
    reach = torch.cat([pos[:, p.rows].abs().amax(2) + size for p, size in zip(parts, sizes, strict=True)], dim=1)
    half = (1.04 * reach.amax(1)).clamp(min=VIEW)
    zoom = (half / VIEW)[:, None]
    middle = pos.new_zeros((len(pos), 1, 2))
    shapes = [boxes(middle, 1.0, Scene.background), boxes(middle, 1.0, Scene.border or DARK, line_width=0.012 * zoom)]
    for part, size in zip(parts, sizes, strict=True):
        centres, radius = pos[:, part.rows], size if core.config.dynamic_rescaling else size * zoom
        if part.target:
            line = 0.35 * radius
            shapes += [
                circles(centres, radius, Scene.background),
                rings(centres, radius - 0.5 * line, part.colour, line),
                circles(centres, 0.3 * radius, part.colour),
            ]
        else:
            shapes += [circles(centres, radius, part.colour), rings(centres, radius, DARK, 0.01 * zoom, alpha=0.6)]
    bounds = torch.stack([-half, -half, half, half], dim=1)
    return Scene(join(*shapes), bounds, margin=0.0, background=Scene.surround, border=None)
