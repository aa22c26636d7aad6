"""CoinGame: a red and a blue player collect coins of both colors on a torus of 3 x 3 cells, as in JaxMARL 0.2.0.

The game comes from Lerer and Peysakhovich 2017, "Maintaining cooperation in complex social dilemmas using deep
reinforcement learning". Player and coin 0 are red, player and coin 1 are blue. An episode has several inner episodes.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, episode_key, keyed_stream
from warp_kernels.rules import Rules, world_phase

SIDE: int = wp.constant(3)
"""Number of rows and of columns."""
CELLS: int = wp.constant(9)
"""Number of cells."""
NUM_ACTIONS = 5
"""Number of actions: right, left, up, down, stay."""
OBSERVATION = 36
"""Width of an observation: four layers of cells."""
CONVENTIONS = 9
"""Number of pairs of conventions."""


@wp.struct
class Params:
    """Environment parameters."""

    red_own_reward: float  # reward of red for a red coin
    red_other_reward: float  # reward of red for a blue coin
    red_penalty: float  # reward of red if blue takes a red coin
    blue_other_reward: float  # reward of blue for a red coin
    blue_own_reward: float  # reward of blue for a blue coin
    blue_penalty: float  # reward of blue if red takes a blue coin
    shared_rewards: int  # 1: both players get the sum of both rewards
    num_inner_steps: int  # length of an inner episode [steps]


@wp.struct
class State:
    """State of E worlds, two players, two coins, J inner episodes."""

    player: wp.array2d(dtype=wp.vec2i)  # (E, 2) cells: row, column
    coin: wp.array2d(dtype=wp.vec2i)  # (E, 2) cells: row, column
    own_coins: wp.array3d(dtype=int)  # (E, 2, J) coins of the player's color that it took, per inner episode
    other_coins: wp.array3d(dtype=int)  # (E, 2, J) coins of the other color that a player took, per inner episode
    own_total: wp.array2d(dtype=int)  # (E, 2) coins of the player's color that it took in the episode
    other_total: wp.array2d(dtype=int)  # (E, 2) coins of the other color that a player took in the episode
    convention: wp.array2d(dtype=int)  # (E, 2) last coin taken in the inner episode: 0 none, 1 own, 2 other color
    convention_steps: wp.array2d(dtype=int)  # (E, 9) steps that began with each pair of conventions
    convention_own: wp.array3d(dtype=int)  # (E, 2, 9) steps of these in which the player took a coin of its color
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode
    inner_done: wp.array2d(dtype=int)  # (E, 2) 1: an inner episode ended in the last step; equal for both players


@wp.func(inline=True)
def _pair(red: int, blue: int):
    """Return JaxMARL's index of a pair of conventions; its names are SS, CC, CD, DC, DD, SC, SD, CS, DS."""
    index = 2 * red + blue - 2  # CC, CD, DC, DD
    if red == 0:
        index = 4 + blue  # SC, SD
    elif blue == 0:
        index = wp.where(red == 2, 7, 8)
    return wp.where(red + blue == 0, 0, index)


@wp.func(inline=True)
def _moved(position: wp.vec2i, choice: int):
    """Return the cell of a player after its action; the torus has no border."""
    row = position[0] + wp.where(choice == 2, 1, 0) + wp.where(choice == 3, 2, 0)
    column = position[1] + wp.where(choice == 0, 1, 0) + wp.where(choice == 1, 2, 0)
    return wp.vec2i(row % SIDE, column % SIDE)


