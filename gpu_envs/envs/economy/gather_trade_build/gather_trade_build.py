"""GatherTradeBuild-v0 (5 agents): Gather, trade and build; a planner taxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ANY, ObservationBlock
from gpu_envs.envs.economy import tax_brackets
from gpu_envs.envs.economy.gather_trade_build.scene import draw
from gpu_envs.envs.economy.gather_trade_build.world_settings import Layout, WorldSettings, first_chances, source_counts
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.economy.gather_trade_build import gather_trade_build
from warp_kernels.economy.gather_trade_build.economy_types import Sizes, agent_width, global_width, planner_width

SKILLS = ("none", "pareto", "lognormal")
"""Distributions of skills."""
REWARD_TYPES = ("coin_eq_times_productivity", "inv_income_weighted_coin_endowments", "inv_income_weighted_utility")
"""Social welfare functions."""
INFO = {
    "productivity": "productivity",
    "equality": "equality",
    "coin_eq_times_productivity": "welfare",
    "coin": "wealth",
    "labor": "effort",
    "tax_paid": "tax",
    "houses_built": "houses",
    "gathered": "gathered",
    "sold": "sold",
    "bought": "bought",
}
"""Additional entries of ``info`` by field of State."""


@dataclass(frozen=True)
class Config(WorldSettings):
    """Settings of GatherTradeBuild-v0, with the names of ai-economist and the values of its tutorial's second phase."""

    planner_gets_spatial_info: bool = setting(False)
    """The planner observes the map and the places of agents."""
    full_observability: bool = setting(False)
    """Agents observe the whole map instead of the cells around them."""
    mobile_agent_observation_range: int = setting(5, ge=0, le=64, requires={"full_observability": False})
    """Cells that an agent observes in every direction."""
    fixed_four_skill_and_loc: bool = setting(True)
    """Agents start in the corners, with mean payments by rank of skill, and in random order. False: random cells and
    sampled payments."""
    starting_agent_coin: float = setting(0.0, ge=0.0, le=1e6)
    """Coin of an agent at the start."""
    isoelastic_eta: float = setting(0.23, ge=0.0, le=1.0)
    """Concavity of the utility of coin: 0 linear, 1 logarithmic."""
    energy_cost: float = setting(0.21, ge=0.0, le=1e6)
    """Disutility of a unit of labor."""
    energy_warmup_constant: float = setting(0.0, ge=0.0, le=1e9)
    """Decay constant with which the energy cost grows from 0 to its value; 0: it has its value at once."""
    energy_warmup_method: str = setting("decay", choices=("decay", "auto"))
    """Unit of that constant: "decay" counts the finished episodes of a world, "auto" its steps in which the agents'
    mean reward is positive."""
    planner_reward_type: str = setting("coin_eq_times_productivity", choices=REWARD_TYPES)
    """Social welfare function."""
    mixing_weight_gini_vs_coin: float = setting(0.0, ge=0.0, le=1.0)
    """Share of "coin_eq_times_productivity" that ignores equality."""
    allow_observation_scaling: bool = setting(True)
    """Observe amounts times 0.01 and the time as a share of the episode."""
    payment: int = setting(10, ge=1, le=10**6)
    """Coin that a house pays at skill 1."""
    payment_max_skill_multiplier: int = setting(3, ge=1, le=10**6)
    """Largest factor of the payment by skill."""
    build_skill_dist: str = setting("pareto", choices=SKILLS)
    """Distribution of building skills, ``Build.skill_dist`` of the original."""
    build_labor: float = setting(10.0, ge=0.0, le=1e6)
    """Labor of building a house."""
    max_bid_ask: int = setting(10, ge=1, le=1000)
    """Highest price of an order [coin]."""
    order_labor: float = setting(0.25, ge=0.0, le=1e6)
    """Labor of an order."""
    order_duration: int = setting(50, ge=1, le=MAX_INT)
    """Time that an order stays open [steps]."""
    max_num_orders: int | None = setting(5, ge=1, le=1000)
    """Open orders that an agent may have for a resource; None: ``order_duration``."""
    move_labor: float = setting(1.0, ge=0.0, le=1e6)
    """Labor of a move."""
    collect_labor: float = setting(1.0, ge=0.0, le=1e6)
    """Labor of collecting a resource."""
    gather_skill_dist: str = setting("pareto", choices=SKILLS)
    """Distribution of gathering skills, ``Gather.skill_dist`` of the original."""
    multi_action_mode_agents: bool = setting(False)
    """Agents choose an action of every component at once: they build, make up to four orders, and move."""
    disable_taxes: bool = setting(False)
    """Free market: all rates are 0. Observations keep their shapes."""
    tax_model: str = setting("model_wrapper", choices=tuple(tax_brackets.MODELS))
    """Source of the tax rates: "model_wrapper": the planner; "saez": the formula of Saez with random rates at first;
    "us-federal-single-filer-2018-scaled": those of 2018; "fixed-bracket-rates": ``fixed_bracket_rates``."""
    period: int = setting(100, ge=1, le=MAX_INT)
    """Length of a tax period [steps]."""
    rate_min: float = setting(0.0, ge=0.0, le=1.0)
    """Lowest tax rate."""
    rate_max: float = setting(1.0, ge=0.0, le=1.0)
    """Highest tax rate."""
    rate_disc: float = setting(0.05, gt=0.0, lt=1.0)
    """Distance of the rates that the planner chooses from."""
    n_brackets: int = setting(5, ge=2, le=64)
    """Number of brackets with linear or logarithmic spacing."""
    top_bracket_cutoff: float = setting(100.0, ge=10.0, le=1e6)
    """Income where the last bracket starts, with linear or logarithmic spacing [coin]."""
    usd_scaling: float = setting(1000.0, gt=0.0, le=1e6)
    """Dollars per coin of the federal brackets."""
    bracket_spacing: str = setting("us-federal", choices=("us-federal", "linear", "log"))
    """Spacing of brackets."""
    fixed_bracket_rates: tuple[float, ...] | None = setting(None, ge=0.0, le=1.0)
    """Rate of every bracket for "fixed-bracket-rates"."""
    pareto_weight_type: str = setting("inverse_income", choices=("inverse_income", "uniform"))
    """Weights of incomes in the Saez formula."""
    saez_fixed_elas: float | None = setting(None, ge=0.0, le=1e6)
    """Elasticity of incomes in the Saez formula; None: estimated."""
    tax_annealing_schedule: tuple[float, ...] | None = None
    """Episodes without taxes, and the share of the highest rate that every further episode of a world adds, such as
    (-100, 0.001) in the tutorial; None: all rates are allowed at once. It limits the rates of all models."""
    time_limit: str = setting("truncation", choices=("termination", "truncation"))
    """Kind of the end at ``episode_length``. The original does not distinguish them."""

    def __post_init__(self) -> None:
        """Check the layout, the brackets and settings that exclude each other."""
        self.check_world()
        tax_brackets.check(self)
        fixed, split = self.fixed_four_skill_and_loc, self.scenario_name == "split_layout"
        if fixed and self.scenario_name != "layout_from_file":
            raise ConfigError(
                f"fixed_four_skill_and_loc: expected False with scenario_name={self.scenario_name!r}, got True"
            )
        if (fixed or split) and self.build_skill_dist != "pareto":
            cause = "scenario_name='split_layout'" if split else "fixed_four_skill_and_loc"
            raise ConfigError(f"build_skill_dist: expected 'pareto' with {cause}, got {self.build_skill_dist!r}")
        if fixed:
            ranked_places(self.n_agents, self.layout)

    @property
    def orders(self) -> int:
        """Open orders that an agent may have for a resource."""
        return self.max_num_orders or self.order_duration

    @property
    def cutoffs(self) -> np.ndarray:
        """Incomes where the brackets start, (B,) [coin]."""
        return tax_brackets.cutoffs(self)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the rules."""
        layout, table = self.layout, tax_brackets.table(self)
        return Sizes(
            num_agents=self.n_agents,
            height=layout.height,
            width=layout.width,
            num_sources=len(layout.sources),
            num_land=len(layout.land),
            num_prices=self.max_bid_ask + 1,
            book=self.n_agents * self.orders,
            num_brackets=len(self.cutoffs),
            num_rates=len(table),
            sight=-1 if self.full_observability else self.mobile_agent_observation_range,
            planner_map=self.planner_gets_spatial_info,
            tax_model=tax_brackets.model_of(self),
            scenario=self.scenario_name,
            zones=self.zones,
            water_row=self.row_of_water,
            multi_action=self.multi_action_mode_agents,
        )


@cache
def ranked_payments(n_agents: int, payment: int, limit: int) -> np.ndarray:
    """Return the mean payment by rank of skill, (n,), from the same samples as the original."""
    samples = np.random.RandomState(1).pareto(4, size=(100_000, n_agents))  # the original's seed
    return np.sort(np.minimum(limit, (limit - 1) * samples + 1), axis=1).mean(axis=0) * payment


def ranked_places(n_agents: int, layout: Layout) -> np.ndarray:
    """Return the starting cells by rank of skill, (n,): from the four corners inward.

    Raises:
        ConfigError: Some of them are water, outside of the world, or equal.
    """
    height, width = layout.height, layout.width
    # Corner and direction of rows and columns, by quarter of the skills.
    corners = ((0, width - 1, 1, -1), (height - 1, 0, -1, 1), (0, 0, 1, 1), (width - 1, width - 1, -1, -1))
    places, counts = [], [0] * 4
    for rank in range(n_agents):
        quarter = int(np.floor(rank * (4 / n_agents)))
        row, column, down, right = corners[quarter]
        row, column = row + down * (counts[quarter] // 4), column + right * (counts[quarter] % 4)
        counts[quarter] += 1
        if not (0 <= row < height and 0 <= column < width) or row * width + column not in layout.land:
            raise ConfigError(
                f"fixed_four_skill_and_loc: expected land at row {row}, column {column}, where an agent starts; "
                "use another layout, or set it to False"
            )
        places.append(row * width + column)
    if len(set(places)) < n_agents:
        raise ConfigError(f"n_agents: expected corners far enough apart for all agents, got {n_agents}")
    return np.array(places, np.int32)


def build(config: Config) -> EnvDefinition:
    sizes, layout = config.sizes, config.layout
    n, cells = sizes.num_agents, sizes.height * sizes.width
    choices = [6 + 4 * sizes.num_prices]
    if sizes.multi_action:
        choices = [2, *[1 + sizes.num_prices] * 4, 5]
    counts, widths = {"agent": n}, {"agent": agent_width(sizes)}
    actions: dict[str, spaces.Space[Any]] = {"agent": spaces.MultiDiscrete(choices)}
    if sizes.has_planner:
        counts["planner"] = 1
        widths["planner"] = planner_width(sizes, sizes.planner_map)
        actions["planner"] = spaces.MultiDiscrete([1 + sizes.num_rates] * sizes.num_brackets)
    skill = {name: number for number, name in enumerate(SKILLS)}
    fixed = config.fixed_four_skill_and_loc
    warmup, slope = config.tax_annealing_schedule or (0.0, 0.0)
    table = tax_brackets.table(config)
    payments = ranked_payments(n, config.payment, config.payment_max_skill_multiplier)
    above = [rank in config.skill_rank_of_top_agents for rank in range(n)]
    starts = ranked_places(n, layout) if fixed else np.array(above, np.int32)
    return EnvDefinition(
        **roster(counts, widths, actions),
        rules=gather_trade_build.rules(sizes),
        params=params_of(
            config,
            gather_trade_build.Params,
            build_skill_dist=skill[config.build_skill_dist],
            max_num_orders=config.orders,
            gather_skill_dist=skill[config.gather_skill_dist],
            fixed_four_skill_and_loc=int(fixed),
            energy_warmup_auto=int(config.energy_warmup_method == "auto"),
            planner_reward_type=REWARD_TYPES.index(config.planner_reward_type),
            rate_max=float(table.max()) if sizes.has_planner else config.rate_max,
            annealing=int(config.tax_annealing_schedule is not None),
            annealing_warmup=warmup,
            annealing_slope=slope,
            saez_fixed_elas=-1.0 if config.saez_fixed_elas is None else config.saez_fixed_elas,
            uniform_pareto_weights=int(config.pareto_weight_type == "uniform"),
            inv_scale=0.01 if config.allow_observation_scaling else 1.0,
        ),
        state=_state(sizes, cells),
        initial={
            "source": layout.sources if len(layout.sources) else np.zeros(1, np.int32),
            "land": layout.land,
            "terrain": layout.terrain,
            "start": starts,
            "start_payment": payments[::-1].copy() if config.scenario_name == "split_layout" else payments,
            **({"chance": first_chances(config), "coverage": source_counts(config)} if config.is_random else {}),
            "cutoff": config.cutoffs,
            "table": table if len(table) else np.zeros(1),
        },
        scratch=gather_trade_build.SCRATCH,
        info=INFO,
        results=("productivity", "equality"),
        global_state_size=global_width(sizes),
        max_episode_steps=config.episode_length,
        time_limit_terminates=config.time_limit == "termination",
        bounds=dict.fromkeys(
            ("checker_source_blocks", "fixed_four_skill_and_loc", "energy_warmup_auto", "annealing"), (0, 1)
        )
        | {"uniform_pareto_weights": (0, 1), "planner_reward_type": (0, 2), "inv_scale": (0.0, 1.0)}
        | {"annealing_warmup": (-1e9, 1e9), "annealing_slope": (-1e9, 1e9), "saez_fixed_elas": (-1.0, 1e6)}
        | dict.fromkeys(("build_skill_dist", "gather_skill_dist"), (0, 2)),
        fixed_params=(
            *("payment", "payment_max_skill_multiplier", "build_skill_dist", "gather_skill_dist", "max_num_orders"),
            *("fixed_four_skill_and_loc", "energy_warmup_auto", "planner_reward_type", "rate_max", "annealing"),
            *("uniform_pareto_weights", "inv_scale", "period"),
        ),
        draw=draw,
        render_fps=10,
    )


def _state(sizes: Sizes, cells: int) -> dict[str, Any]:
    """Return the shapes of State's fields, and the ranges of its integers."""
    fields: dict[str, Any] = {name: (columns,) for name, columns in sizes.shapes().items()}
    n = sizes.num_agents
    for name in ("cell", "goods", "order", "born", "houses", "gathered", "sold", "bought", "terrain", "coverage"):
        fields[name] = integers(fields[name], 0, MAX_INT)
    fields["num_orders"] = integers((4,), 0, sizes.book)
    fields["open_orders"] = integers((2 * n,), 0, sizes.book)
    for name in ("position", "source", "land", "start"):
        fields[name] = index(fields[name], cells)
    fields["turn"] = index((n,), n)
    fields["zone"] = index(fields["zone"], 4)
    for name in ("cycle", "completions", "finished", "fresh", "good_steps", "num_samples"):
        fields[name] = integers((), 0, MAX_INT)
    return fields | {"key": any_bits(()), "elasticity": ()}


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
