"""Params and State of GatherTradeBuild-v0, and the sizes that its rules capture."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from warp_kernels.economy.saez_taxes import BINS, SAMPLES
from warp_kernels.generated_source import compiled

# A cell is terrain + PRESENT if its resource is there + OWNER * (1 + owner of the house) + MORE * (units - 1) + VISITOR
# * (1 + agent). Only sources have units, and only land has houses.
TERRAIN: int = wp.constant(3)
"""Bits of a cell with the kind of terrain: 0 for land."""
STONE: int = wp.constant(1)
"""Terrain where stone grows."""
WOOD: int = wp.constant(2)
"""Terrain where wood grows."""
WATER: int = wp.constant(3)
"""Terrain that agents cannot enter."""
PRESENT: int = wp.constant(4)
"""Bit of a cell whose resource is there."""
OWNER: int = wp.constant(8)
"""Factor of 1 + owner of the house."""
MORE: int = wp.constant(256)
"""Factor of the units of the resource above 1."""
MAX_UNITS = 64
"""Largest number of units on a cell."""
GROWN: int = wp.constant(1 << 15)
"""Bit of a source that grows in this step."""
VISITOR: int = wp.constant(1 << 16)
"""Factor of 1 + agent on the cell."""

NO_SKILL: int = wp.constant(0)
"""All agents have equal skills."""
PARETO: int = wp.constant(1)
"""Skills follow a Pareto distribution."""
LOGNORMAL: int = wp.constant(2)
"""Skills follow a log-normal distribution."""

COIN_EQ_TIMES_PRODUCTIVITY: int = wp.constant(0)
"""Social welfare: equality times productivity per agent."""
INV_INCOME_WEIGHTED_COIN: int = wp.constant(1)
"""Social welfare: mean coin, weighted by its inverse."""
INV_INCOME_WEIGHTED_UTILITY: int = wp.constant(2)
"""Social welfare: mean utility, weighted by inverse coin."""

RANDOM_SCENARIOS = ("uniform", "multi_zone", "quadrant")
"""Scenarios whose layout is random."""

PRICE_POINTS: int = wp.constant(40)
"""Number T of parts of an episode for which a mean price is kept."""


@wp.struct
class Params:
    """Environment parameters."""

    payment: float  # income of a house at skill 1 [coin]
    payment_max_skill_multiplier: float  # largest factor of the payment [1]
    build_skill_dist: int  # distribution of building skills
    build_labor: float  # effort of building a house [labor]
    order_labor: float  # effort of an order [labor]
    order_duration: int  # time an order stays open [steps]
    max_num_orders: int  # orders of an agent for a resource that may be open
    move_labor: float  # effort of a move [labor]
    collect_labor: float  # effort of collecting a resource [labor]
    gather_skill_dist: int  # distribution of gathering skills
    resource_regen_prob: float  # probability that an empty source grows in a step [1]
    wood_regen_halfwidth: int  # reach of cells whose wood lets wood grow, in random layouts [cells]
    wood_regen_weight: float  # probability that wood grows, per unit in reach times the cells in reach [1]
    wood_max_health: int  # units of wood on a cell
    stone_regen_halfwidth: int  # the same of stone [cells]
    stone_regen_weight: float  # the same of stone [1]
    stone_max_health: int  # units of stone on a cell
    checker_source_blocks: int  # 1: random layouts have sources on every second cell only
    fixed_four_skill_and_loc: int  # 1: payments and starting cells come from a table
    starting_agent_coin: float  # coin at the start [coin]
    isoelastic_eta: float  # concavity of the utility of coin [1]
    energy_cost: float  # disutility of labor [utility / labor]
    energy_warmup_constant: float  # decay constant of the annealing of energy_cost [episodes or steps]; 0: none
    energy_warmup_auto: int  # 1: anneal by steps with a positive mean reward, 0: by episodes
    planner_reward_type: int  # social welfare function
    mixing_weight_gini_vs_coin: float  # share of the welfare that ignores equality [1]
    period: int  # length of a tax period [steps]
    rate_min: float  # lowest tax rate [1]
    rate_max: float  # highest tax rate [1]
    annealing: int  # 1: the highest tax rate grows with the episodes
    annealing_warmup: float  # time without taxes [episodes]
    annealing_slope: float  # growth of the share of the highest rate [1 / episode]
    saez_fixed_elas: float  # elasticity of incomes in the Saez formula [1]; negative: estimated
    uniform_pareto_weights: int  # 1: weight all incomes equally, 0: inversely
    inv_scale: float  # factor of amounts in observations [1]


@wp.struct
class State:
    """State of E worlds, n mobile agents, A agents, C cells, S sources, L land cells.

    P prices, B brackets, O orders per book; R tax rates. Resources are stone (0) and wood (1). The books are bids for
    stone, asks for stone, bids for wood, asks for wood, each with the best order first.
    """

    cell: wp.array2d(dtype=int)  # (E, C) terrain, resource, owner of the house, and agent of the cell
    position: wp.array2d(dtype=int)  # (E, n) cell of the agent
    coin: wp.array2d(dtype=wp.float64)  # (E, 2 n) coin: in inventories, then in escrow
    goods: wp.array2d(dtype=int)  # (E, 4 n) stone and wood in inventories, then in escrow
    labor: wp.array2d(dtype=wp.float64)  # (E, n) labor since the start
    payment: wp.array2d(dtype=wp.float64)  # (E, n) coin that the agent earns by a house
    skill: wp.array2d(dtype=float)  # (E, n) sampled building skill
    bonus: wp.array2d(dtype=float)  # (E, n) probability of collecting two units [1]
    value: wp.array2d(dtype=wp.float64)  # (E, n + 1) utility by agent, then social welfare
    gain: wp.array2d(dtype=wp.float64)  # (E, n + 1) change of these in this step
    order: wp.array2d(dtype=int)  # (E, 4 O) price << 8 | agent
    born: wp.array2d(dtype=int)  # (E, 4 O) step that the order was made in
    num_orders: wp.array2d(dtype=int)  # (E, 4) number of orders in the book
    open_orders: wp.array2d(dtype=int)  # (E, 2 n) open orders of the agent for stone, then for wood
    price_history: wp.array2d(dtype=wp.float64)  # (E, 2 P) trades at the price, which fade with time
    market_rate: wp.array2d(dtype=float)  # (E, 2) mean price of past trades
    price_curve: wp.array2d(dtype=float)  # (E, 2 T) the mean price over the episode, stone then wood; 0: none yet
    cycle: wp.array(dtype=int)  # (E,) day of the tax period, from 1
    rates: wp.array2d(dtype=wp.float64)  # (E, B) marginal tax rates [1]
    last_coin: wp.array2d(dtype=wp.float64)  # (E, n) coin at the start of the tax period
    last_income: wp.array2d(dtype=wp.float64)  # (E, n) income of the last tax period
    last_rate: wp.array2d(dtype=wp.float64)  # (E, n) marginal rate at that income [1]
    incomes: wp.array2d(dtype=float)  # (E, n) incomes of the last tax period, sorted
    turn: wp.array2d(dtype=int)  # (E, n) order in which the agents moved
    key: wp.array(dtype=wp.uint64)  # (E,) random key of the episode
    completions: wp.array(dtype=int)  # (E,) episodes that ran to their end
    finished: wp.array(dtype=int)  # (E,) 1: this episode has run to its end
    fresh: wp.array(dtype=int)  # (E,) 1: no step of this episode has been played
    good_steps: wp.array(dtype=int)  # (E,) steps with a positive mean reward, of all episodes
    sample: wp.array2d(dtype=wp.float64)  # (E, 1,000) incomes of the Saez formula, then their marginal rates
    num_samples: wp.array(dtype=int)  # (E,) number of incomes so far
    elasticity: wp.array(dtype=wp.float64)  # (E,) running estimate of the elasticity of incomes
    average_rates: wp.array2d(dtype=wp.float64)  # (E, B) running mean of the rates of the Saez formula [1]
    bin: wp.array2d(dtype=wp.float64)  # (E, 303) counts, welfare weights and rates of the income bins
    noise: wp.array2d(dtype=float)  # (E, C) random numbers of random layouts
    zone: wp.array2d(dtype=int)  # (E, Z) what zones have: 0 wood, 1 stone, 2 both, 3 nothing
    # Results of the last step: one column per agent.
    productivity: wp.array2d(dtype=float)  # (E, A) coin of all agents
    equality: wp.array2d(dtype=float)  # (E, A) 1 - normalized Gini index of coin [1]
    welfare: wp.array2d(dtype=float)  # (E, A) equality * productivity
    wealth: wp.array2d(dtype=float)  # (E, A) coin of the agent
    effort: wp.array2d(dtype=float)  # (E, A) labor of the agent
    tax: wp.array2d(dtype=float)  # (E, A) tax paid in this step
    houses: wp.array2d(dtype=int)  # (E, A) houses that the agent has built
    gathered: wp.array2d(dtype=int)  # (E, A) resources that the agent has collected
    sold: wp.array2d(dtype=int)  # (E, A) resources that the agent has sold
    bought: wp.array2d(dtype=int)  # (E, A) resources that the agent has bought
    # Tables that all worlds share: row 0.
    source: wp.array2d(dtype=int)  # (E, S) cells where a resource grows
    land: wp.array2d(dtype=int)  # (E, L) cells without water
    terrain: wp.array2d(dtype=int)  # (E, C) cells at the start
    start: wp.array2d(dtype=int)  # (E, n) starting cell by rank of skill; 1: above the water of a split layout
    start_payment: wp.array2d(dtype=wp.float64)  # (E, n) payment by rank of skill
    chance: wp.array2d(dtype=float)  # (E, 2 C) probability of the first sources of wood, then of stone [1]
    coverage: wp.array2d(dtype=int)  # (E, 8) first and all sources, fewest and most, of wood, then of stone
    cutoff: wp.array2d(dtype=wp.float64)  # (E, B) lowest income of the bracket
    table: wp.array2d(dtype=wp.float64)  # (E, R) rates that the planner chooses from, or given rates by bracket


@dataclass(frozen=True)
class Sizes:
    """Sizes and switches that the rules capture."""

    num_agents: int
    """Number of mobile agents n."""
    height: int
    """Number of rows."""
    width: int
    """Number of columns."""
    num_sources: int
    """Number of cells where a resource grows."""
    num_land: int
    """Number of cells without water."""
    num_prices: int
    """Number of prices P."""
    book: int
    """Orders that fit in a book, O."""
    num_brackets: int
    """Number of tax brackets B."""
    num_rates: int
    """Number of rates that the planner chooses from; length of the table of rates."""
    sight: int
    """Cells that an agent sees in every direction; -1 for the whole world."""
    planner_map: bool
    """The planner observes the map."""
    tax_model: str
    """"planner", "saez", "given" or "none"."""
    scenario: str = "layout_from_file"
    """First part of the name of the original's scenario."""
    zones: tuple[int, ...] = ()
    """Rows and columns of zones of "multi_zone", and the numbers of those with wood, stone and both."""
    water_row: int = -1
    """Row of water of "split_layout"."""
    multi_action: bool = False
    """Agents choose an action of every component."""

    @property
    def is_random(self) -> bool:
        """Whether every episode has a random layout."""
        return self.scenario in RANDOM_SCENARIOS

    @property
    def has_water(self) -> bool:
        """Whether the map has a layer of water."""
        return self.scenario not in ("uniform", "multi_zone")

    @property
    def num_zones(self) -> int:
        """Number of zones of "multi_zone"."""
        return self.zones[0] * self.zones[1] if self.zones else 0

    @property
    def has_planner(self) -> bool:
        """Whether the planner is an agent."""
        return self.tax_model == "planner"

    @property
    def agents(self) -> int:
        """Number of agents A, with the planner."""
        return self.num_agents + self.has_planner

    def shapes(self) -> dict[str, int]:
        """Return the number of columns of every field of State with two axes."""
        n, cells, saez = self.num_agents, self.height * self.width, self.tax_model == "saez"
        reports = ("productivity", "equality", "welfare", "wealth", "effort", "tax")
        counts = ("houses", "gathered", "sold", "bought")
        return {
            "cell": cells,
            "coin": 2 * n,
            "goods": 4 * n,
            "value": n + 1,
            "gain": n + 1,
            "order": 4 * self.book,
            "born": 4 * self.book,
            "num_orders": 4,
            "open_orders": 2 * n,
            "price_history": 2 * self.num_prices,
            "market_rate": 2,
            "price_curve": 2 * PRICE_POINTS,
            "sample": 2 * SAMPLES * saez,
            "bin": 3 * (BINS + 1) * saez,
            "source": max(self.num_sources, 1),
            "land": self.num_land,
            "terrain": cells,
            "table": max(self.num_rates, 1),
            "noise": cells * self.is_random,
            "zone": self.num_zones,
            "chance": (2 if self.zones else 2 * cells) * self.is_random,
            "coverage": 8 * self.is_random,
            **dict.fromkeys(("rates", "average_rates", "cutoff"), self.num_brackets),
            **dict.fromkeys(("position", "labor", "payment", "skill", "bonus", "turn", "start", "start_payment"), n),
            **dict.fromkeys(("last_coin", "last_income", "last_rate", "incomes"), n),
            **dict.fromkeys((*reports, *counts), self.agents),
        }


