"""Component ContinuousDoubleAuction: bids and asks for single units of stone and wood.

A book is sorted: the best price first, then the oldest order, then the lowest agent. The original sorts its books
before every matching by price and age, and stably, which gives the same order.
"""

from typing import Any

import warp as wp

from warp_kernels.economy.gather_trade_build.economy_types import PRICE_POINTS, Params, Sizes, State
from warp_kernels.episode import IO

_DECAY = wp.constant(wp.float64(0.995))  # of past trades in the price history, per step


def auction(sizes: Sizes) -> tuple[Any, Any, Any]:
    """Build ``fade`` of past trades, ``order`` of an agent, and ``trade``, which matches and removes orders."""
    n, num_prices, capacity = sizes.num_agents, sizes.num_prices, sizes.book
    everyone = (1 << n) - 1

    @wp.func(inline=True)
    def insert(state: wp.ref[State], env: int, book: int, price: int, agent: int, now: int):
        """Put an order after all orders with an equal or better price."""
        first = book * capacity
        count = state.num_orders[env, book]
        at = first + wp.min(count, capacity - 1)  # restored states may have full books
        sign = wp.where((book & 1) == 0, 1, -1)  # bids: the highest price first
        while at > first and sign * (state.order[env, at - 1] >> 8) < sign * price:
            state.order[env, at] = state.order[env, at - 1]
            state.born[env, at] = state.born[env, at - 1]
            at -= 1
        state.order[env, at] = (price << 8) | agent
        state.born[env, at] = now
        state.num_orders[env, book] = wp.min(count + 1, capacity)

    @wp.func(inline=True)
    def take(state: wp.ref[State], env: int, book: int, index: int):
        """Remove an order from its book, and count it no more."""
        first = book * capacity
        count = state.num_orders[env, book] - 1
        agent = wp.min(state.order[env, first + index] & 255, n - 1)
        state.open_orders[env, (book >> 1) * n + agent] = state.open_orders[env, (book >> 1) * n + agent] - 1
        state.num_orders[env, book] = count
        at = first + index
        while at < first + count:
            state.order[env, at] = state.order[env, at + 1]
            state.born[env, at] = state.born[env, at + 1]
            at += 1

    @wp.func(inline=True)
    def submit(params: Params, state: wp.ref[State], env: int, agent: int, book: int, price: int, now: int):
        """Make an order and put its coin or its unit in escrow, if the agent has it and may order."""
        resource = book >> 1
        counter = resource * n + agent
        if state.open_orders[env, counter] < params.max_num_orders:
            amount = wp.float64(price)
            makes = bool(False)
            if (book & 1) == 0:
                if state.coin[env, agent] >= amount:
                    state.coin[env, agent] = state.coin[env, agent] - amount
                    state.coin[env, n + agent] = state.coin[env, n + agent] + amount
                    makes = True
            elif state.goods[env, counter] > 0:
                state.goods[env, counter] = state.goods[env, counter] - 1
                state.goods[env, 2 * n + counter] = state.goods[env, 2 * n + counter] + 1
                makes = True
            if makes:
                state.open_orders[env, counter] = state.open_orders[env, counter] + 1
                state.labor[env, agent] = state.labor[env, agent] + wp.float64(params.order_labor)
                insert(state, env, book, price, agent, now)

    @wp.func(inline=True)
    def exchange(state: wp.ref[State], env: int, resource: int, bid: int, ask: int):
        """Trade a unit at the price of the older order; if both have the same age, at the price of the ask."""
        bids = 2 * resource * capacity + bid
        asks = (2 * resource + 1) * capacity + ask
        buyer = wp.min(state.order[env, bids] & 255, n - 1)
        seller = wp.min(state.order[env, asks] & 255, n - 1)
        offer = state.order[env, bids] >> 8
        price = wp.where(state.born[env, bids] >= state.born[env, asks], state.order[env, asks] >> 8, offer)
        take(state, env, 2 * resource, bid)
        take(state, env, 2 * resource + 1, ask)
        state.goods[env, (2 + resource) * n + seller] = state.goods[env, (2 + resource) * n + seller] - 1
        state.goods[env, resource * n + buyer] = state.goods[env, resource * n + buyer] + 1
        state.coin[env, n + buyer] = state.coin[env, n + buyer] - wp.float64(offer)
        state.coin[env, seller] = state.coin[env, seller] + wp.float64(price)
        state.coin[env, buyer] = state.coin[env, buyer] + wp.float64(offer - price)
        state.sold[env, seller] = state.sold[env, seller] + 1
        state.bought[env, buyer] = state.bought[env, buyer] + 1
        at = resource * num_prices + wp.min(price, num_prices - 1)
        state.price_history[env, at] = state.price_history[env, at] + wp.float64(1.0)

    @wp.func(inline=True)
    def match(state: wp.ref[State], env: int, resource: int):
        """Serve the bids in order: each takes the first ask of another agent, if its price suffices.

        A buyer whose best bid finds no ask is out of this step's trade, also with its other bids.
        """
        bids = 2 * resource * capacity
        asks = (2 * resource + 1) * capacity
        out = int(0)
        bid = int(0)
        while out != everyone and bid < state.num_orders[env, 2 * resource]:
            offer = state.order[env, bids + bid]
            buyer = wp.min(offer & 255, n - 1)
            if ((out >> buyer) & 1) == 1:
                bid += 1
            else:
                ask = int(0)
                while ask < state.num_orders[env, 2 * resource + 1] and (state.order[env, asks + ask] & 255) == buyer:
                    ask += 1
                fits = ask < state.num_orders[env, 2 * resource + 1]
                if fits:
                    fits = (offer >> 8) >= (state.order[env, asks + ask] >> 8)
                if fits:
                    exchange(state, env, resource, bid, ask)
                    bid = int(0)
                else:
                    out = out | (1 << buyer)

    @wp.func(inline=True)
    def expire(params: Params, state: wp.ref[State], env: int, book: int, now: int):
        """Remove the orders that have been open for too long, and return their escrow."""
        first = book * capacity
        resource = book >> 1
        index = int(0)
        while index < state.num_orders[env, book]:
            if now - state.born[env, first + index] + 1 > params.order_duration:
                order = state.order[env, first + index]
                agent = wp.min(order & 255, n - 1)
                if (book & 1) == 0:
                    amount = wp.float64(order >> 8)
                    state.coin[env, n + agent] = state.coin[env, n + agent] - amount
                    state.coin[env, agent] = state.coin[env, agent] + amount
                else:
                    state.goods[env, (2 + resource) * n + agent] = state.goods[env, (2 + resource) * n + agent] - 1
                    state.goods[env, resource * n + agent] = state.goods[env, resource * n + agent] + 1
                take(state, env, book, index)
            else:
                index += 1

    @wp.func
    def trade(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, now: int):
        """Match the orders, remove old ones, and update the mean prices of past trades."""
        part = int(float(PRICE_POINTS) * float(now - 1) / float(wp.max(io.max_steps, 1)))
        part = wp.clamp(part, 0, PRICE_POINTS - 1)
        resource = int(0)
        while resource < 2:
            if state.num_orders[env, 2 * resource] > 0 and state.num_orders[env, 2 * resource + 1] > 0:
                match(state, env, resource)
            expire(params, state, env, 2 * resource, now)
            expire(params, state, env, 2 * resource + 1, now)
            total = wp.float64(0.0)
            revenue = wp.float64(0.0)
            price = int(0)
            while price < num_prices:
                trades = state.price_history[env, resource * num_prices + price]
                total += trades
                revenue += wp.float64(price) * trades
                price += 1
            state.market_rate[env, resource] = float(revenue / wp.max(total, wp.float64(0.001)))
            state.price_curve[env, resource * PRICE_POINTS + part] = state.market_rate[env, resource]
            resource += 1

    @wp.func(inline=True)
    def fade(state: wp.ref[State], env: int):
        """Let past trades count less."""
        index = int(0)
        while index < 2 * num_prices:
            state.price_history[env, index] = _DECAY * state.price_history[env, index]
            index += 1

    @wp.func(inline=True)
    def order(params: Params, state: wp.ref[State], env: int, agent: int, choice: int, now: int):
        """Submit the order of an action, counted from the first bid for stone."""
        book = choice // num_prices
        submit(params, state, env, agent, book, choice - book * num_prices, now)

    return fade, order, trade
