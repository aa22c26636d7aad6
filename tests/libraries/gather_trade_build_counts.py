"""Counts of what happens in the steps of GatherTradeBuild-v0 and its original."""

from collections import Counter


def happened(env, core, state, action, world):
    """Count what happened in a step."""
    market, tax = env.get_component("ContinuousDoubleAuction"), env.get_component("PeriodicBracketTax")
    gathers, trades, n = env.get_component("Gather").gathers[-1], market.executed_trades[-1], env.n_agents
    after, choice, moves = core.world_state, action[world, :n, 0], 6 + 4 * core.config.sizes.num_prices
    orders = int(((choice > 1) & (choice < moves - 4)).sum())
    stays = (choice >= moves - 4) & (after["place"][world].numpy() == state["place"][world])
    if core.config.multi_action_mode_agents:
        orders = int((action[world, :n, 1:5] > 0).sum())
        stays = (action[world, :n, 5] > 0) & (after["place"][world].numpy() == state["place"][world])
    buyers = [trade["buyer"] for trade in trades]
    open_before, open_after = state["num_orders"][world].sum(), int(after["num_orders"][world].sum())
    return Counter(
        {
            "steps": 1,
            "houses": len(env.get_component("Build").builds[-1]),
            "orders": orders,
            "trades": len(trades),
            "trades at the price of the bid": sum(trade["bid_lifetime"] > trade["ask_lifetime"] for trade in trades),
            "steps with several trades": len(buyers) > 1,
            "orders that expire": int(open_before) + orders - 2 * len(trades) - open_after,
            "resources collected": len(gathers),
            "cells with several units": int(((after["cell"][world] >> 8) & 127).gt(0).sum()),
            "agents with several actions": int(((action[world, :n] > 0).sum(1) > 2).sum()),
            "second units": sum(gather["n"] == 2 for gather in gathers),
            "moves in the way of another agent": int(stays.sum()),
            "tax days": bool(tax.taxes[-1]),
            "taxes paid": bool(tax.taxes[-1]) and any(tax.taxes[-1][str(agent)]["tax_paid"] > 0 for agent in range(n)),
            "taxes limited by inventories": bool(tax.taxes[-1])
            and any(0 < tax.taxes[-1][str(k)]["tax_paid"] < tax.taxes_due(tax.taxes[-1][str(k)]["income"]) - 1e-9
                    for k in range(n)),
            "rates by the Saez formula": bool(tax.taxes[-1]) and tax._reached_min_samples,
            "ends": env.world.timestep >= env.episode_length,
        }
    )  # fmt: skip
