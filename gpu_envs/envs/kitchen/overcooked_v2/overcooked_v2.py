"""OvercookedV2-v0 (2 agents): Cooks with a partial view cook a drawn recipe."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.kitchen.overcooked_v2 import layouts
from gpu_envs.envs.kitchen.overcooked_v2.layouts import LAYOUTS, RecipeKitchen
from gpu_envs.envs.kitchen.overcooked_v2.scene import draw
from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.kitchen.overcooked_v2 import overcooked_v2
from warp_kernels.kitchen.overcooked_v2.items import KIND_BITS, POT_SIZE
from warp_kernels.kitchen.overcooked_v2.observation import NUM_AGENT_LAYERS, num_layers
from warp_kernels.kitchen.overcooked_v2.sizes import Sizes

MAX_TIME = 10**6
"""Longest time of a pot or a button [steps]."""


@dataclass(frozen=True)
class Config:
    """Settings of OvercookedV2-v0, with the names and defaults of JaxMARL."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "layout_name": "layout",
        "horizon": "max_steps",
        "observation_type": "observations are always layers; JaxMARL's featurized ones are left out",
        "initial_state_buffer": "set_state restores states",
    } | dict.fromkeys(("num_agents", "players", "n_agents"), "the letters A of a layout are the agents")
    """Names of other environments, and settings of JaxMARL that are left out."""

    layout: str = setting("cramped_room", choices=tuple(LAYOUTS), requires={"layout_grid": None})
    """Kitchen and recipes of JaxMARL; only without ``layout_grid``."""
    layout_grid: Any = None
    """Kitchen of your own as rows of text, "WWPWW|0A A1|W   R|WBWXW" or a list: W counter, A agent, P pot, 0 to 9 pile
    of an ingredient, B plates, X goal, R recipe indicator, L button indicator, space floor."""
    possible_recipes: tuple[Any, ...] | None = None
    """Recipes of which episodes draw one, lists of three ingredients such as [[0, 0, 1]]. None: the layout's, or all
    recipes of the ingredients in a kitchen with a recipe indicator."""
    max_steps: int = setting(400, ge=1, le=MAX_INT)
    """Time limit [steps]."""
    agent_view_size: int | None = setting(None, ge=1, le=layouts.MAX_VIEW)
    """Cells that an agent sees in each direction: 2 gives a window of 5 x 5 cells. None: the whole kitchen."""
    random_reset: bool = setting(False)
    """Start with random places, orientations and items in hands, pots and on counters."""
    random_agent_positions: bool = setting(False)
    """Start agents on random cells of their rooms, with random orientations."""
    start_cooking_interaction: bool = setting(False)
    """An agent with empty hands starts to cook what is in a pot. False: three ingredients cook by themselves."""
    negative_rewards: bool = setting(False)
    """Delivering a wrong dish costs ``delivery_reward``. False: it is worth nothing."""
    sample_recipe_on_delivery: bool = setting(False)
    """Draw a recipe after every right dish. False: only at the start of an episode."""
    indicate_successful_delivery: bool = setting(False)
    """Observe in one more layer whether the last step had a right delivery."""
    op_ingredient_permutations: tuple[int, ...] | None = setting(None, ge=0, le=9)
    """Ingredients that every agent sees in a random order of its episode, for other-play. None: none."""
    delivery_reward: float = setting(20.0)
    """Reward of all agents for a right dish."""
    indicator_activation_cost: float = setting(5.0)
    """Cost to all agents of pressing a button."""
    pot_cook_time: int = setting(20, ge=1, le=MAX_TIME)
    """Time to cook [steps]."""
    indicator_activation_time: int = setting(10, ge=1, le=MAX_TIME)
    """Time that a button works, with the step of the press [steps]."""
    placement_in_pot_reward: float = setting(3.0)
    """Shaped reward of placing an ingredient of which the recipe has more than the pot."""
    pot_start_cooking_reward: float = setting(5.0)
    """Shaped reward of starting to cook the recipe."""
    dish_pickup_reward: float = setting(5.0)
    """Shaped reward of taking the right dish from a pot."""
    plate_pickup_reward: float = setting(3.0)
    """Shaped reward of taking a useful plate from a pile."""
    reward_shaping_factor: float = setting(0.0)
    """Factor of the agent's shaped reward in its reward, as in JaxMARL's trainers; 0: only ``info`` has it."""
    time_limit: str = setting("truncation", choices=("termination", "truncation"))
    """Kind of the end at ``max_steps``. JaxMARL does not distinguish them, and the game has no terminal states."""
    channels_first: bool = setting(False)
    """Observe (layers, rows, columns), as networks with convolutions need it, instead of JaxMARL's (rows, columns,
    layers)."""

    def __post_init__(self) -> None:
        """Check the kitchen and its recipes, and convert them to tuples."""
        if self.layout_grid is not None:
            object.__setattr__(self, "layout_grid", layouts.read_grid(self.layout_grid))
        if self.possible_recipes is not None:
            object.__setattr__(self, "possible_recipes", layouts.read_recipes(self.possible_recipes))
        kitchen, name = self.kitchen, "layout" if self.layout_grid is None else "layout_grid"
        if self.layout_grid is not None and self.possible_recipes is None and not layouts.has_indicator(kitchen):
            raise ConfigError("layout_grid: expected a recipe indicator R, got none; add one, or set possible_recipes")
        layouts.check_solvable(kitchen, self.recipes, name if self.possible_recipes is None else "possible_recipes")
        order = self.op_ingredient_permutations
        if order is not None and (not order or len(set(order)) < len(order) or max(order) >= kitchen.num_ingredients):
            expected = f"different ingredients of 0 to {kitchen.num_ingredients - 1}, or None"
            raise ConfigError(f"op_ingredient_permutations: expected {expected}, got {shown(order)}")

    @property
    def kitchen(self) -> RecipeKitchen:
        """Numbers of the kitchen."""
        if self.layout_grid is not None:
            return _kitchen(self.layout_grid, False)
        text, _, reverse = LAYOUTS[self.layout]
        return _kitchen(tuple(text.split("|")), reverse)

    @property
    def recipes(self) -> tuple[layouts.Recipe, ...]:
        """Possible recipes."""
        recipes = LAYOUTS[self.layout][1] if self.layout_grid is None else None
        return self.possible_recipes or recipes or layouts.all_recipes(self.kitchen)

    @property
    def num_layers(self) -> int:
        """Number of layers of an observation."""
        return num_layers(self.kitchen.num_ingredients, self.indicate_successful_delivery)

    @property
    def view(self) -> tuple[int, int]:
        """Number of rows and of columns that an agent sees."""
        if self.agent_view_size is None:
            return self.kitchen.height, self.kitchen.width
        side = 2 * self.agent_view_size + 1
        return side, side


