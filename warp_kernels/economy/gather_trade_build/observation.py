"""Observations of agents and planner, legal actions and the global state of GatherTradeBuild-v0.

Flat entries have the order of the original, which sorts them by name.
"""

from typing import Any

import warp as wp

from warp_kernels.economy.gather_trade_build.bracket_taxes import highest_rate_of, marginal_rate_of
from warp_kernels.economy.gather_trade_build.economy_types import (
    TERRAIN,
    VISITOR,
    WATER,
    WOOD,
    Params,
    Sizes,
    State,
    num_layers,
    owner_of,
    planner_width,
    units_of,
    view_of,
)
from warp_kernels.economy.gather_trade_build.gathering import may_build_of, may_enter_of
from warp_kernels.episode import IO


def observation(sizes: Sizes) -> tuple[Any, Any, Any]:
    """Build the observation, the legal actions, and the global state."""
    n, height, width, sight = sizes.num_agents, sizes.height, sizes.width, sizes.sight
    num_prices, capacity, num_brackets = sizes.num_prices, sizes.book, sizes.num_brackets
    side, layers, view_cells = view_of(sizes)
    sees_all, has_planner, planner_map = sight < 0, sizes.has_planner, sizes.planner_map
    cells, has_saez = height * width, sizes.tax_model == "saez"
    no_op = int(sizes.multi_action)  # columns of a choice that does nothing, before the columns of an order
    map_layers, sources = num_layers(sizes), 3 + sizes.has_water  # sources: the first layer of them
    flat_at = (layers + 2) * view_cells
    top_price = wp.constant(wp.float64(num_prices - 1))
    num_choices, private = 1 + sizes.num_rates, 4 + 4 * num_prices
    planner_part = planner_width(sizes, True)
    neighbor, may_build, marginal_rate = may_enter_of(sizes), may_build_of(sizes), marginal_rate_of(sizes)

    @wp.func(inline=True)
    def clear(row: wp.array(dtype=float), first: int, count: int):
        index = first
        while index < first + count:
            row[index] = 0.0
            index += 1

    @wp.func(inline=True)
    def name_of(number: int, agent: int):
        """Return how an agent appears: 1 for the observer, 2 and more for other agents, 0 for no agent."""
        return wp.where(number == 0, 0.0, wp.where(number == agent + 1, 1.0, float(number + 1)))

    @wp.func(inline=True)
    def put_cell(row: wp.array(dtype=float), at: int, stride: int, owners: int, cell: int, agent: int):
        """Write the layers of a cell that are not 0."""
        terrain = cell & TERRAIN
        if terrain == WATER:
            row[at + 3 * stride] = 1.0
        elif terrain != 0:
            wood = wp.where(terrain == WOOD, stride, 0)
            row[at + sources * stride + wood] = 1.0
            row[at + wood] = float(units_of(cell))
        owner = owner_of(cell)
        if owner > 0:
            row[at + 2 * stride] = 1.0
            row[at + owners] = name_of(owner, agent)
        if cell >= VISITOR:
            row[at + owners + stride] = name_of(cell // VISITOR, agent)

    @wp.func(inline=True)
    def put_world(row: wp.array(dtype=float), state: wp.ref[State], env: int, agent: int):
        """Write the map of the whole world; the observer -2 is none of the agents."""
        clear(row, 0, (map_layers + 2) * cells)
        index = int(0)
        while index < cells:
            cell = state.cell[env, index]
            if cell != 0:
                put_cell(row, index, cells, map_layers * cells, cell, agent)
            index += 1

    @wp.func(inline=True)
    def put_window(row: wp.array(dtype=float), state: wp.ref[State], env: int, agent: int):
        """Write the cells around the agent; cells outside of the world are 0 in all layers."""
        clear(row, 0, (layers + 2) * view_cells)
        position = state.position[env, agent]
        top = position // width - sight
        left = position - position // width * width - sight
        y = wp.max(-top, 0)
        while y < wp.min(side, height - top):
            x = wp.max(-left, 0)
            while x < wp.min(side, width - left):
                at = y * side + x
                cell = state.cell[env, (top + y) * width + left + x]
                row[(layers - 1) * view_cells + at] = 1.0
                if cell != 0:
                    put_cell(row, at, view_cells, layers * view_cells, cell, agent)
                x += 1
            y += 1

    @wp.func(inline=True)
    def put_orders(
        row: wp.array(dtype=float), state: wp.ref[State], env: int, agent: int, other_column: int, own_column: int
    ):
        """Count the open orders by price: asks, then bids, each for stone and wood; the agent's orders apart."""
        book = int(0)
        while book < 4:
            first = wp.where((book & 1) == 1, 0, 2 * num_prices) + (book >> 1) * num_prices
            index = book * capacity
            end = index + state.num_orders[env, book]
            while index < end:
                order = state.order[env, index]
                at = first + wp.min(order >> 8, num_prices - 1)
                at += wp.where((order & 255) == agent, own_column, other_column)
                row[at] = row[at] + 1.0
                index += 1
            book += 1

    @wp.func(inline=True)
    def put_own_orders(row: wp.array(dtype=float), state: wp.ref[State], env: int, agent: int, column: int):
        """Count the open orders of an agent by price."""
        book = int(0)
        while book < 4:
            first = column + wp.where((book & 1) == 1, 0, 2 * num_prices) + (book >> 1) * num_prices
            index = book * capacity
            end = index + state.num_orders[env, book]
            while index < end:
                order = state.order[env, index]
                at = first + wp.min(order >> 8, num_prices - 1)
                row[at] = row[at] + wp.where((order & 255) == agent, 1.0, 0.0)
                index += 1
            book += 1

    @wp.func(inline=True)
    def put_history(params: Params, row: wp.array(dtype=float), state: wp.ref[State], env: int, at: int):
        index = int(0)
        while index < 2 * num_prices:
            row[at + index] = float(state.price_history[env, index]) * params.inv_scale
            index += 1

    @wp.func(inline=True)
    def put_taxes(params: Params, row: wp.array(dtype=float), state: wp.ref[State], env: int, first: int):
        """Write rates, first day, tax day and last incomes; return the place of the next entry."""
        at = first
        bracket = int(0)
        while bracket < num_brackets:
            row[at] = float(state.rates[env, bracket])
            at += 1
            bracket += 1
        row[at] = wp.where(state.cycle[env] == 1, 1.0, 0.0)
        row[at + 1] = wp.where(state.cycle[env] >= params.period, 1.0, 0.0)
        at += 2
        agent = int(0)
        while agent < n:
            row[at] = state.incomes[env, agent] / float(params.period)
            at += 1
            agent += 1
        return at

    @wp.func(inline=True)
    def put_clock(params: Params, row: wp.array(dtype=float), state: wp.ref[State], io: wp.ref[IO], env: int, at: int):
        """Write the share of the tax period and of the episode."""
        row[at] = float(state.cycle[env]) / float(params.period)
        whole_time = wp.where(params.inv_scale < 1.0, float(wp.max(io.max_steps, 1)), 1.0)
        row[at + 1] = float(io.step[env]) / whole_time

    @wp.func(inline=True)
    def put_inventory(params: Params, row: wp.array(dtype=float), state: wp.ref[State], env: int, agent: int, at: int):
        row[at] = float(state.coin[env, agent]) * params.inv_scale
        row[at + 1] = float(state.goods[env, agent]) * params.inv_scale
        row[at + 2] = float(state.goods[env, n + agent]) * params.inv_scale

    @wp.func(inline=True)
    def put_place(row: wp.array(dtype=float), state: wp.ref[State], env: int, agent: int, at: int):
        position = state.position[env, agent]
        row[at] = float(position - position // width * width) / float(width)
        row[at + 1] = float(position // width) / float(height)

    @wp.func(inline=True)
    def rate_of_next_coin(state: wp.ref[State], env: int, agent: int):
        income = state.coin[env, agent] + state.coin[env, n + agent] - state.last_coin[env, agent]
        rate = marginal_rate(state, env, income)
        if wp.static(has_saez):
            if state.fresh[env] == 1:  # the original starts episodes at its mean rates, without showing them
                rate = state.average_rates[env, 0]
        return float(rate)

    @wp.func
    def put_agent(
        params: Params, row: wp.array(dtype=float), state: wp.ref[State], io: wp.ref[IO], env: int, agent: int
    ):
        """Write an agent's observation."""
        if wp.static(sees_all):
            put_world(row, state, env, agent)
        else:
            put_window(row, state, env, agent)
        row[flat_at] = float(state.payment[env, agent]) / params.payment
        row[flat_at + 1] = state.skill[env, agent]
        other_column = flat_at + 2
        own_column = other_column + 4 * num_prices + 2
        clear(row, other_column, 8 * num_prices + 2)
        put_orders(row, state, env, agent, other_column, own_column)
        row[own_column - 2] = state.market_rate[env, 0]
        row[own_column - 1] = state.market_rate[env, 1]
        put_history(params, row, state, env, own_column + 4 * num_prices)
        at = own_column + 6 * num_prices
        row[at] = state.bonus[env, agent]
        at = put_taxes(params, row, state, env, at + 1)
        row[at] = rate_of_next_coin(state, env, agent)
        put_clock(params, row, state, io, env, at + 1)
        put_inventory(params, row, state, env, agent, at + 3)
        if wp.static(not sees_all):
            put_place(row, state, env, agent, at + 6)

    def planner_of(with_map: bool) -> Any:
        first = (map_layers + 2) * cells if with_map else 0

        @wp.func
        def put_planner(params: Params, row: wp.array(dtype=float), state: wp.ref[State], io: wp.ref[IO], env: int):
            """Write the planner's observation."""
            if wp.static(with_map):
                put_world(row, state, env, -2)
            clear(row, first, 4 * num_prices)
            put_orders(row, state, env, -2, first, first)
            at = first + 4 * num_prices
            row[at] = state.market_rate[env, 0]
            row[at + 1] = state.market_rate[env, 1]
            put_history(params, row, state, env, at + 2)
            at = put_taxes(params, row, state, env, at + 2 + 2 * num_prices)
            put_clock(params, row, state, io, env, at)
            clear(row, at + 2, 3)  # the planner owns nothing
            at += 5
            agent = int(0)
            while agent < n:
                row[at] = rate_of_next_coin(state, env, agent)
                row[at + 1] = float(state.last_income[env, agent]) / float(params.period)
                row[at + 2] = float(state.last_rate[env, agent])
                at += 3
                if wp.static(not sees_all):
                    put_inventory(params, row, state, env, agent, at)
                    at += 3
                    if wp.static(with_map):
                        put_place(row, state, env, agent, at)
                        at += 2
                agent += 1

        return put_planner

    put_planner, put_everything = planner_of(planner_map), planner_of(True)

    @wp.func(inline=True)
    def observe(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, agent: int):
        """Write the observation of an agent, or of the planner, which is the last one."""
        row = io.obs[env, agent]
        if wp.static(has_planner):
            if agent == n:
                put_planner(params, row, state, io, env)
            else:
                put_agent(params, row, state, io, env, agent)
        else:
            put_agent(params, row, state, io, env, agent)

    @wp.func
    def allow_agent(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, agent: int):
        """Allow doing nothing, and what the agent can pay for, sell, build and reach."""
        row = io.action_mask[env, agent]
        row[0] = True
        row[1] = may_build(state, env, agent)
        payable = int(wp.min(state.coin[env, agent], top_price)) + 1
        at = int(2)
        resource = int(0)
        while resource < 2:
            counter = resource * n + agent
            free = state.open_orders[env, counter] < params.max_num_orders
            bids = wp.where(free, payable, 0)
            sells = free and state.goods[env, counter] > 0
            if wp.static(no_op == 1):
                row[at] = True
                row[at + 1 + num_prices] = True
            price = int(0)
            while price < num_prices:
                row[at + no_op + price] = price < bids
                row[at + 2 * no_op + num_prices + price] = sells
                price += 1
            at += 2 * (no_op + num_prices)
            resource += 1
        if wp.static(no_op == 1):
            row[at] = True
            at += 1
        direction = int(1)
        while direction <= 4:
            row[at] = neighbor(state, env, agent, direction) >= 0
            at += 1
            direction += 1

    @wp.func
    def allow_planner(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int):
        """Allow keeping a rate, and on the first day of a period all rates up to the highest one."""
        row = io.action_mask[env, n]
        first_day = state.cycle[env] == 1
        # The lowest rate shows whether the row is a first day's; at the start of an episode nothing is known.
        if state.fresh[env] == 1 or row[1] != first_day:
            highest = highest_rate_of(params, state.completions[env])
            at = int(0)
            bracket = int(0)
            while bracket < num_brackets:
                row[at] = True
                choice = int(1)
                while choice < num_choices:
                    low = params.annealing == 0 or state.table[0, choice - 1] <= highest
                    row[at + choice] = first_day and low
                    choice += 1
                at += num_choices
                bracket += 1

    @wp.func(inline=True)
    def legal(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, agent: int):
        if wp.static(has_planner):
            if agent == n:
                allow_planner(params, state, io, env)
            else:
                allow_agent(params, state, io, env, agent)
        else:
            allow_agent(params, state, io, env, agent)

    @wp.func(inline=True)
    def global_state(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, agent: int):
        """Write what a planner with a map observes, then skills, labor and orders of every agent."""
        row = io.global_state[env]
        if agent == 0:
            put_everything(params, row, state, io, env)
        if agent < n:
            at = planner_part + agent * private
            row[at] = float(state.payment[env, agent]) / params.payment
            row[at + 1] = state.skill[env, agent]
            row[at + 2] = state.bonus[env, agent]
            row[at + 3] = float(state.labor[env, agent]) * params.inv_scale
            clear(row, at + 4, 4 * num_prices)
            put_own_orders(row, state, env, agent, at + 4)

    return observe, legal, global_state
