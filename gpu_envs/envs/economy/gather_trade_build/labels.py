"""Names of actions and observations of GatherTradeBuild-v0."""

from collections.abc import Sequence

from gpu_envs.descriptions import ANY, ObservationBlock
from gpu_envs.envs.economy import tax_brackets
from gpu_envs.envs.economy.gather_trade_build.gather_trade_build import Config

__all__ = ["action_names", "observation_blocks"]

_GOODS = ("stone", "wood")


def action_names(config: Config, row: int) -> list[list[str]]:
    """Return the names of the choices of every component of the agent in this row."""
    if row < config.n_agents:
        prices = range(config.max_bid_ask + 1)
        books = [[f"{verb} {good} for {price}" for price in prices] for good in _GOODS for verb in ("buy", "sell")]
        moves = [f"go {direction}" for direction in ("west", "east", "north", "south")]
        if config.multi_action_mode_agents:
            return [["nothing", *names] for names in (["build a house"], *books, moves)]
        return [["nothing", "build a house", *(name for book in books for name in book), *moves]]
    rates = tax_brackets.table(config)
    return [["keep the rate", *(f"rate {100 * rate:.4g} %" for rate in rates)]] * len(config.cutoffs)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    scaled = config.allow_observation_scaling
    prices = [f"{price} coin" for price in range(config.max_bid_ask + 1)]
    brackets = [f"from {cutoff:.5g} coin" for cutoff in config.cutoffs]
    ranks = [f"rank {rank}" for rank in range(config.n_agents)]

    def orders(label: str) -> list[ObservationBlock]:
        return [_block(f"{label} for {good}, by price", "orders", ANY, prices) for good in _GOODS]

    def inventory(owner: str) -> list[ObservationBlock]:
        units = {"coin": "coin", "stone": "units", "wood": "units"}
        return [_block(f"{owner} {good}", f"{unit} / 100" if scaled else unit, ANY) for good, unit in units.items()]

    def position(owner: str) -> list[ObservationBlock]:
        return [_block(f"{owner} column", "width of the world"), _block(f"{owner} row", "height of the world")]

    market = [_block(f"mean price of past trades of {good}", "coin", config.max_bid_ask) for good in _GOODS]
    history = [
        _block(
            f"past trades of {good} by price, which fade by 0.5 % a step",
            f"trades * {0.01 if scaled else 1.0}",
            ANY,
            prices,
        )
        for good in _GOODS
    ]
    incomes = "incomes of the last period per day, ascending"
    taxes = [
        _block("tax rate by bracket", parts=brackets),
        _block("1 on the first day of a tax period"),
        _block("1 on the tax day"),
        ObservationBlock(incomes, "coin", -ANY, ANY, len(ranks), ranks),
    ]
    phase = _block("day of the tax period / `period`")
    time = _block("time", "`episode_length`") if scaled else _block("time", "steps", ANY)
    if row < config.n_agents:
        blocks = [
            *_map_blocks(config, config.full_observability),
            _block("pay for a house / `payment`", high=ANY),
            _block("building skill", high=ANY),
            *orders("other agents' asks"),
            *orders("other agents' bids"),
            *market,
            *orders("own asks"),
            *orders("own bids"),
            *history,
            _block("probability of collecting two units"),
            *taxes,
            _block("own marginal rate"),
            phase,
            time,
            *inventory("own"),
        ]
        return blocks if config.full_observability else [*blocks, *position("own")]
    blocks = _map_blocks(config, True) if config.planner_gets_spatial_info else []
    blocks += [*orders("asks"), *orders("bids"), *market, *history, *taxes, phase, time, *inventory("the planner's")]
    for agent in range(config.n_agents):
        owner = f"agent {agent}'s"
        blocks += [
            _block(f"{owner} marginal rate"),
            ObservationBlock(f"{owner} income of the last period per day", "coin", -ANY, ANY),
            _block(f"{owner} marginal rate on it"),
        ]
        if not config.full_observability:
            blocks += [*inventory(owner), *(position(owner) if config.planner_gets_spatial_info else ())]
    return blocks


def _block(meaning: str, unit: str = "", high: float = 1.0, parts: Sequence[str] = ()) -> ObservationBlock:
    return ObservationBlock(meaning, unit, 0, high, max(len(parts), 1), parts)


def _map_blocks(config: Config, is_whole: bool) -> list[ObservationBlock]:
    """Return a block for each layer of the whole map, or of the part around an agent."""
    sight, layout = config.mobile_agent_observation_range, config.layout
    offsets = range(-sight, sight + 1)
    cells = [f"{y:+d} rows, {x:+d} columns" for y in offsets for x in offsets]
    if is_whole:
        cells = [f"row {y}, column {x}" for y in range(layout.height) for x in range(layout.width)]
    highs = {"stone": config.stone_max_health, "wood": config.wood_max_health, "house": 1}
    highs |= {"water": 1} if config.sizes.has_water else {}
    highs |= {"source of stone": 1, "source of wood": 1}
    highs |= {} if is_whole else {"cell of the world": 1}
    for layer in ("owner of the house", "agent"):
        highs[f"{layer} (1: the observer, 2 and more: agents by number)"] = config.n_agents + 1
    return [_block(layer, "", high, cells) for layer, high in highs.items()]