@cache
def _kitchen(rows: tuple[str, ...], reverse: bool) -> RecipeKitchen:
    return RecipeKitchen(rows, reverse)


def build(config: Config) -> EnvDefinition:
    kitchen = config.kitchen
    agents, cells, kinds = len(kitchen.starts), len(kitchen.kinds), kitchen.num_ingredients
    pots, counters, buttons = len(kitchen.pots), len(kitchen.counters), len(kitchen.buttons)
    (rows, columns), order = config.view, config.op_ingredient_permutations or ()
    named = roster(
        {"agent": agents},
        {"agent": rows * columns * config.num_layers},
        {"agent": spaces.Discrete(overcooked_v2.NUM_ACTIONS)},
    )
    named["observation_spaces"] = dict.fromkeys(named["agents"], observation_space(config))
    items = (0, (4 << 2 * kinds) - 1)
    rooms = kitchen.rooms[kitchen.starts]
    recipes = [sum(4 << 2 * ingredient for ingredient in recipe) for recipe in config.recipes]
    times = max(config.pot_cook_time, config.indicator_activation_time)
    sizes = Sizes(
        width=kitchen.width,
        height=kitchen.height,
        num_agents=agents,
        num_pots=pots,
        num_counters=counters,
        num_buttons=buttons,
        num_ingredients=kinds,
        view_size=config.agent_view_size,
        permutes=bool(order),
        indicates_delivery=config.indicate_successful_delivery,
        channels_first=config.channels_first,
    )
    return EnvDefinition(
        **named,
        rules=overcooked_v2.rules(sizes),
        params=params_of(config, overcooked_v2.Params, num_recipes=len(recipes), num_permuted=len(order)),
        state={
            "position": index((agents,), cells),
            "facing": index((agents,), 4),
            "inventory": integers((agents,), *items),
            "item": integers((pots + counters,), *items),
            "timer": integers((pots + buttons,), 0, times),
            "recipe": integers((), *items),
            "correct": index((), 2),
            "permutation": index((agents, kinds), kinds),
            "shaped": (agents,),
            "deliveries": integers((agents,), 0, MAX_INT),
            "key": any_bits(()),
            "target": index((agents,), cells),
            "blocked": index((agents,), 2),
            "terrain": integers((cells,), 0, (pots + counters + buttons + 1) << KIND_BITS),
            "room": integers((cells,), -1, cells - 1),
            "room_size": integers((agents,), 1, cells),
            "start": index((agents,), cells),
            "recipes": integers((len(recipes),), *items),
            "permuted": index((max(1, len(order)),), kinds),
        },
        initial={
            "terrain": kitchen.terrain,
            "room": kitchen.rooms,
            "room_size": (kitchen.rooms == rooms[:, None]).sum(1).astype(np.int32),
            "start": np.array(kitchen.starts, np.int32),
            "recipes": np.array(recipes, np.int32),
            "permuted": np.array(order or (0,), np.int32),
        },
        scratch=overcooked_v2.SCRATCH,
        info={"shaped_reward": "shaped", "deliveries": "deliveries"},
        results=("deliveries",),
        global_state_size=cells * config.num_layers + kinds + 1,
        max_episode_steps=config.max_steps,
        time_limit_terminates=config.time_limit == "termination",
        bounds=dict.fromkeys(
            (
                *("start_cooking_interaction", "negative_rewards", "sample_recipe_on_delivery"),
                *("random_reset", "random_agent_positions"),
            ),
            (0, 1),
        ),
        fixed_params=("pot_cook_time", "indicator_activation_time", "num_recipes", "num_permuted"),
        channels_first=True,
        draw=draw,
        render_fps=6,
    )


