"""Action spaces, definitions, and names of observations and actions shared by the MPE scenarios."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, roster
from gpu_envs.descriptions import ANY, Entities, ObservationBlock, points
from gpu_envs.utils.settings import MAX_INT, setting

PUSHES = ("nothing", "left", "right", "down", "up")
"""Directions in which an agent pushes itself, by index."""
MOVES = len(PUSHES)
"""Number of pushes."""
NOT_NEGATIVE = (0.0, 1e6)
"""Bounds of lengths [m] and speeds [m/s]."""


@dataclass(frozen=True)
class ParticleConfig:
    """Settings of all scenarios, with the names and defaults of mpe2."""

    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`; empty where mpe2 has none for a scenario."""


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
    **fields: Any,
) -> EnvDefinition:
    """Return the definition of a scenario.

    Args:
        config: Config of the scenario.
        counts: Number of agents by group, in row order; agents are named "group_0", "group_1", ...
        widths: Width of the observation by group.
        actions: Action space by group; None for moving agents without communication.
        **fields: Further fields of :class:`gpu_envs.definition.environment.EnvDefinition`.
    """
    actions = actions or {group: action_space(config.continuous_actions) for group in counts}
    return EnvDefinition(
        **roster(counts, widths, actions),
        max_episode_steps=config.max_cycles,
        time_limit_terminates=False,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
        **fields,
    )


def action_names(config: Any, row: int) -> list[str]:
    """Return the names of the pushes, the actions of an agent without communication."""
    return list(PUSHES)


def talk_names(letters: int) -> list[str]:
    """Return the names of the discrete actions of an agent that moves and talks."""
    return [f"letter {letter}, {push}" for letter in range(letters) for push in PUSHES]


def talk_parts(letters: int) -> list[str]:
    """Return the names of the continuous components of an agent that moves and talks."""
    return [*PUSHES, *(f"letter {letter}" for letter in range(letters))]


def own_velocity(limit: float = ANY) -> ObservationBlock:
    """Return the block of the agent's own velocity, with its speed limit [m/s]."""
    return points("own velocity (x, y)", "m/s", limit)


def own_position() -> ObservationBlock:
    """Return the block of the agent's own position."""
    return points("own position (x, y)", "m")


def offsets(entities: str, count: int, nearest: int | None = None, is_set: bool = False) -> ObservationBlock:
    """Return the block of relative positions of entities: of all, or of this number of the nearest.

    Their order has no meaning if they are a set, see `gpu_envs.descriptions.entity_blocks`.
    """
    order = "row order"
    if nearest is not None:
        order = f"the nearest {nearest}, nearest first; zeros where there are fewer"
    meaning = f"{entities} relative to the agent (x, y of each, {order})"
    count = count if nearest is None else nearest
    return points(meaning, "m", count=count, entities=Entities(entities, count) if is_set else None)


def landmark_offsets(landmarks: str, count: int) -> ObservationBlock:
    """Return the block of relative positions of landmarks, all of them in their order."""
    return points(f"{landmarks} relative to the agent (x, y of each)", "m", count=count)


def goal_offset() -> ObservationBlock:
    """Return the block of the relative position of the goal."""
    return points("the goal relative to the agent (x, y)", "m")


def message_block(sender: str, letters: int) -> ObservationBlock:
    """Return the block of a message."""
    return ObservationBlock(f"{sender} message in this step, one value per letter", "loudness", width=letters)


def color_block(meaning: str, low: float, high: float, count: int = 1) -> ObservationBlock:
    """Return the block of one or several colors."""
    return ObservationBlock(meaning, "", low, high, 3 * count, ("r", "g", "b"))
