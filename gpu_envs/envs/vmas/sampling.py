"""VMASSampling-v0 (3 agents): Agents collect the values of a field."""

import math
from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, ORANGE, Scene, boxes
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import sampling

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASSampling-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(3, ge=1)
    """Number of agents."""
    shared_rew: bool = setting(True)
    """Agents are rewarded for the values that all collect."""
    lidar_range: float = setting(0.2, gt=0.0)
    """Length of the rays [m]."""
    agent_radius: float = setting(0.025, gt=0.0)
    """Radius of an agent [m]."""
    xdim: float = setting(1.0, gt=0.0)
    """Half the width of the field [m]."""
    ydim: float = setting(1.0, gt=0.0)
    """Half the height of the field [m]."""
    grid_spacing: float = setting(0.05, gt=0.0)
    """Side of a cell [m]; it divides xdim and ydim."""
    n_gaussians: int = setting(3, ge=1)
    """Number of normal distributions, whose sum is the field."""
    cov: float = setting(0.05, gt=0.0)
    """Variance of a normal distribution along x and y [m²]."""
    norm: bool = setting(True)
    """Rewards are divided by the largest value of the field."""


def sizes_of(config: Config) -> sampling.Sizes:
    """Return what the kernels capture."""
    return sampling.Sizes(config.n_agents, config.n_gaussians, config.xdim, config.ydim, config.grid_spacing)


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return sampling.physics(config.n_agents)


def build(config: Config) -> EnvDefinition:
    _check(config)
    radius, sizes = config.agent_radius, sizes_of(config)
    return scenario.define(
        config,
        physics_of(config),
        width=4 + sampling.RAYS + sampling.NEIGHBORS,
        state={"peak": (config.n_gaussians,), "max_density": (), "sampled": integers(sizes.cells, 0, 1)},
        rules=sampling.rules(sizes, config.continuous_actions),
        params=params_of(config, sampling.Params, x_semidim=config.xdim - radius, y_semidim=config.ydim - radius),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, and the cells that are left orange by their value."""
    columns, rows = sizes_of(core.config).cells
    x, y = (torch.arange(count, device=core.device) + 0.5 - 0.5 * count for count in (columns, rows))
    cells = torch.cartesian_prod(x, y) * core.config.grid_spacing
    gaps = torch.cdist(cells[None], core.world_state["peak"][envs])
    cov = core.get_params(envs)["cov"].to(core.device)[:, None, None]
    field = (-0.5 * gaps.square() / cov).exp().sum(-1)
    left = core.world_state["sampled"][envs].flatten(1) == 0
    alpha = left * field / field.amax(1, keepdim=True)
    field_shapes = boxes(cells.expand(len(envs), -1, -1), 0.5 * core.config.grid_spacing, ORANGE, alpha)
    return scene(core, envs, physics_of(core.config), {"agent": BLUE}, under=(field_shapes,))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    distance = "distance of the next agent along each ray, the range of the LIDAR if there is none"
    points = "value of the field one cell to the right, left, up, down, and at the four corners, below first"
    return [
        *own_motion(),
        ObservationBlock(distance, "m", -config.agent_radius, config.lidar_range, sampling.RAYS),
        ObservationBlock(points, "largest value", 0.0, float("inf"), sampling.NEIGHBORS),
    ]


def _check(config: Config) -> None:
    """Raise a ConfigError unless cells divide the field and agents fit into it."""
    for name, side in (("xdim", config.xdim), ("ydim", config.ydim)):
        count = side / config.grid_spacing
        if side <= config.agent_radius or not math.isclose(count, round(count), rel_tol=1e-6):
            raise ConfigError(f"{name}: expected a multiple of grid_spacing that is more than agent_radius, got {side}")
