"""MarkovSoccer: two players on a grid with a ball, whose moves are resolved in random order. OpenSpiel 2.0.2's.

Cells are numbered row by row. Player 0 (A) scores over the right edge, player 1 (B) over the left edge, in the rows 1
and 2. A player that runs into the other one loses the ball to it. Source: Littman 1994, "Markov games as a framework
for multi-agent reinforcement learning".
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games.hidden import observations
from warp_kernels.rules import Rules, world_phase

PLAYERS = 2
"""Number of players."""
ACTIONS = 5
"""Number of actions: up, down, left, right, stand."""
PLANES = 6
"""Planes of an observation: a, A (with the ball), b, B, ball alone, empty."""


@dataclass(frozen=True)
class Sizes:
    """Grid of the game."""

    rows: int  # number of rows
    columns: int  # number of columns
    starts: tuple[int, int]  # first cells of the players
    balls: tuple[int, ...]  # possible first cells of the ball


@wp.struct
class Params:
    """Environment parameters."""

    win_reward: float  # reward of the player that scores; the other one gets the negative
    horizon: int  # steps after which the game is a draw, one more than it has moves [steps]


@wp.struct
class State:
    """State of E worlds, two players."""

    cell: wp.array2d(dtype=int)  # (E, 2) cell of each player
    holder: wp.array(dtype=int)  # (E,) player with the ball; -1: none
    ball: wp.array(dtype=int)  # (E,) cell of the ball before a player has it
    scorer: wp.array(dtype=int)  # (E,) player that has scored and left the field; -1: none
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random orders of this episode
    first: wp.array(dtype=int)  # (E,) player whose move was resolved first in the last step


@cache
def rules(s: Sizes) -> Rules:
    """Build the rules."""
    rows, columns, cells = s.rows, s.columns, s.rows * s.columns
    start_a, start_b = s.starts
    balls = wp.constant(wp.types.vector(len(s.balls), int)(*s.balls))
    num_balls, width = len(s.balls), PLANES * s.rows * s.columns

    @wp.func
    def resolve(state: State, env: int, player: int, move: int):
        """Move one player, who may take the ball, lose it or score."""
        cell = state.cell[env, player]
        row = cell // columns + int(move == 1) - int(move == 0)
        column = cell % columns + int(move == 3) - int(move == 2)
        other = 1 - player
        if row < 0 or row >= rows or column < 0 or column >= columns:
            goal = wp.where(player == 0, columns, -1)
            if state.holder[env] == player and column == goal and row >= 1 and row <= 2:
                state.scorer[env] = player
        elif move < 4:
            to = row * columns + column
            if to == state.cell[env, other] and state.scorer[env] != other:
                if state.holder[env] == player:
                    state.holder[env] = other
            else:
                state.cell[env, player] = to
                if state.holder[env] < 0 and to == state.ball[env]:
                    state.holder[env] = player

    @wp.func(inline=True)
    def play(params: Params, state: State, io: IO, env: int):
        """Resolve both moves in random order; write all fields, rewards and terminated."""
        rng = philox.Stream()
        rng.seed = state.key[env]
        rng.step = wp.uint32(io.step[env])
        first = philox.below(philox.bits(rng, 0, philox.STEP, 0)[0], PLAYERS)
        state.first[env] = first
        resolve(state, env, first, int(io.choice[env, first, 0]))
        resolve(state, env, 1 - first, int(io.choice[env, 1 - first, 0]))
        late = io.step[env] + 1 >= params.horizon  # placing the ball counts as a move
        scorer = state.scorer[env]
        if late or scorer >= 0:
            for player in range(PLAYERS):
                io.terminated[env, player] = True
                if not late:
                    io.reward[env, player] = wp.where(player == scorer, params.win_reward, -params.win_reward)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the piece in every cell, plane by plane."""
        observations.clear(io, env, agent, width)
        holder = state.holder[env]
        scorer = state.scorer[env]
        cell = int(0)
        while cell < cells:
            plane = int(5)
            if holder < 0 and cell == state.ball[env]:
                plane = 4
            for player in range(PLAYERS):
                if cell == state.cell[env, player] and player != scorer:
                    plane = 2 * player + int(player == holder)
            observations.mark(io, env, agent, plane * cells + cell)
            cell += 1

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Put the players on their cells and the ball on one of its cells."""
        state.cell[env, 0] = start_a
        state.cell[env, 1] = start_b
        word = philox.bits(rng, 0, philox.RESET, 0)
        state.ball[env] = balls[philox.below(word[0], num_balls)]
        state.key[env] = (wp.uint64(word[1]) << wp.uint64(32)) | wp.uint64(word[2])
        state.holder[env] = -1
        state.scorer[env] = -1
        state.first[env] = 0

    return Rules(
        key=f"markov_soccer {s}",
        params=Params,
        state=State,
        num_agents=PLAYERS,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                play,
                reads="cell holder ball scorer key io.choice io.step",
                writes="cell holder scorer first io.reward io.terminated",
            ),
        ),
        observe=observe,
        reset=reset,
        num_choices=ACTIONS,
        max_unroll=6,
    )
