"""Overcooked-v0 (2 agents): Two cooks fill pots and serve soups."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, index, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.kitchen.overcooked import recipes
from gpu_envs.envs.kitchen.overcooked.layouts import LAYOUTS, Kitchen, read_grid
from gpu_envs.envs.kitchen.overcooked.scene import draw
from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import MAX_FLOAT, MAX_INT, setting
from warp_kernels.kitchen.overcooked import overcooked
from warp_kernels.kitchen.overcooked.items import NUM_LAYERS, NUM_RECIPES, TICK

MAX_INGREDIENTS = 9
"""Most ingredients of a soup."""
MAX_TIME = 10**6
"""Longest time to cook [steps]."""
SHAPING = {"PLACEMENT_IN_POT_REW": 3.0, "DISH_PICKUP_REWARD": 3.0, "SOUP_PICKUP_REWARD": 5.0}
"""Shaped rewards of the original by its names."""
UNUSED = ("DISH_DISP_DISTANCE_REW", "POT_DISTANCE_REW", "SOUP_DISTANCE_REW")
"""Names that the original accepts and does not use."""
LAYER_HIGHS = {"ingredients": (16, 17, 18, 19), "time": (20,)}
"""Layers of an observation whose values are counts of ingredients and steps; the others are 0 or 1."""


@dataclass(frozen=True)
class Config:
    """Settings of Overcooked-v0, with the names and defaults of overcooked_ai. None: the value of the layout."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = dict.fromkeys(
        ("players", "num_players", "num_agents", "n_agents"), "a kitchen always has two players"
    )
    """Names of other environments."""

    layout_name: str = setting("cramped_room", choices=tuple(LAYOUTS), requires={"layout_grid": None})
    """Kitchen and orders of the original; only without ``layout_grid``."""
    layout_grid: Any = None
    """Kitchen of your own as rows of text, "XXPXX|O 12X|XDXSX" or a list: X counter, O and T onion and tomato
    dispenser, P pot, D dish dispenser, S serving place, 1 and 2 players, space floor. Its orders are all recipes,
    unless given."""
    horizon: int = setting(400, ge=1, le=MAX_INT)
    """Time limit [steps]. The last layer of observations is 1 in the last 40 steps."""
    old_dynamics: bool = setting(False)
    """Three ingredients start to cook by themselves, as in versions of Carroll et al. (2019) and in JaxMARL. False: a
    player with empty hands starts any number of ingredients."""
    start_all_orders: tuple[Any, ...] | None = None
    """Recipes that are worth a reward, as lists of "onion" and "tomato"; an empty list: all recipes."""
    start_bonus_orders: tuple[Any, ...] | None = None
    """Recipes among them whose reward is multiplied by ``order_bonus``."""
    order_bonus: float = setting(2.0)
    """Factor of the reward of a bonus order."""
    delivery_reward: float | None = None
    """Reward of every ordered recipe."""
    recipe_values: tuple[float, ...] | None = None
    """Reward per recipe of ``start_all_orders``."""
    onion_value: float | None = None
    """Reward per onion of a recipe; needs ``tomato_value``. Without any of these settings a recipe is worth 20."""
    tomato_value: float | None = None
    """Reward per tomato of a recipe; needs ``onion_value``."""
    cook_time: int | None = setting(None, ge=0, le=MAX_TIME)
    """Time to cook any recipe [steps]."""
    recipe_times: tuple[int, ...] | None = setting(None, ge=0, le=MAX_TIME)
    """Time to cook per recipe of ``start_all_orders`` [steps]; other recipes take 20."""
    onion_time: int | None = setting(None, ge=0, le=MAX_TIME // 10)
    """Time to cook per onion [steps]; needs ``tomato_time``. Without any of these settings a recipe takes 20."""
    tomato_time: int | None = setting(None, ge=0, le=MAX_TIME // 10)
    """Time to cook per tomato [steps]; needs ``onion_time``."""
    max_num_ingredients: int = setting(3, ge=1, le=MAX_INGREDIENTS)
    """Number of ingredients of a full pot."""
    rew_shaping_params: Any = None
    """Shaped rewards by name, a dict: PLACEMENT_IN_POT_REW (default 3), DISH_PICKUP_REWARD (3) and SOUP_PICKUP_REWARD
    (5)."""
    reward_shaping_factor: float = setting(0.0)
    """Factor of the agent's own shaped reward in its reward, as in the original's trainer; 0: only ``info`` has it."""
    random_start_pos: bool = setting(False)
    """Start players on random floor cells."""
    rnd_obj_prob_thresh: float = setting(0.0, ge=0.0, le=1.0)
    """Probability with which each pot and each hand starts with a random item."""
    time_limit: str = setting("truncation", choices=("termination", "truncation"))
    """Kind of the end at ``horizon``. The original does not distinguish them, and its game has no terminal states."""
    channels_first: bool = setting(False)
    """Observe (26, width, height), as networks with convolutions need it, instead of the original's (width, height,
    26)."""

    def __post_init__(self) -> None:
        """Check the kitchen and all orders, and convert them to tuples."""
        if self.layout_grid is not None:
            object.__setattr__(self, "layout_grid", read_grid(self.layout_grid))
        for name in ("start_all_orders", "start_bonus_orders"):
            if getattr(self, name) is not None:
                orders = recipes.read_orders(name, getattr(self, name), self.max_num_ingredients)
                object.__setattr__(self, name, orders)
        shaping = _read_shaping(self.rew_shaping_params)
        object.__setattr__(self, "rew_shaping_params", None if shaping == SHAPING else tuple(shaping.items()))
        recipes.check(self.orders)
        sizes = {len(recipe) for recipe in self.orders["start_all_orders"] or recipes.all_recipes(1)}
        if self.old_dynamics and (sizes != {3} or self.max_num_ingredients != 3):
            raise ConfigError("old_dynamics: expected orders and pots of 3 ingredients only; set start_all_orders")
        if self.rnd_obj_prob_thresh > 0.0 and self.max_num_ingredients < 3:
            raise ConfigError(
                f"rnd_obj_prob_thresh: expected 0 with pots of less than 3 ingredients, got {self.rnd_obj_prob_thresh}"
            )

    @property
    def kitchen(self) -> Kitchen:
        """Numbers of the kitchen."""
        return _kitchen(self.layout_grid or LAYOUTS[self.layout_name]["layout_grid"])

    @property
    def orders(self) -> dict[str, Any]:
        """Settings of orders, rewards and times: the layout's, replaced by the user's that are not None."""
        layout = {} if self.layout_grid is not None else LAYOUTS[self.layout_name]
        names = (
            *("start_all_orders", "start_bonus_orders", "delivery_reward", "recipe_values", "onion_value"),
            *("tomato_value", "cook_time", "recipe_times", "onion_time", "tomato_time"),
        )
        merged = {name: layout.get(name) if getattr(self, name) is None else getattr(self, name) for name in names}
        settings = {name: value for name, value in merged.items() if value is not None}
        return {"start_all_orders": (), "start_bonus_orders": ()} | settings

    @property
    def shaping(self) -> dict[str, float]:
        """Shaped rewards by the names of the original."""
        return dict(self.rew_shaping_params or SHAPING)

    @property
    def longest_time(self) -> int:
        """Longest time to cook of any recipe [steps]."""
        return int(recipes.cook_times(self.orders, self.max_num_ingredients).max())


@cache
def _kitchen(rows: tuple[str, ...]) -> Kitchen:
    return Kitchen(rows)


def _read_shaping(params: Any) -> dict[str, float]:
    """Return all shaped rewards by name.

    Raises:
        ConfigError: The setting is no dict of known names and finite numbers.
    """
    if params is None:
        return dict(SHAPING)
    names = ", ".join(SHAPING)
    try:
        pairs = dict(params)
    except (TypeError, ValueError):
        raise ConfigError(f"rew_shaping_params: expected a dict of {names}, got {shown(params)}") from None
    for name, value in pairs.items():
        if name not in SHAPING and name not in UNUSED:
            raise ConfigError(f"rew_shaping_params: expected the names {names}, got {shown(name)}")
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT
        if not number or (name in UNUSED and value != 0):
            expected = "0, as the original does not use it" if name in UNUSED else "a finite number"
            raise ConfigError(f"rew_shaping_params[{name}]: expected {expected}, got {shown(value)}")
    return {name: float(pairs.get(name, default)) for name, default in SHAPING.items()}


def build(config: Config) -> EnvDefinition:
    kitchen, shaping, limit = config.kitchen, config.shaping, config.max_num_ingredients
    cells, surfaces = len(kitchen.terrain), len(kitchen.surfaces)
    players = overcooked.NUM_PLAYERS
    size = cells * NUM_LAYERS
    named = roster({"player": players}, {"player": size}, {"player": spaces.Discrete(overcooked.NUM_ACTIONS)})
    named["observation_spaces"] = dict.fromkeys(named["agents"], observation_space(config))
    items, hands = (0, MAX_INT), (0, TICK - 1)
    return EnvDefinition(
        **named,
        rules=overcooked.rules(kitchen.width, kitchen.height, surfaces, kitchen.num_pots, config.channels_first),
        params=params_of(
            config,
            overcooked.Params,
            placement_in_pot_reward=shaping["PLACEMENT_IN_POT_REW"],
            dish_pickup_reward=shaping["DISH_PICKUP_REWARD"],
            soup_pickup_reward=shaping["SOUP_PICKUP_REWARD"],
            max_num_ingredients=limit,
            num_floor=len(kitchen.floor),
        ),
        state={
            "position": index((players,), cells),
            "facing": index((players,), 4),
            "inventory": integers((players,), *hands),
            "item": integers((surfaces,), *items),
            "sparse": (players,),
            "shaped": (players,),
            "soups": integers((players,), 0, MAX_INT),
            "seen_item": integers((surfaces,), *items),
            "seen_player": integers((players,), 0, MAX_INT),
            "seen_urgent": index((players,), 2),
            "is_blank": index((players,), 2),
            "num_changed": integers((), 0, surfaces),
            "changed": index((surfaces,), surfaces),
            "was_player": integers((players,), 0, MAX_INT),
            "terrain": integers((cells,), 0, 8 * max(surfaces, 1)),
            "surface": index((surfaces,), cells),
            "floor": index((len(kitchen.floor),), cells),
            "start": index((players,), cells),
            "cook_time": integers((NUM_RECIPES,), 0, MAX_TIME),
            "value": (NUM_RECIPES,),
        },
        initial={
            "terrain": kitchen.terrain,
            "surface": np.array(kitchen.surfaces, np.int32),
            "floor": np.array(kitchen.floor, np.int32),
            "start": np.array(kitchen.start, np.int32),
            "cook_time": recipes.cook_times(config.orders, limit),
            "value": recipes.values(config.orders, config.order_bonus, limit),
        },
        scratch=overcooked.SCRATCH,
        info={"sparse_r_by_agent": "sparse", "shaped_r_by_agent": "shaped", "soups": "soups"},
        results=("soups",),
        global_state_size=size + 1,
        max_episode_steps=config.horizon,
        time_limit_terminates=config.time_limit == "termination",
        bounds={"old_dynamics": (0, 1), "random_start_pos": (0, 1)},
        fixed_params=("old_dynamics", "max_num_ingredients", "num_floor"),
        channels_first=True,
        draw=draw,
        render_fps=6,
    )


def observation_space(config: Config) -> spaces.Box:
    """Return the space of a player's observation: flat (width, height, 26), or an image (26, width, height)."""
    highs = np.ones(NUM_LAYERS, np.float32)
    highs[list(LAYER_HIGHS["ingredients"])] = config.max_num_ingredients
    highs[list(LAYER_HIGHS["time"])] = config.longest_time
    cells = len(config.kitchen.terrain)
    high = np.tile(highs, cells)
    if config.channels_first:
        high = np.tile(highs[:, None, None], (1, config.kitchen.width, config.kitchen.height))
    return spaces.Box(np.zeros_like(high), high, dtype=np.float32)


_DIRECTIONS = ("north", "south", "east", "west")
_LAYERS = (
    *("the player is here", "the other player is here"),
    *(f"the player here faces {direction}" for direction in _DIRECTIONS),
    *(f"the other player here faces {direction}" for direction in _DIRECTIONS),
    *("pot", "counter", "onion dispenser", "tomato dispenser", "dish dispenser", "serving place"),
    *("onions in a pot that does not cook", "tomatoes in a pot that does not cook"),
    *("onions in a soup", "tomatoes in a soup", "steps until the soup is ready", "ready soup"),
    *("dish", "onion", "tomato", "fewer than 40 steps are left"),
)
"""Meanings of the 26 layers; items in hands are in the cell of their player."""


def action_names(config: Config, row: int) -> list[str]:
    return [*_DIRECTIONS, "stay", "interact"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    cells = [f"column {x}, row {y}" for x in range(config.kitchen.width) for y in range(config.kitchen.height)]
    highs = dict.fromkeys(LAYER_HIGHS["ingredients"], config.max_num_ingredients)
    highs |= dict.fromkeys(LAYER_HIGHS["time"], config.longest_time)
    if not config.channels_first:
        high = max(highs.values())
        return [ObservationBlock(f"layers of the cell in {cell}", "", 0, high, len(_LAYERS), _LAYERS) for cell in cells]
    return [
        ObservationBlock(
            meaning, "steps" if layer in LAYER_HIGHS["time"] else "", 0, highs.get(layer, 1), len(cells), cells
        )
        for layer, meaning in enumerate(_LAYERS)
    ]
