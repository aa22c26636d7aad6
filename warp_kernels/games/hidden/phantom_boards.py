"""Board games in which players do not see each other's marks: base of PhantomTicTacToe and DarkHex.

A player knows a cell that it has tried. On a free cell the try places its mark and passes the turn. On an occupied cell
it shows the opponent's mark; the player then tries again (classical) or loses its turn (abrupt).
"""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games import boards
from warp_kernels.games.hidden import observations
from warp_kernels.rules import Rules, world_phase

MOST_CELLS = 64
"""Largest number of cells: the marks of a player are the bits of one number."""


@wp.struct
class Params:
    """Environment parameters."""

    win_reward: float  # reward of the winner; the loser gets the negative


@wp.struct
class State:
    """State of E worlds, two players, N cells row by row."""

    marks: wp.array2d(dtype=wp.uint64)  # (E, 2) bit n: the player has marked cell n
    known: wp.array2d(dtype=wp.uint64)  # (E, 2) bit n: the player has tried cell n
    tries: wp.array2d(dtype=int)  # (E, 2 N - 1) player times N plus the cell, in order; those not taken are 0
    taken: wp.array(dtype=int)  # (E,) tries so far
    mover: wp.array(dtype=int)  # (E,) player to act; -1 after the end
    winner: wp.array(dtype=int)  # (E,) winner; -1: none


def longest(cells: int) -> int:
    """Return the largest number of tries: the last free cell ends the game before both players have tried it."""
    return 2 * cells - 1


def observation_width(cells: int, planes: int, reveal_turns: bool) -> int:
    """Return the width of an observation: the known cells, then the tries in order."""
    return cells * planes + (longest(cells) * (cells + 2) if reveal_turns else cells * cells)


def game(key: str, cells: int, planes: int, reveal_turns: bool, abrupt: bool, has_won: Any, column_of: Any) -> Rules:
    """Build the rules of such a game.

    Args:
        key: Name of the specialization.
        cells: Number of cells N.
        planes: Number of states of a cell in an observation.
        reveal_turns: True if observations contain the number of tries of the opponent.
        abrupt: True if a try of an occupied cell ends the turn.
        has_won: ``has_won(marks, player)`` returns whether the player's marks win.
        column_of: ``column_of(cell, owner, wins)`` returns the column of an observation for a cell: the owner of its
            mark, -1 for none or unknown, and whether it is the mark that won.
    """
    width = observation_width(cells, planes, reveal_turns)
    max_tries, all_cells = longest(cells), wp.constant(wp.uint64(2**cells - 1))

    @wp.func(inline=True)
    def attempt(params: Params, state: State, io: IO, env: int):
        """Try a cell; write all fields, rewards and terminated."""
        mover = wp.max(state.mover[env], 0)
        cell = int(io.choice[env, mover, 0])
        num_tries = wp.min(state.taken[env], max_tries - 1)  # bounded, as it indexes
        bit = boards.bit(cell)
        other_marks = state.marks[env, 1 - mover]
        marks = state.marks[env, mover]
        free = ((marks | other_marks) & bit) == wp.uint64(0)
        state.known[env, mover] = state.known[env, mover] | bit
        state.tries[env, num_tries] = mover * cells + cell
        state.taken[env] = num_tries + 1
        if free:
            marks = marks | bit
            state.marks[env, mover] = marks
        if free or abrupt:
            state.mover[env] = 1 - mover
        won = free and has_won(marks, mover)
        if won or (marks | other_marks) == all_cells:
            state.mover[env] = -1
            state.winner[env] = wp.where(won, mover, -1)
            for agent in range(2):
                io.terminated[env, agent] = True
                if won:
                    io.reward[env, agent] = wp.where(agent == mover, params.win_reward, -params.win_reward)

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark the cells that the agent has not tried."""
        cells_tried = state.known[env, agent]
        io.to_move[env, agent] = state.mover[env] == agent
        cell = int(0)
        while cell < cells:
            io.action_mask[env, agent, cell] = boards.at(cells_tried, cell) == 0
            cell += 1

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the known cells, then own tries in order; with the number of turns, also unknown ones."""
        observations.clear(io, env, agent, width)
        cells_tried = state.known[env, agent]
        second = state.marks[env, 1]
        num_tries = state.taken[env]
        winning = int(-1)  # cell of the mark that won; the loser does not see it
        if state.winner[env] == agent and num_tries > 0:
            winning = state.tries[env, num_tries - 1] % cells
        cell = int(0)
        while cell < cells:
            owner = wp.where(boards.at(cells_tried, cell) == 1, boards.at(second, cell), -1)
            observations.mark(io, env, agent, column_of(cell, owner, cell == winning))
            cell += 1
        column = int(cells * planes)
        index = int(0)
        while index < num_tries:
            player = state.tries[env, index] // cells
            tried = state.tries[env, index] % cells
            if wp.static(reveal_turns):
                io.obs[env, agent, column] = float(player)
                observations.mark(io, env, agent, column + 1 + wp.where(player == agent, tried, cells))
                column += cells + 2
            elif player == agent and column < width:
                observations.mark(io, env, agent, column + tried)
                column += cells
            index += 1

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        return params.win_reward

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Clear the board; player 0 starts."""
        for player in range(2):
            state.marks[env, player] = wp.uint64(0)
            state.known[env, player] = wp.uint64(0)
        index = int(0)
        while index < max_tries:
            state.tries[env, index] = 0
            index += 1
        state.taken[env] = 0
        state.mover[env] = 0
        state.winner[env] = -1

    return Rules(
        key=key,
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                attempt,
                reads="marks known taken mover io.choice",
                writes="marks known tries taken mover winner io.reward io.terminated",
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        stake=stake,
        num_choices=cells,
        max_unroll=6,
    )
