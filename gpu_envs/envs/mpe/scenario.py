"""What MPE's host files share: names, action spaces, and the parts of a definition that are alike."""

from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition import Definition, roster

MOVES = 5
"""Nothing, left, right, down, up."""


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
    actions = actions or {group: action_space(config.continuous_actions) for group in counts}
    return Definition(
        **roster(counts, widths, actions),
        max_steps=config.max_cycles,
        limit_terminates=False,
        render_fps=10,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
        **rest,
    )
