"""Settings, definitions, and names of actions and observations shared by VMAS's scenarios."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, roster
from gpu_envs.descriptions import ObservationBlock, points
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.physics2d.placement import check_room

MOVES = ("nothing", "backward", "forward")
"""Digits of discrete actions, along each axis."""


@dataclass(frozen=True)
class ScenarioConfig:
    """Settings of all scenarios."""

    max_steps: int = setting(100, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated. VMAS has none by default; 100 is BenchMARL's."""
    continuous_actions: bool = setting(True)
    """Use Box(-1, 1, (2,)) actions, the throttles along x and y, instead of Discrete(9)."""


def define(
    config: Any, physics: Physics, width: int, state: dict[str, Any], limit: float = 1.0, **fields: Any
) -> EnvDefinition:
    """Return the definition of a scenario whose agents cooperate and observe the same number of values.

    Args:
        config: Config of the scenario.
        physics: Its scene.
        width: Width of an observation.
        state: Shapes of the fields of State that do not belong to bodies.
        limit: Largest component of a continuous action.
        **fields: Further fields of :class:`gpu_envs.definition.environment.EnvDefinition`.
    """
    action: spaces.Space[Any] = spaces.Discrete(len(MOVES) ** 2)
    if config.continuous_actions:
        action = spaces.Box(-limit, limit, (2,), np.float32)
    return EnvDefinition(
        **roster({"agent": physics.agents}, {"agent": width}, {"agent": action}),
        state={**physics.fields, **state},
        max_episode_steps=config.max_steps,
        time_limit_terminates=False,
        **fields,
    )


def require_room(count: int, apart: float, width: float = 2.0, height: float = 2.0) -> None:
    """Raise a ConfigError if bodies at random points would hardly find room, see :func:`check_room`."""
    try:
        check_room(count, apart, width, height)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def action_names(config: Any, row: int) -> list[str]:
    """Return the names of discrete actions, or of the components of continuous ones."""
    if config.continuous_actions:
        return ["throttle x", "throttle y"]
    horizontal, vertical = ("", "left", "right"), ("", "down", "up")
    return [" ".join(filter(None, (x, y))) or "nothing" for x in horizontal for y in vertical]


def own_motion() -> list[ObservationBlock]:
    """Return the blocks of the agent's own position and velocity."""
    return [points("own position (x, y)", "m"), points("own velocity (x, y)", "m/s")]


def way(meaning: str) -> ObservationBlock:
    """Return the block of a vector between two bodies."""
    return points(f"{meaning} (x, y)", "m")


def velocity(body: str) -> ObservationBlock:
    """Return the block of the velocity of a body."""
    return points(f"velocity of {body} (x, y)", "m/s")
