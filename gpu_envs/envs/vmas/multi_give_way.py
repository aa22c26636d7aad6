"""VMASMultiGiveWay-v0 (4 agents): Agents pass each other at a crossing."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, way
from gpu_envs.envs.vmas.scene import distinct_colors, scene
from gpu_envs.rendering.scene import DARK, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import multi_give_way

VIEW = 2.7
"""Half the side of a frame [m]."""


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASMultiGiveWay-v0, with the names and defaults of VMAS."""

    continuous_actions: bool = setting(True)
    """Use Box actions, the velocities along x and y, instead of Discrete(9)."""
    u_range: float = setting(0.5, gt=0.0)
    """Largest speed that an action commands [m/s]."""
    a_range: float = setting(1.0, gt=0.0)
    """Largest acceleration along each axis; the largest force also overcomes the friction [m/s²]."""
    linear_friction: float = setting(0.1, ge=0.0)
    """Deceleration of agents [m/s²]."""
    min_input_norm: float = setting(0.08, ge=0.0)
    """Lower velocities count as 0 [m/s]."""
    shared_rew: bool = setting(True)
    """Agents are rewarded for the progress of all."""
    pos_shaping_factor: float = setting(1.0)
    """Reward per meter that an agent comes nearer to its goal; if it is 0, -0.0001 per meter of the distance [1/m]."""
    final_reward: float = setting(0.01)
    """Reward of a step at whose end all agents are on their goals."""
    agent_collision_penalty: float = setting(-0.1)
    """Reward of an agent for each other one that is nearer than 0.005 m."""

    @property
    def f_range(self) -> float:
        """Largest force along each axis [N]."""
        return self.a_range + self.linear_friction


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return multi_give_way.physics()


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        physics_of(config),
        width=7,
        state=dict.fromkeys(("error", "error_sum", "gap", "progress"), (multi_give_way.NUM_AGENTS,)),
        limit=config.u_range,
        rules=multi_give_way.rules(config.continuous_actions),
        params=params_of(config, multi_give_way.Params, f_range=config.f_range),
        draw=draw,
        fixed_params=("u_range", "f_range"),
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents and their goals in the same colors, walls dark."""
    color, physics = distinct_colors(core.num_agents).to(core.device), physics_of(core.config)
    colors = {rows.body.name: DARK for rows in physics.rows} | {"agent": color, "goal": color}
    return scene(core, envs, physics, colors, ("goal",), view=VIEW)


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of discrete actions, or of the components of continuous ones."""
    return [name.replace("throttle", "velocity") for name in scenario.action_names(config, row)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    distance = ObservationBlock("distance of the agent to its goal", "m", 0.0, float("inf"))
    return [*own_motion(), way("the agent relative to its goal"), distance]