SHARED = ("source", "land", "terrain", "start", "start_payment", "chance", "coverage", "cutoff", "table")
"""Fields of State that all worlds share."""


@wp.func(inline=True)
def owner_of(cell: int) -> int:
    """Return 1 + the owner of the house on a cell, or 0."""
    return (cell & (MORE - 1)) // OWNER


@wp.func(inline=True)
def units_of(cell: int) -> int:
    """Return the units of the resource on a cell."""
    return wp.where((cell & PRESENT) != 0, 1 + (cell & (GROWN - 1)) // MORE, 0)


def relayout(sizes: Sizes) -> Any:
    """Build ``Rules.relayout``: fields of State with two axes and constant sizes."""
    names = {wp.float64: "wp.float64", float: "float", int: "int", wp.float32: "float", wp.int32: "int"}
    lines = [
        f"state.{name} = wp.array(ptr=state.{name}.ptr, shape=({1 if name in SHARED else 'n'}, {columns}), "
        f"dtype={names[State.vars[name].type.dtype]})"
        for name, columns in sizes.shapes().items()
        if columns > 0
    ]
    return compiled("dense", "state: State, n: int", [*lines, "return state"], {"State": State})


def num_layers(sizes: Sizes) -> int:
    """Return the number of layers of the map: stone, wood, house, water, sources of stone, sources of wood.

    Then come owners and agents. Worlds that never have water have no layer of it.
    """
    return 5 + sizes.has_water


def view_of(sizes: Sizes) -> tuple[int, int, int]:
    """Return the side of an agent's window, the numbers of its layers of the map, and of its cells."""
    if sizes.sight < 0:
        return 0, num_layers(sizes), sizes.height * sizes.width
    side = 2 * sizes.sight + 1
    return side, num_layers(sizes) + 1, side * side


def agent_width(sizes: Sizes) -> int:
    """Return the width of an agent's observation."""
    _, layers, cells = view_of(sizes)
    flat = 15 + 10 * sizes.num_prices + sizes.num_brackets + sizes.num_agents - 2 * (sizes.sight < 0)
    return (layers + 2) * cells + flat


def planner_width(sizes: Sizes, with_map: bool) -> int:
    """Return the width of the planner's observation."""
    entries = 3 if sizes.sight < 0 else 8 if with_map else 6
    flat = 9 + 6 * sizes.num_prices + sizes.num_brackets + (1 + entries) * sizes.num_agents
    return flat + (num_layers(sizes) + 2) * sizes.height * sizes.width * with_map


def global_width(sizes: Sizes) -> int:
    """Return the width of the global state."""
    return planner_width(sizes, True) + (4 + 4 * sizes.num_prices) * sizes.num_agents
