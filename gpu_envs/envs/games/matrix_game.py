"""MatrixGame-v0 (2 agents): Any matrix game, played repeatedly."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.chance import NO_CHANCE
from gpu_envs.definition.environment import EnvDefinition, WorldView, box, integers
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.games.scene import heat_map, nowhere
from gpu_envs.errors import ConfigError, shown
from gpu_envs.rendering.scene import Scene
from gpu_envs.utils.settings import MAX_FLOAT, MAX_INT, setting
from warp_kernels.games import matrix_game

PRISONERS_DILEMMA = (((3.0, 3.0), (0.0, 5.0)), ((5.0, 0.0), (1.0, 1.0)))
"""Payoffs of the prisoner's dilemma; action 0 cooperates, 1 defects."""


@dataclass(frozen=True)
class Config:
    """Settings of MatrixGame-v0."""

    payoff: tuple[Any, ...] = setting(PRISONERS_DILEMMA)
    """Payoff table: payoff[a_0][a_1]...[a_P-1] is a list of the payoffs of P players; any P and numbers of actions."""
    num_repetitions: int = setting(10, ge=1, le=MAX_INT)
    """Number of times T that the game is played in an episode, one step each. Observations contain t / T."""

    def __post_init__(self) -> None:
        """Check the table and convert it to tuples."""
        object.__setattr__(self, "payoff", _tuples(_table(self.payoff).tolist()))

    def table(self) -> np.ndarray:
        """Return the payoffs, (n_1, ..., n_P, P) float32."""
        return _table(self.payoff)


def _table(payoff: Any) -> np.ndarray:
    """Return a payoff table as an array.

    Raises:
        ConfigError: The table is ragged or not numeric, or its last axis does not have a number per player.
    """
    try:
        table = np.asarray(payoff)
        if table.dtype == object and all(isinstance(number, int | float) for number in table.flat):
            table = table.astype(float)  # Python's ints beyond 64 bits
    except (ValueError, OverflowError):  # ragged, or huge
        table = np.asarray(None)
    if table.dtype.kind not in "fiu" or table.ndim < 2 or table.shape[-1] != table.ndim - 1 or not table.size:
        actual = f"shape {table.shape}" if table.dtype.kind in "fiu" else shown(payoff)[:60]
        raise ConfigError(f"payoff: expected numbers in the shape (n_1, ..., n_P, P) for P players, got {actual}")
    wrong = np.argwhere(~(np.abs(table) <= MAX_FLOAT))
    if len(wrong):
        entry = "".join(f"[{index}]" for index in wrong[0])
        actual = f"{table[tuple(wrong[0])]:g} at {entry}"
        raise ConfigError(f"payoff: expected finite numbers of at most {MAX_FLOAT:.10g} in size, got {actual}")
    return table.astype(np.float32)


def _tuples(nested: Any) -> Any:
    return tuple(map(_tuples, nested)) if isinstance(nested, list) else nested


def is_symmetric(table: np.ndarray) -> bool:
    """Return whether a table (n_1, ..., n_P, P) is symmetric: exchanging two players exchanges their payoffs."""
    players = table.shape[-1]
    for seat in range(players - 1):
        order = list(range(players))
        order[seat], order[seat + 1] = seat + 1, seat
        if not np.array_equal(np.swapaxes(table, seat, seat + 1)[..., order], table):
            return False
    return True


def build(config: Config) -> EnvDefinition:
    table = config.table()
    *counts, players = table.shape
    agents = tuple(f"player_{index}" for index in range(players))
    together, symmetric = {"player": tuple(range(players))}, is_symmetric(table)
    return EnvDefinition(
        rules=matrix_game.rules(players),
        params={"num_repetitions": config.num_repetitions},
        state={"payoff": (int(np.prod(counts)), players), "last": integers((players,), -1, max(counts) - 1)},
        initial={"payoff": table.reshape(-1, players)},
        agents=agents,
        groups=together if symmetric else {agent: (row,) for row, agent in enumerate(agents)},
        roles={agent: (agent,) for agent in agents},
        symmetric=symmetric,
        zero_sum=not bool(table.sum(-1).any()),
        observation_spaces={agent: box(sum(counts) + 1, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(count) for agent, count in zip(agents, counts, strict=True)},
        max_episode_steps=config.num_repetitions,
        time_limit_terminates=True,
        fixed_params=("num_repetitions",),
        chance=NO_CHANCE,
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The table as a heat map with a stripe per player and a frame around the last joint action.
    """
    counts = tuple(core.num_choices[:, 0].tolist())
    shapes, bounds = heat_map(core.world_state["payoff"][envs], counts, core.world_state["last"][envs])
    return Scene(shapes, bounds, border=None, agents=nowhere(core.num_agents, envs))


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of the actions of the prisoner's dilemma; other games have numbers only."""
    return ["cooperate", "defect"] if np.array_equal(config.table(), Config().table()) else []


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    *counts, players = config.table().shape
    choices = ["own last choice", "last choice of the next player"]
    choices += [f"last choice of the player {further} rows further" for further in range(2, players)]
    return [
        *(
            ObservationBlock(f"{choice}, one-hot; zeros at the start", width=counts[(row + further) % players])
            for further, choice in enumerate(choices)
        ),
        ObservationBlock("time", "`num_repetitions`"),
    ]
