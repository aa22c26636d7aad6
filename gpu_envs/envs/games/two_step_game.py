"""TwoStepGame-v0 (2 agents): Cooperative game of two steps, from QMIX."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import NO_CHANCE
from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, roster
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import heat_map, nowhere
from gpu_envs.rendering.scene import Scene
from warp_kernels.games import two_step_game

AGENTS = ("player_0", "player_1")  # in the order of rows
# Default payoffs of both tables, as in Rashid et al. (2018).
PAYOFFS = {"payoff_a": 7.0, "payoff_b_00": 0.0, "payoff_b_01": 1.0, "payoff_b_10": 1.0, "payoff_b_11": 8.0}


@dataclass(frozen=True)
class Config:
    """TwoStepGame-v0 has no settings."""


def build(config: Config) -> EnvDefinition:
    return EnvDefinition(
        **roster({"player": 2}, {"player": 5}, {"player": spaces.Discrete(2)}, 0.0, 1.0),
        rules=two_step_game.rules(),
        params=dict(PAYOFFS),
        state={"table": integers((), -1, 1), "last": integers((2,), -1, 1)},
        max_episode_steps=2,
        time_limit_terminates=True,
        chance=NO_CHANCE,
        draw=draw,
        render_fps=1,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Tables A (left) and B as heat maps, or the chosen one, with a frame around the joint action.
    """
    params, state = core.get_params(envs), core.world_state
    columns = (
        "payoff_a",
        "payoff_a",
        "payoff_b_00",
        "payoff_b_01",
        "payoff_a",
        "payoff_a",
        "payoff_b_10",
        "payoff_b_11",
    )
    payoff = torch.stack([params[name] for name in columns], -1).expand(len(envs), -1)
    of = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1], device=core.device)
    table, (row, column) = state["table"][envs], state["last"][envs].unbind(1)
    visible = (table[:, None] < 0) | (of == table[:, None])
    payoff = torch.where(visible, payoff, 0.0)
    last = torch.stack([row, torch.where(column < 0, -1, column + 2 * table)], -1)
    shapes, bounds = heat_map(payoff[..., None], (2, 4), last)
    return Scene(shapes, bounds, border=None, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of the first player's actions; the second player's have numbers only."""
    return [] if row else ["0 (table A)", "1 (table B)"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    stage = "stage of the game, one-hot: choose a table, table A, table B; zeros after the end"
    return [flags(stage, ("to choose", "in A", "in B")), flags("own row, one-hot", AGENTS)]
