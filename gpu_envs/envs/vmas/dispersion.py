"""VMASDispersion-v0 (4 agents): Agents spread out to eat all food."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import Entities, ObservationBlock, points
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, GREEN, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import dispersion

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASDispersion-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(4, ge=1)
    """Number of agents."""
    n_food: int | None = setting(None, ge=1)
    """Number of food; None: as many as agents."""
    share_reward: bool = setting(False)
    """Every agent is rewarded for all food."""
    penalise_by_time: bool = setting(False)
    """An agent without another reward has the reward -0.01."""
    food_radius: float = setting(0.05, gt=0.0)
    """Radius of food [m]."""
    pos_range: float = setting(1.0, gt=0.0)
    """Agents and food stay in [-pos_range, pos_range]² [m]."""

    @property
    def num_food(self) -> int:
        """Number of food F."""
        return self.n_agents if self.n_food is None else self.n_food


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return dispersion.physics(config.n_agents, config.num_food)


def build(config: Config) -> EnvDefinition:
    food = config.num_food
    return scenario.define(
        config,
        physics_of(config),
        width=4 + 3 * food,
        state={"eaten": integers((food,), 0, 1), "eaters": integers((food,), 0, config.n_agents)},
        rules=dispersion.rules(config.n_agents, food, config.continuous_actions),
        params=params_of(config, dispersion.Params),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, food green until it is eaten."""
    uneaten = core.world_state["eaten"][envs] == 0
    return scene(core, envs, physics_of(core.config), {"agent": BLUE, "food": GREEN}, visible={"food": uneaten})


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    food = Entities("food", config.num_food)
    blocks = own_motion()
    for index in range(config.num_food):
        blocks.append(points(f"food {index} relative to the agent (x, y)", "m", entities=food))
        blocks.append(ObservationBlock(f"food {index} has been eaten", entities=food))
    return blocks
