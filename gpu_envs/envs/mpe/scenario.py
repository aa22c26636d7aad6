"""Action spaces and definitions shared by the MPE scenarios."""

from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, roster

__all__ = ["MOVES", "NOT_NEGATIVE", "action_space", "define"]

MOVES = 5
"""Number of pushes: nothing, left, right, down, up."""
NOT_NEGATIVE = (0.0, 1e6)
"""Bounds of lengths [m] and speeds [m/s]."""


def action_space(continuous: bool, moves: int = MOVES, letters: int = 0) -> spaces.Space[Any]:
    """Return the action space of an agent, as in mpe2.

    Args:
        continuous: Use one component per move, then one per letter, in [0, 1]. Discrete actions are
            letter * moves + move.
        moves: MOVES, or 0 for an agent that does not move.
        letters: Size of the alphabet; 0 for an agent without communication.
    """
    if continuous:
        return spaces.Box(0.0, 1.0, (moves + letters,), np.float32)
    return spaces.Discrete(max(moves, 1) * max(letters, 1))


def define(
    config: Any,
    counts: dict[str, int],
    widths: dict[str, int],
    actions: dict[str, spaces.Space[Any]] | None = None,
    **rest: Any,
) -> EnvDefinition:
    """Return the definition of a scenario.

    Args:
        config: Config of the scenario.
        counts: Number of agents by group, in row order; agents are named "group_0", "group_1", ...
        widths: Width of the observation by group.
        actions: Action space by group; None for moving agents without communication.
        **rest: Further fields of :class:`gpu_envs.definition.environment.EnvDefinition`.
    """
    actions = actions or {group: action_space(config.continuous_actions) for group in counts}
    return EnvDefinition(
        **roster(counts, widths, actions),
        max_episode_steps=config.max_cycles,
        time_limit_terminates=False,
        render_fps=10,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
        **rest,
    )
