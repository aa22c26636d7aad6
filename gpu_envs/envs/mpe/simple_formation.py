"""SimpleFormation-v0 (4 agents): Agents form a circle around a landmark."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, Scene, rings
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import assigned_targets, simple_formation
from warp_kernels.rules import Rules

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleFormation-v0, with the names and defaults of mpe2."""

    N: int = setting(4, ge=1, le=assigned_targets.MAX_AGENTS)
    """Number of agents."""
    terminate_on_success: bool = setting(False)
    """Terminate the episode when every agent is at its target."""


def define(
    config: Config, rules: Rules, landmarks: int, lengths: dict[str, float], draw: Callable[..., Scene]
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
    rules = simple_formation.rules(config.N, config.continuous_actions)
    return define(config, rules, simple_formation.LANDMARKS, {"agent_size": 0.05, "formation_radius": 0.5}, draw)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, the landmark dark, and the circle of the formation."""
    count = core.num_agents
    center = core.world_state["pos"][envs, count : count + 1]
    circle = rings(center, core.get_params(envs)["formation_radius"][:, None], GRAY, 0.015)
    landmark = Discs(slice(count, None), 0.05, DARK, target=True)
    return scene(core, envs, circle, landmark, Discs(slice(0, count), "agent_size", BLUE))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [own_velocity(), own_position(), offsets("landmark", 1)]
