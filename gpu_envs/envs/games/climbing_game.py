"""ClimbingGame-v0 (2 agents): Cooperative matrix game with large losses."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import NO_CHANCE
from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, roster
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import heat_map, nowhere
from gpu_envs.rendering.scene import Scene
from gpu_envs.utils.settings import setting
from warp_kernels.games import climbing_game

AGENTS = ("player_0", "player_1")  # in the order of rows
CELLS = tuple(f"payoff_{row}{column}" for row in range(3) for column in range(3))
"""Environment parameters of the payoff table, row by row; player 0 chooses the row."""
CLIMBING = (11.0, -30.0, 0.0, -30.0, 7.0, 6.0, 0.0, 0.0, 5.0)  # payoffs, a row per action of player 0


@dataclass(frozen=True)
class Config:
    """Settings of ClimbingGame-v0."""

    game: str = setting("climbing", choices=("climbing", "penalty"))
    """Payoff table of the paper."""
    penalty: float = setting(-100.0, le=0.0)
    """Payoff k of the paper: what both players get in the penalty game if they aim at different optimal cells."""

    def table(self) -> tuple[float, ...]:
        """Return the nine payoffs, row by row."""
        k = self.penalty
        return CLIMBING if self.game == "climbing" else (10.0, 0.0, k, 0.0, 2.0, 0.0, k, 0.0, 10.0)


def build(config: Config) -> EnvDefinition:
    return EnvDefinition(
        **roster({"player": 2}, {"player": 2}, {"player": spaces.Discrete(3)}, 0.0, 1.0),
        rules=climbing_game.rules(),
        params=dict(zip(CELLS, config.table(), strict=True)),
        state={"last": integers((2,), -1, 2)},
        max_episode_steps=1,
        time_limit_terminates=True,
        chance=NO_CHANCE,
        draw=draw,
        render_fps=1,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: the table as a heat map with a frame around the joint action."""
    params = core.get_params(envs)
    table = torch.stack([params[cell] for cell in CELLS], -1)[..., None].expand(len(envs), -1, 1)
    shapes, bounds = heat_map(table, (3, 3), core.world_state["last"][envs])
    return Scene(shapes, bounds, border=None, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    return [f"{('row', 'column')[row]} {choice}" for choice in range(3)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [flags("own row, one-hot", AGENTS)]
