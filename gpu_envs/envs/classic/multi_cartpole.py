"""MultiCartPole-v0 (4 agents): Several poles on carts, one per agent."""

import math
from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.classic import cartpole
from gpu_envs.envs.classic.single_agent import BOUNDS, bounds
from gpu_envs.rendering.scene import Scene
from gpu_envs.utils.settings import setting
from warp_kernels.classic import multi_cartpole

action_names = cartpole.action_names


@dataclass(frozen=True)
class Config(cartpole.Config):
    """Settings of MultiCartPole-v0: those of CartPole-v1, for all agents, and the agents."""

    num_agents: int = setting(4, ge=1)
    """Number of agents, each with its own cart and pole."""


def build(config: Config) -> EnvDefinition:
    agents = tuple(f"agent_{row}" for row in range(config.num_agents))
    return EnvDefinition(
        rules=multi_cartpole.rules(config.num_agents),
        params=cartpole.parameters(config),
        state={"motion": (config.num_agents,)},
        agents=agents,
        groups={"agent": tuple(range(config.num_agents))},
        observation_spaces=dict.fromkeys(agents, cartpole.motion_space(config)),
        action_spaces={agent: spaces.Discrete(2) for agent in agents},
        max_episode_steps=config.max_episode_steps,
        time_limit_terminates=False,
        reset_options=lambda options: bounds(options, *cartpole.START),
        reset_option_names=BOUNDS,
        draw=draw,
        render_fps=50,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the carts in rows and columns; a cart whose pole has fallen is faint."""
    worlds, agents = len(envs), core.num_agents
    motion = core.world_state["motion"][envs]
    params = {name: value.expand(worlds) for name, value in core.get_params(envs).items()}
    pole_params = {name: value.repeat_interleave(agents) for name, value in params.items()}
    shapes, carts, frames = cartpole.cart_shapes(motion.reshape(worlds * agents, 4), pole_params)
    side = frames[::agents, 2:3] - frames[::agents, 0:1]  # (W, 1) of a square cell
    columns = math.ceil(math.sqrt(agents))
    rows = math.ceil(agents / columns)
    row = torch.arange(agents, device=motion.device)
    places = torch.stack([row % columns, rows - 1 - row // columns], -1)  # (A, 2), the first agent at the top left
    move = side[:, None] * places  # (W, A, 2)
    faint = torch.where(core.alive[envs], 1.0, 0.25)

    def placed(block: torch.Tensor) -> torch.Tensor:
        """Return shapes (W * A, N, 10) in the cells of their agents, (W, A * N, 10)."""
        block = block.reshape(worlds, agents, -1, block.shape[-1]).clone()
        block[..., 1:3] += move[:, :, None]
        block[..., 9] *= faint[:, :, None]
        return block.flatten(1, 2)

    low = frames[::agents, :2]
    return Scene(
        placed(shapes),
        torch.cat([low, low + side * torch.tensor([columns, rows], device=low.device)], -1),
        agents=placed(carts),
    )


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return cartpole.observation_blocks(config, row, "the own")
