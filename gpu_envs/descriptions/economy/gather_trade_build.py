"""Observations, actions and rewards of GatherTradeBuild-v0."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.economy import tax_brackets
from gpu_envs.envs.economy.gather_trade_build import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

_GOODS = ("stone", "wood")
_LAYERS = ("stone", "wood", "house", "water", "source of stone", "source of wood")
_MOVES = ("west", "east", "north", "south")

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {"Agent": ("agent_0", {}), "Planner": ("planner_0", {})}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("agent", "every step", "change of its utility"),
    RewardTerm("planner", "every step", "change of the social welfare"),
)


def action_tables() -> list[Table]:
    """Return the action tables."""
    config = Config()
    names, last = action_names(config, 0)[0], 6 + 4 * (config.max_bid_ask + 1)
    first = [2 + book * (config.max_bid_ask + 1) for book in range(4)]
    shown = (0, 1, *(index for start in first for index in (start, start + config.max_bid_ask)), *range(last - 4, last))
    rates = tuple(enumerate(action_names(config, config.n_agents)[0]))
    agent = tuple((index, names[index]) for index in shown)
    return [
        Table(
            "Agent: `MultiDiscrete([50])`, the lowest and the highest price of every order", ("index", "action"), agent
        ),
        Table("Planner: `MultiDiscrete([22] * 7)`, in every bracket", ("index", "action"), rates),
    ]


def action_names(config: Config, row: int) -> Sequence[Sequence[str]]:
    """Return the names of the choices of every component of the agent in this row."""
    if row < config.n_agents:
        prices = range(config.max_bid_ask + 1)
        books = [[f"{word} {good} for {price}" for price in prices] for good in _GOODS for word in ("buy", "sell")]
        if config.multi_action_mode_agents:
            heads = [["build a house"], *books, [f"go {way}" for way in _MOVES]]
            return [["nothing", *head] for head in heads]
        orders = [name for book in books for name in book]
        return [["nothing", "build a house", *orders, *(f"go {way}" for way in _MOVES)]]
    rates = tax_brackets.table(config)
    return [["keep the rate", *(f"rate {100 * rate:.4g} %" for rate in rates)]] * len(config.cutoffs)


def _layers(world: World, row: int, whole: bool) -> np.ndarray:
    """Return the layers of the map that the agent in this row observes, with owners and agents, (layers, cells)."""
    config, state = world.config, world.state
    layout, n = config.layout, config.n_agents
    cell = state["cell"].reshape(layout.height, layout.width)
    kind, owner, agent = cell & 3, ((cell & 255) >> 3) - 1, (cell >> 16) - 1

    def names(number: np.ndarray) -> np.ndarray:
        return np.where(number < 0, 0, np.where(number == row, 1, number + 2))

    units = np.where((cell & 4) > 0, 1 + ((cell >> 8) & 127), 0)
    water = [kind == 3] * config.sizes.has_water
    found = [units * (kind == 1), units * (kind == 2), owner >= 0, *water, kind == 1, kind == 2]
    if not whole:
        found.append(np.ones_like(cell))
    layers = np.stack([*found, names(owner), names(agent)]).astype(np.float32)
    if whole:
        return layers.reshape(len(layers), -1)
    sight = config.mobile_agent_observation_range
    padded = np.pad(layers, ((0, 0), (sight, sight), (sight, sight)))
    top, left = divmod(int(state["place"][row]), layout.width)
    assert row < n
    side = 2 * sight + 1
    return padded[:, top : top + side, left : left + side].reshape(len(layers), -1)


def _orders(world: World, side: int, good: int, agents: Sequence[int]) -> np.ndarray:
    """Return the number of open bids (0) or asks (1) for a good by price, of some agents."""
    state, book = world.state, 2 * good + side
    first, count = book * world.config.sizes.book, int(state["num_orders"][book])
    order = state["order"][first : first + count]
    chosen = order[np.isin(order & 255, agents)] >> 8
    return np.bincount(chosen, minlength=world.config.max_bid_ask + 1).astype(np.float32)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    n, scale = config.n_agents, 0.01 if config.allow_observation_scaling else 1.0
    prices = tuple(f"{price} coin" for price in range(config.max_bid_ask + 1))
    unit = "coin / 100" if config.allow_observation_scaling else "coin"
    units = "units / 100" if config.allow_observation_scaling else "units"
    everyone, is_planner = range(n), row == n

    def block(meaning: str, unit: str, high: float, read: Callable[[World, int], Any], width: int = 1, parts=()):
        return ObservationBlock(meaning, unit, 0, high, read, width, parts)

    def marginal(world: World, agent: int) -> float:
        coin = world.state["coin"]
        income = coin[agent] + coin[n + agent] - world.state["last_coin"][agent]
        if income < 0:
            return 0.0
        if config.tax_model == "saez" and not config.disable_taxes and world.state["fresh"] == 1:
            return float(world.state["average_rates"][0])
        return float(world.state["rates"][np.searchsorted(config.cutoffs, income, side="right") - 1])

    def orders(words: str, side: int, who: Callable[[int], Sequence[int]]) -> list[ObservationBlock]:
        return [
            block(
                f"{words} for {name}, by price",
                "orders",
                ANY,
                lambda world, row, good=good: _orders(world, side, good, who(row)),
                len(prices),
                prices,
            )
            for good, name in enumerate(_GOODS)
        ]

    market = [
        block(f"mean price of past trades of {name}", "coin", config.max_bid_ask,
              lambda world, _, good=good: world.state["market_rate"][good])
        for good, name in enumerate(_GOODS)
    ]  # fmt: skip
    history = [
        block(f"past trades of {name} by price, which fade by 0.5 % a step", f"trades * {scale}", ANY,
              lambda world, _, good=good: scale * world.state["price_history"].reshape(2, -1)[good],
              len(prices), prices)
        for good, name in enumerate(_GOODS)
    ]  # fmt: skip
    brackets = tuple(f"from {cutoff:.5g} coin" for cutoff in config.cutoffs)
    taxes = [
        block("tax rate by bracket", "", 1, lambda world, _: world.state["rates"], len(brackets), brackets),
        block("1 on the first day of a tax period", "", 1, lambda world, _: world.state["cycle"] == 1),
        block("1 on the tax day", "", 1, lambda world, _: world.state["cycle"] >= config.period),
        ObservationBlock("incomes of the last period per day, ascending", "coin", -ANY, ANY,
                         lambda world, _: world.state["incomes"] / config.period, n, [f"rank {r}" for r in range(n)]),
    ]  # fmt: skip
    phase = block("day of the tax period / `period`", "", 1, lambda world, _: world.state["cycle"] / config.period)
    time = block(
        "time",
        "`episode_length`" if config.allow_observation_scaling else "steps",
        1 if config.allow_observation_scaling else ANY,
        lambda world, _: world.time * (1 if config.allow_observation_scaling else config.episode_length),
    )

    def inventory(of: str, who: Callable[[int], int | None]) -> list[ObservationBlock]:
        def amount(world: World, row: int, index: int) -> float:
            agent = who(row)
            if agent is None:
                return 0.0
            return scale * (world.state["coin"][agent] if index == 0 else world.state["goods"][(index - 1) * n + agent])

        return [
            block(f"{of} {name}", (unit, units, units)[index], ANY,
                  lambda world, row, index=index: amount(world, row, index))
            for index, name in enumerate(("coin", *_GOODS))
        ]  # fmt: skip

    def place(of: str, who: Callable[[int], int]) -> list[ObservationBlock]:
        height, width = config.layout.height, config.layout.width
        return [
            block(f"{of} column", "width of the world", 1,
                  lambda world, row: world.state["place"][who(row)] % width / width),
            block(f"{of} row", "height of the world", 1,
                  lambda world, row: world.state["place"][who(row)] // width / height),
        ]  # fmt: skip

    def maps(whole: bool) -> list[ObservationBlock]:
        sight, layout = config.mobile_agent_observation_range, config.layout
        ways = [(y, x) for y in range(-sight, sight + 1) for x in range(-sight, sight + 1)]
        cells = [f"{y:+d} rows, {x:+d} columns" for y, x in ways]
        if whole:
            cells = [f"row {y}, column {x}" for y in range(layout.height) for x in range(layout.width)]
        layers = [name for name in _LAYERS if name != "water" or config.sizes.has_water]
        most = {"stone": config.stone_max_health, "wood": config.wood_max_health}
        names = [*layers, *(() if whole else ("cell of the world",))]
        names += [f"{what} (1: the observer, 2 and more: agents by number)" for what in ("owner of the house", "agent")]
        return [
            block(name, "", n + 1 if index >= len(names) - 2 else most.get(name, 1),
                  lambda world, row, index=index: _layers(world, row if row < n else -2, whole)[index],
                  len(cells), cells)
            for index, name in enumerate(names)
        ]  # fmt: skip

    if is_planner:
        found = maps(True) if config.planner_gets_spatial_info else []
        found += [*orders("asks", 1, lambda _: everyone), *orders("bids", 0, lambda _: everyone), *market, *history]
        found += [*taxes, phase, time, *inventory("the planner's", lambda _: None)]
        for agent in everyone:
            of = f"agent {agent}'s"
            found += [
                block(f"{of} marginal rate", "", 1, lambda world, _, agent=agent: marginal(world, agent)),
                ObservationBlock(f"{of} income of the last period per day", "coin", -ANY, ANY,
                                 lambda world, _, agent=agent: world.state["last_income"][agent] / config.period),
                block(f"{of} marginal rate on it", "", 1,
                      lambda world, _, agent=agent: world.state["last_rate"][agent]),
            ]  # fmt: skip
            if not config.full_observability:
                found += inventory(of, lambda _, agent=agent: agent)
                if config.planner_gets_spatial_info:
                    found += place(of, lambda _, agent=agent: agent)
        return found
    own, others = (lambda row: [row]), (lambda row: [agent for agent in everyone if agent != row])
    found = [
        *maps(config.full_observability),
        block("pay for a house / `payment`", "", ANY, lambda world, row: world.state["payment"][row] / config.payment),
        block("building skill", "", ANY, lambda world, row: world.state["skill"][row]),
        *orders("other agents' asks", 1, others),
        *orders("other agents' bids", 0, others),
        *market,
        *orders("own asks", 1, own),
        *orders("own bids", 0, own),
        *history,
        block("probability of collecting two units", "", 1, lambda world, row: world.state["bonus"][row]),
        *taxes,
        block("own marginal rate", "", 1, marginal),
        phase,
        time,
        *inventory("own", lambda row: row),
    ]
    return found if config.full_observability else [*found, *place("own", lambda row: row)]
