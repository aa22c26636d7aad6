"""SimpleFormation-v0 (4 agents): Agents form a circle around a landmark.

The rules are in ``warp_kernels/mpe/simple_formation.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import action_names, offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import assigned_targets, simple_formation
from warp_kernels.rules import Rules

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.scene import Scene

__all__ = ["Config", "action_names", "build", "define", "draw", "observation_blocks"]


@dataclass(frozen=True)
class Config:
    """Settings of SimpleFormation-v0, with the names and defaults of mpe2."""

    N: int = setting(4, ge=1, le=assigned_targets.MAX_AGENTS)
    """Number of agents."""
    max_cycles: int = setting(25, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (5,)) actions (nothing, left, right, down, up) instead of Discrete(5)."""
    dynamic_rescaling: bool = setting(True)
    """Rendering: discs shrink when the camera zooms out; if False, they keep their size in the frame."""
    benchmark_data: bool = setting(False)
    """Add mpe2's benchmark data to `info`; empty, because mpe2 has none for this scenario."""
    terminate_on_success: bool = setting(False)
    """Terminate the episode when every agent is at its target."""


def define(
    config: Config, rules: Rules, landmarks: int, lengths: dict[str, float], draw: Callable[..., "Scene"]
) -> EnvDefinition:
    """Return the definition of a scenario whose agents have a target each, this one or SimpleLine-v0.

    Args:
        config: Settings.
        rules: Rules of the scenario.
        landmarks: Number of landmarks.
        lengths: Further parameters, all of them lengths [m].
        draw: Function that draws worlds.
    """
    n = config.N
    return scenario.define(
        config,
        counts={"agent": n},
        widths={"agent": assigned_targets.observation_width(landmarks)},
        rules=rules,
        params={
            "accel": 5.0,
            "capture_radius": 0.05,
            "terminate_on_success": int(config.terminate_on_success),
            **lengths,
        },
        bounds=dict.fromkeys(("capture_radius", *lengths), scenario.NOT_NEGATIVE),
        state={
            "pos": (n + landmarks,),
            "vel": (n,),
            "force": (n,),
            "target": (n,),
            "away": (n,),
            "benchmark": (n, 0),
        },
        draw=draw,
    )


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    rules = simple_formation.rules(config.N, config.continuous_actions)
    return define(config, rules, simple_formation.LANDMARKS, {"agent_size": 0.05, "formation_radius": 0.5}, draw)


def draw(core: "WorldView", envs: torch.Tensor) -> "Scene":
    """Return the scene of these worlds: agents blue, the landmark dark, and the circle of the formation."""
    from gpu_envs.rendering.scene import BLUE, DARK, GRAY, rings

    count = core.num_agents
    center = core.world_state["pos"][envs, count : count + 1]
    circle = rings(center, core.get_params(envs)["formation_radius"][:, None], GRAY, 0.015)
    landmark = Discs(slice(count, None), 0.05, DARK, target=True)
    return scene(core, envs, circle, landmark, Discs(slice(0, count), "agent_size", BLUE))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    return [own_velocity(), own_position(), offsets("landmark", 1)]
