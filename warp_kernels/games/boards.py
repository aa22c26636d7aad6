"""Board games in which two players place marks in turn and a line wins: base of ConnectFour and TicTacToe.

A player's marks are bits of one number: bit ``column * (rows + 1) + row``. The bit above each column stays empty, so
that shifted lines do not cross the edge of the board.
"""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase


@wp.func
def bit(index: int) -> wp.uint64:
    """Return the number with only this bit set."""
    return wp.uint64(1) << wp.uint64(index)


@wp.func
def at(bits: wp.uint64, index: int) -> int:
    """Return a bit, 0 or 1."""
    return int((bits >> wp.uint64(index)) & wp.uint64(1))


def line_finder(rows: int, length: int) -> Any:
    """Build the function that finds a line of this length: vertical, horizontal or diagonal."""
    upward, down_right, right, up_right = (wp.constant(wp.uint64(step)) for step in (1, rows, rows + 1, rows + 2))
    further = length - 1  # Warp unrolls loops up to a name, not up to an expression

    @wp.func
    def along(bits: wp.uint64, step: wp.uint64) -> wp.uint64:
        """Return the bits at which a line in one direction starts."""
        run = bits
        for _mark in range(further):
            run = run & (run >> step)
        return run

    @wp.func
    def has_line(bits: wp.uint64) -> bool:
        lines = along(bits, upward) | along(bits, down_right) | along(bits, right) | along(bits, up_right)
        return lines != wp.uint64(0)

    return has_line


def game(key: str, params: type, state: type, sizes: tuple[int, int, int, int], place_mark: Any, is_free: Any) -> Rules:
    """Build the rules of such a game.

    Args:
        key: Name of the specialization.
        params: Warp struct with ``win_reward``.
        state: Warp struct with ``marks`` (E, 2) uint64 and ``mover`` (E,).
        sizes: Rows, columns, length of a winning line, number of actions.
        place_mark: ``place_mark(filled, choice)`` returns the bit of the new mark for an action on this board.
        is_free: ``is_free(filled, choice)`` returns whether the action is legal.
    """
    Params, State = params, state
    rows, columns, length, num_choices = sizes
    cells = [column * (rows + 1) + row for column in range(columns) for row in range(rows)]
    all_cells = wp.constant(wp.uint64(sum(1 << cell for cell in cells)))
    has_line = line_finder(rows, length)

    @wp.func(inline=True)
    def put(params: Params, state: State, io: IO, env: int):
        """Place the mark of the player to act; write marks, mover, rewards and terminated."""
        mover = state.mover[env]
        other_marks = state.marks[env, 1 - mover]
        marks = state.marks[env, mover]
        marks = marks | place_mark(marks | other_marks, int(io.choice[env, mover, 0]))
        state.marks[env, mover] = marks
        state.mover[env] = 1 - mover
        won = has_line(marks)
        if won or (marks | other_marks) == all_cells:
            state.mover[env] = -1
            for agent in range(2):
                io.terminated[env, agent] = True
                if won:
                    io.reward[env, agent] = wp.where(agent == mover, params.win_reward, -params.win_reward)

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the legal actions of the player to act; the framework masks the opponent."""
        moves = state.mover[env] == agent
        io.to_move[env, agent] = moves
        if moves:
            filled = state.marks[env, 0] | state.marks[env, 1]
            for choice in range(num_choices):
                io.action_mask[env, agent, choice] = is_free(filled, choice)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own marks, then the opponent's, row by row; then whether it is the agent's turn."""
        marks = state.marks[env, agent]
        other_marks = state.marks[env, 1 - agent]
        for row in range(rows):
            for column in range(columns):
                cell = row * columns + column
                index = column * (rows + 1) + row
                io.obs[env, agent, cell] = float(at(marks, index))
                io.obs[env, agent, rows * columns + cell] = float(at(other_marks, index))
        io.obs[env, agent, 2 * rows * columns] = float(state.mover[env] == agent)

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        return params.win_reward

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Clear the board; player 0 starts."""
        state.marks[env, 0] = wp.uint64(0)
        state.marks[env, 1] = wp.uint64(0)
        state.mover[env] = 0

    return Rules(
        key=key,
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(world_phase(put, reads="marks mover io.choice", writes="marks mover io.reward io.terminated"),),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        stake=stake,
        num_choices=num_choices,
        max_unroll=6,
    )
