"""MatrixGame-v0 on the host: settings, agents, spaces, drawing. Rules: ``warp_kernels/games/matrix_game.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.config import MAX_FLOAT, MAX_INT, setting
from gpu_envs.definition import Definition, box, integers
from gpu_envs.errors import ConfigError, shown
from warp_kernels.games import matrix_game

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

PRISONERS_DILEMMA = (((3.0, 3.0), (0.0, 5.0)), ((5.0, 0.0), (1.0, 1.0)))
"""Choice 0 cooperates, 1 defects."""


@dataclass(frozen=True)
class Config:
    """Settings of MatrixGame-v0."""

    payoff: tuple = setting(PRISONERS_DILEMMA)
    """payoff[a_0][a_1]...[a_P-1] is what the P players earn, a list of P numbers; any P and any numbers of choices."""
    num_steps: int = setting(10, low=1, high=MAX_INT)
    """Steps of an episode, T; 1 is the one-shot game. The observation tells t / T."""

    def __post_init__(self) -> None:
        """Check the table; arrays and lists become tuples."""
        object.__setattr__(self, "payoff", _tuples(_table(self.payoff).tolist()))

    def table(self) -> np.ndarray:
        """The payoffs, (n_1, ..., n_P, P) float32."""
        return _table(self.payoff)


def _table(payoff: Any) -> np.ndarray:
    """A payoff table as an array.

    Raises:
        ConfigError: Ragged, no numbers, or the last axis does not hold a number per player.
    """
    try:
        table = np.asarray(payoff)
        if table.dtype == object and all(isinstance(number, int | float) for number in table.flat):
            table = table.astype(float)  # Python's ints beyond 64 bits
    except (ValueError, OverflowError):  # ragged, or huge
        table = np.asarray(None)
    if table.dtype.kind not in "fiu" or table.ndim < 2 or table.shape[-1] != table.ndim - 1 or not table.size:
        got = f"shape {table.shape}" if table.dtype.kind in "fiu" else shown(payoff)[:60]
        raise ConfigError(f"payoff must be numbers in the shape (n_1, ..., n_P, P) for P players, got {got}")
    wrong = np.argwhere(~(np.abs(table) <= MAX_FLOAT))
    if len(wrong):
        place = "".join(f"[{index}]" for index in wrong[0])
        got = f"{table[tuple(wrong[0])]:g} at {place}"
        raise ConfigError(f"payoff must be finite numbers of at most {MAX_FLOAT:.10g} in size, got {got}")
    return table.astype(np.float32)


def _tuples(nested: Any) -> Any:
    return tuple(map(_tuples, nested)) if isinstance(nested, list) else nested


def is_symmetric(table: np.ndarray) -> bool:
    """Whether the players of a table (n_1, ..., n_P, P) can change seats: neighbours that swap swap their payoffs."""
    players = table.shape[-1]
    for seat in range(players - 1):
        order = list(range(players))
        order[seat], order[seat + 1] = seat + 1, seat
        if not np.array_equal(np.swapaxes(table, seat, seat + 1)[..., order], table):
            return False
    return True


def build(config: Config) -> Definition:
    """Put the environment together."""
    table = config.table()
    *counts, players = table.shape
    agents = tuple(f"player_{index}" for index in range(players))
    together, symmetric = {"player": tuple(range(players))}, is_symmetric(table)
    return Definition(
        rules=matrix_game.rules(players),
        params={"num_steps": config.num_steps},
        state={"payoff": (int(np.prod(counts)), players), "last": integers((players,), -1, max(counts) - 1)},
        initial={"payoff": table.reshape(-1, players)},
        agents=agents,
        groups=together if symmetric else {agent: (row,) for row, agent in enumerate(agents)},
        roles={agent: (agent,) for agent in agents},
        symmetric=symmetric,
        zero_sum=not bool(table.sum(-1).any()),
        observation_spaces={agent: box(sum(counts) + 1, 0.0, 1.0) for agent in agents},
        action_spaces={agent: spaces.Discrete(count) for agent, count in zip(agents, counts, strict=True)},
        max_steps=config.num_steps,
        limit_terminates=True,
        fixed_params=("num_steps",),
        draw=draw,
        render_fps=2,
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: the table as a heat map, a stripe a player; the last joint action is framed."""
    from gpu_envs.games.drawing import heat_map, nowhere
    from gpu_envs.rendering import Scene

    counts = tuple(core.num_choices[:, 0].tolist())
    shapes, bounds = heat_map(core.world_state["payoff"][envs], counts, core.world_state["last"][envs])
    return Scene(shapes, bounds, border=None, agents=nowhere(core.num_agents, envs))