def _highs(config: Config) -> dict[int, int]:
    """Return the highest number of the layers that are not 0 or 1."""
    kinds = config.kitchen.num_ingredients
    agent = NUM_AGENT_LAYERS + kinds
    piles = 2 * agent + 6 + kinds
    firsts = (NUM_AGENT_LAYERS, agent + NUM_AGENT_LAYERS, piles + 2, piles + kinds + 4)
    counts = {first + kind: POT_SIZE for first in firsts for kind in range(kinds)}
    return counts | {piles + 2 * kinds + 4: config.pot_cook_time}


def observation_space(config: Config) -> spaces.Box:
    """Return the space of an agent's observation: flat (rows, columns, L), or an image (L, rows, columns)."""
    highs = np.ones(config.num_layers, np.float32)
    for layer, high in _highs(config).items():
        highs[layer] = high
    rows, columns = config.view
    high = np.tile(highs, rows * columns)
    if config.channels_first:
        high = np.tile(highs[:, None, None], (1, rows, columns))
    return spaces.Box(np.zeros_like(high), high, dtype=np.float32)


_DIRECTIONS = ("up", "down", "right", "left")


def _layer_names(config: Config) -> list[str]:
    """Return the meanings of the layers."""
    kinds = range(config.kitchen.num_ingredients)

    def contents(location: str) -> list[str]:
        counts = [f"number of ingredient {kind} {location}" for kind in kinds]
        return [f"plate {location}", f"cooked {location}", *counts]

    def agent(name: str, hands: str) -> list[str]:
        facing = [f"{name} here faces {direction}" for direction in _DIRECTIONS]
        return [f"{name} is here", *facing, *contents(hands)]

    return [
        *agent("the agent", "in its hands"),
        *agent("another agent", "in the other's hands"),
        *("counter", "goal", "pot", "recipe indicator", "button indicator", "pile of plates"),
        *(f"pile of ingredient {kind}" for kind in kinds),
        *contents("in a pot or on a counter"),
        *contents("in the recipe that is shown here"),
        "steps until the pot is ready",
        *(["goal after a right delivery in the last step"] if config.indicate_successful_delivery else []),
    ]


def action_names(config: Config, row: int) -> list[str]:
    return ["right", "down", "left", "up", "stay", "interact"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    names, highs, (rows, columns) = _layer_names(config), _highs(config), config.view
    if config.agent_view_size is None:
        cells = [f"column {x}, row {y}" for y in range(rows) for x in range(columns)]
    else:
        size = config.agent_view_size
        cells = [f"{x - size:+d} columns, {y - size:+d} rows from it" for y in range(rows) for x in range(columns)]
    if not config.channels_first:
        high = max(highs.values())
        return [ObservationBlock(f"layers of the cell in {cell}", "", 0, high, len(names), tuple(names))
                for cell in cells]  # fmt: skip
    last = config.num_layers - 1 - config.indicate_successful_delivery
    return [
        ObservationBlock(name, "steps" if layer == last else "", 0, highs.get(layer, 1), len(cells), cells)
        for layer, name in enumerate(names)
    ]