@wp.func(inline=True)
def _cell(word: wp.uint32):
    """Return a random cell."""
    index = philox.below(word, CELLS)
    return wp.vec2i(index // SIDE, index % SIDE)


@wp.func(inline=True)
def _same(cell: wp.vec2i, other: wp.vec2i):
    """Return whether two cells are equal."""
    return cell[0] == other[0] and cell[1] == other[1]


@cache
def rules(num_inner_episodes: int, egocentric: bool, channels_first: bool) -> Rules:
    """Build the rules.

    Args:
        num_inner_episodes: Number of inner episodes J.
        egocentric: Observe cells relative to the own one, which is in the middle.
        channels_first: Order observations by layer, then by cell, instead of by cell, then by layer.
    """

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Move both players, take coins, place new ones; write state and rewards. An inner episode may end."""
        red = _moved(state.player[env, 0], int(io.choice[env, 0, 0]))
        blue = _moved(state.player[env, 1], int(io.choice[env, 1, 0]))
        red_coin = state.coin[env, 0]
        blue_coin = state.coin[env, 1]
        red_red = wp.where(_same(red, red_coin), 1, 0)
        red_blue = wp.where(_same(red, blue_coin), 1, 0)
        blue_red = wp.where(_same(blue, red_coin), 1, 0)
        blue_blue = wp.where(_same(blue, blue_coin), 1, 0)
        inner = wp.min((io.step[env] - 1) // params.num_inner_steps, num_inner_episodes - 1)
        state.own_coins[env, 0, inner] = state.own_coins[env, 0, inner] + red_red
        state.other_coins[env, 0, inner] = state.other_coins[env, 0, inner] + red_blue
        state.own_coins[env, 1, inner] = state.own_coins[env, 1, inner] + blue_blue
        state.other_coins[env, 1, inner] = state.other_coins[env, 1, inner] + blue_red
        state.own_total[env, 0] = state.own_total[env, 0] + red_red
        state.other_total[env, 0] = state.other_total[env, 0] + red_blue
        state.own_total[env, 1] = state.own_total[env, 1] + blue_blue
        state.other_total[env, 1] = state.other_total[env, 1] + blue_red
        red_before = state.convention[env, 0]
        blue_before = state.convention[env, 1]
        pair = _pair(red_before, blue_before)
        state.convention_steps[env, pair] = state.convention_steps[env, pair] + 1
        state.convention_own[env, 0, pair] = state.convention_own[env, 0, pair] + red_red
        state.convention_own[env, 1, pair] = state.convention_own[env, 1, pair] + blue_blue
        rng = keyed_stream(io, env, state.key[env])
        word = philox.bits(rng, 0, philox.STEP, 0)
        if red_red + blue_red > 0:
            red_coin = _cell(word[0])
        if red_blue + blue_blue > 0:
            blue_coin = _cell(word[1])
        red_last = wp.where(red_blue == 1, 2, wp.where(red_red == 1, 1, red_before))
        blue_last = wp.where(blue_red == 1, 2, wp.where(blue_blue == 1, 1, blue_before))
        red_reward = float(red_red) * params.red_own_reward + float(red_blue) * params.red_other_reward
        blue_reward = float(blue_blue) * params.blue_own_reward + float(blue_red) * params.blue_other_reward
        red_reward += float(blue_red) * params.red_penalty
        blue_reward += float(red_blue) * params.blue_penalty
        done = io.step[env] % params.num_inner_steps == 0
        if done:
            start = philox.bits(rng, 0, philox.STEP, 1)
            red = _cell(start[0])
            blue = _cell(start[1])
            red_coin = _cell(start[2])
            blue_coin = _cell(start[3])
            red_last = int(0)
            blue_last = int(0)
            red_reward = float(0.0)
            blue_reward = float(0.0)
        state.player[env, 0] = red
        state.player[env, 1] = blue
        state.coin[env, 0] = red_coin
        state.coin[env, 1] = blue_coin
        state.convention[env, 0] = red_last
        state.convention[env, 1] = blue_last
        shared = params.shared_rewards == 1
        io.reward[env, 0] = wp.where(shared, red_reward + blue_reward, red_reward)
        io.reward[env, 1] = wp.where(shared, red_reward + blue_reward, blue_reward)
        for player in range(2):
            state.inner_done[env, player] = wp.where(done, 1, 0)

    @wp.func(inline=True)
    def show(io: IO, env: int, agent: int, layer: int, position: wp.vec2i, row: int, column: int):
        """Write one layer: a 1 in the cell of a thing, shifted by rows and columns."""
        cell = ((position[0] + row) % SIDE) * SIDE + (position[1] + column) % SIDE
        for index in range(CELLS):
            at = index * 4 + layer
            if wp.static(channels_first):
                at = layer * CELLS + index
            io.obs[env, agent, at] = wp.where(index == cell, 1.0, 0.0)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the layers of the own player, the other player, coins of the own color, coins of the other color."""
        position = state.player[env, agent]
        row = int(0)
        column = int(0)
        if wp.static(egocentric):
            row = 1 - position[0] + SIDE
            column = 1 - position[1] + SIDE
        show(io, env, agent, 0, position, row, column)
        show(io, env, agent, 1, state.player[env, 1 - agent], row, column)
        show(io, env, agent, 2, state.coin[env, agent], row, column)
        show(io, env, agent, 3, state.coin[env, 1 - agent], row, column)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place players and coins in random cells, and clear the counts."""
        start = philox.bits(rng, 0, philox.RESET, 0)
        state.player[env, 0] = _cell(start[0])
        state.player[env, 1] = _cell(start[1])
        state.coin[env, 0] = _cell(start[2])
        state.coin[env, 1] = _cell(start[3])
        state.key[env] = episode_key(rng)
        for player in range(2):
            state.convention[env, player] = 0
            state.inner_done[env, player] = 0
            state.own_total[env, player] = 0
            state.other_total[env, player] = 0
            for inner in range(num_inner_episodes):
                state.own_coins[env, player, inner] = 0
                state.other_coins[env, player, inner] = 0
        for pair in range(CONVENTIONS):
            state.convention_steps[env, pair] = 0
            for player in range(2):
                state.convention_own[env, player, pair] = 0

    return Rules(
        key=f"coin_game {num_inner_episodes} {egocentric} {channels_first}",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                act,
                reads=(
                    "player coin own_coins other_coins own_total other_total convention convention_steps "
                    "convention_own key io.choice io.step"
                ),
                writes=(
                    "player coin own_coins other_coins own_total other_total convention convention_steps "
                    "convention_own inner_done io.reward"
                ),
            ),
        ),
        observe=observe,
        reset=reset,
        num_choices=NUM_ACTIONS,
        max_unroll=2,
    )
