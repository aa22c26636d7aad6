"""VMASGiveWay-v0 (2 agents): Two agents pass each other in a corridor."""

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
from warp_kernels.vmas import give_way

VIEW = 2.7
"""Half the side of a frame [m]."""


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASGiveWay-v0, with the names and defaults of VMAS."""

    continuous_actions: bool = setting(True)
    """Use Box actions, the velocities or forces along x and y, instead of Discrete(9)."""
    v_range: float = setting(0.5, gt=0.0)
    """Largest speed along each axis [m/s]."""
    a_range: float = setting(1.0, gt=0.0)
    """Largest acceleration along each axis; the largest force also overcomes the friction [m/s²]."""
    linear_friction: float = setting(0.1, ge=0.0)
    """Deceleration of agents [m/s²]."""
    mirror_passage: bool = setting(False)
    """There is a second passage on the other side of the corridor."""
    done_on_completion: bool = setting(False)
    """An episode terminates when both agents are on their goals."""
    observe_rel_pos: bool = setting(False)
    """Agents observe the way from each other."""
    pos_shaping_factor: float = setting(1.0)
    """Reward per meter that an agent comes nearer to its goal [1/m]."""
    final_reward: float = setting(0.01)
    """Reward of a step at whose end both agents are on their goals."""
    energy_rew_coeff: float = setting(0.0)
    """Cost of the largest force along both axes for a step."""
    agent_collision_penalty: float = setting(0.0)
    """Reward of a step at whose end the agents are nearer than 0.005 m."""
    passage_collision_penalty: float = setting(0.0)
    """Reward of an agent per wall of a passage that is nearer than 0.005 m."""
    obstacle_collision_penalty: float = setting(0.0)
    """Reward of an agent per other wall that is nearer than 0.005 m."""
    use_velocity_controller: bool = setting(True)
    """Actions are velocities [m/s] in [-v_range, v_range] instead of forces [N]."""
    min_input_norm: float = setting(0.08, ge=0.0, requires={"use_velocity_controller": True})
    """Lower velocities count as 0 [m/s]."""

    @property
    def f_range(self) -> float:
        """Largest force along each axis [N]."""
        return self.a_range + self.linear_friction


def sizes_of(config: Config) -> give_way.Sizes:
    """Return what the kernels capture."""
    return give_way.Sizes(config.use_velocity_controller, config.mirror_passage, config.observe_rel_pos)


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return give_way.physics(sizes_of(config))


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        physics_of(config),
        width=6 if config.observe_rel_pos else 4,
        state=dict.fromkeys(("error", "error_sum", "gap", "progress"), (2,)),
        limit=config.v_range if config.use_velocity_controller else config.f_range,
        rules=give_way.rules(sizes_of(config), config.continuous_actions),
        params=params_of(config, give_way.Params, f_range=config.f_range, min_collision_distance=0.005),
        draw=draw,
        fixed_params=("v_range", "f_range"),
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents and their goals in the same colors, walls dark."""
    color, physics = distinct_colors(2).to(core.device), physics_of(core.config)
    colors = {rows.body.name: DARK for rows in physics.rows} | {"agent": color, "goal": color}
    return scene(core, envs, physics, colors, ("goal",), view=VIEW)


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of discrete actions, or of the components of continuous ones."""
    names = scenario.action_names(config, row)
    quantity = "velocity" if config.use_velocity_controller else "force"
    return [name.replace("throttle", quantity) for name in names]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [*own_motion(), *([way("the agent relative to the other one")] if config.observe_rel_pos else [])]
