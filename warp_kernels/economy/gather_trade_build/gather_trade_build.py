"""Gather, trade, build: the world of wood and stone of ai-economist 1.7.1, with taxes on income.

The components of a step follow each other as in the original: Build, ContinuousDoubleAuction, Gather and
PeriodicBracketTax, then wood and stone grow. Agents build and trade in the order of their numbers, which changes no
result, and gather in a random order.
"""

from functools import cache

import warp as wp

from warp_kernels.economy.gather_trade_build.auction import auction
from warp_kernels.economy.gather_trade_build.bracket_taxes import bracket_taxes
from warp_kernels.economy.gather_trade_build.economy_types import Params, Sizes, State, relayout
from warp_kernels.economy.gather_trade_build.gathering import gathering
from warp_kernels.economy.gather_trade_build.observation import observation
from warp_kernels.economy.gather_trade_build.start import start
from warp_kernels.economy.gather_trade_build.welfare import welfare
from warp_kernels.episode import IO, keyed_stream
from warp_kernels.philox import Stream
from warp_kernels.rules import Rules, world_phase

BUILD: int = wp.constant(1)
"""Action that builds a house; 0 does nothing."""
FIRST_ORDER: int = wp.constant(2)
"""First bid for stone; bids for stone, asks for stone, bids for wood and asks for wood follow each other by price."""
NUM_MOVES = 4
"""Number of moves, the last actions."""
SCRATCH = ("turn", "bin", "gain", "noise", "zone")
"""Fields of State that carry nothing to the next step."""


@cache
def rules(sizes: Sizes) -> Rules:
    """Build the rules."""
    n, agents, num_prices = sizes.num_agents, sizes.agents, sizes.num_prices
    first_move = 2 + 4 * num_prices - 1  # move 1 is the action after this one
    multi_action = sizes.multi_action
    last_head = 5 if multi_action else 0
    fade, order, trade = auction(sizes)
    build, shuffle, gather, grow = gathering(sizes)
    start_rates, tax = bracket_taxes(sizes)
    update, report = welfare(sizes)
    reset = start(sizes, start_rates, update, report)
    observe, legal, global_state = observation(sizes)

    @wp.func
    def act(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, now: int):
        """Build, and make orders."""
        agent = int(0)
        while agent < n:
            state.tax[env, agent] = 0.0
            choice = int(io.choice[env, agent, 0])
            if choice == BUILD:
                build(params, state, env, agent)
            if wp.static(multi_action):
                book = int(0)
                while book < 4:
                    price = int(io.choice[env, agent, 1 + book]) - 1
                    if price >= 0:
                        order(params, state, env, agent, book * num_prices + price, now)
                    book += 1
            elif choice >= FIRST_ORDER and choice <= first_move:
                order(params, state, env, agent, choice - FIRST_ORDER, now)
            agent += 1

    @wp.func
    def move(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, rng: Stream):
        """Gather in a random order."""
        shuffle(state, env, rng)
        index = int(0)
        while index < n:
            mover = state.turn[env, index]
            direction = int(io.choice[env, mover, last_head])
            if wp.static(not multi_action):
                direction = wp.max(direction - first_move, 0)
            gather(params, state, env, mover, direction, rng)
            index += 1

    @wp.func(inline=True)
    def play(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int):
        """Run the components, let resources grow, and reward the gains in utility and social welfare."""
        rng = keyed_stream(io, env, state.key[env])
        now = io.step[env]
        state.fresh[env] = 0
        fade(state, env)
        act(params, state, io, env, now)
        trade(params, state, io, env, now)
        move(params, state, io, env, rng)
        tax(params, state, io, env, rng)
        grow(params, state, env, rng)
        gain = update(params, state, env)
        agent = int(0)
        while agent < agents:  # the planner is the last one
            io.reward[env, agent] = float(state.gain[env, agent])
            agent += 1
        if gain > wp.float64(0.0):
            state.good_steps[env] = state.good_steps[env] + 1
        if io.max_steps > 0 and now >= io.max_steps:
            state.finished[env] = 1
        report(state, env)

    return Rules(
        key=f"gather_trade_build {sizes}",
        params=Params,
        state=State,
        num_agents=sizes.agents,
        action_size=max(sizes.num_brackets * sizes.has_planner, 1 + last_head),
        continuous=False,
        phases=(
            world_phase(
                play,
                reads=(
                    "average_rates bin bonus born bought cell coin completions cutoff cycle elasticity gain "
                    "gathered good_steps goods houses incomes key labor last_coin last_income market_rate "
                    "num_orders num_samples open_orders order payment position price_history rates sample sold source "
                    "table turn value io.choice io.step"
                ),
                writes=(
                    "average_rates bin born bought cell coin cycle effort elasticity equality finished fresh gain "
                    "gathered good_steps goods houses incomes labor last_coin last_income last_rate market_rate "
                    "num_orders num_samples open_orders order position price_curve price_history productivity rates "
                    "sample sold tax turn value wealth welfare io.reward"
                ),
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        relayout=relayout(sizes),
        global_state=global_state,
        masked=True,
        illegal_noop=True,
        max_unroll=1,
        by_reference=True,
    )
