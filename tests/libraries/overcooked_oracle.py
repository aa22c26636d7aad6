"""Transitions of overcooked_ai 1.1.0, which replays compare with Overcooked-v0.

Those with `old_dynamics` are of the package `overcooked` 0.2.1, which has the rules of later versions of overcooked_ai.
The old dynamics are compared with JaxMARL, too, in test_jaxmarl_overcooked.py.

The recorded traces of the quick tests are made by this module:

    .nox/overcooked/bin/python -m libraries.overcooked_oracle   # in the folder tests
"""

import json
from collections import deque
from pathlib import Path

import numpy as np
from parity.traces import write_arrays

from gpu_envs.envs.kitchen.overcooked.layouts import Kitchen

np.Inf = np.inf  # noqa: NPY201  # the name that the original uses, which NumPy 2 has removed

from overcooked.mdp import overcooked_mdp as later  # noqa: E402
from overcooked_ai_py.mdp import overcooked_mdp as original  # noqa: E402
from overcooked_ai_py.mdp.actions import Action, Direction  # noqa: E402
from overcooked_ai_py.mdp.overcooked_env import OvercookedEnv  # noqa: E402

TRACE = Path(__file__).parents[1] / "parity" / "kitchen" / "overcooked.npz.xz"
KINDS = {"dish": 1, "onion": 2, "tomato": 3, "soup": 4}
ONION, TOMATO = "onion", "tomato"
# Settings of the recorded traces.
TRACED = (
    dict(horizon=120),
    dict(layout_name="counter_circuit", horizon=200),
    dict(layout_name="forced_coordination", old_dynamics=True, horizon=200),
    dict(
        layout_grid="XXPXPX|O1  2T|X  X S|XDX XX|XXXTXX", horizon=100, start_bonus_orders=[[TOMATO, ONION]],
        onion_value=3, tomato_value=7, onion_time=2, tomato_time=3, order_bonus=3,
        rew_shaping_params={"PLACEMENT_IN_POT_REW": 1, "DISH_PICKUP_REWARD": 2, "SOUP_PICKUP_REWARD": 4},
    ),
)  # fmt: skip


def make(**settings):
    """Return an original environment with these settings of Overcooked-v0."""
    options = dict(settings)
    horizon, name, grid = options.pop("horizon", 400), options.pop("layout_name", "cramped_room"), None
    if "layout_grid" in options:
        grid = options.pop("layout_grid").split("|")
    for orders in ("start_all_orders", "start_bonus_orders"):
        if orders in options:
            options[orders] = [{"ingredients": list(order)} for order in options[orders]]
    for package in (original, later):
        package.Recipe.ALL_RECIPES_CACHE.clear()  # otherwise recipes of earlier settings would be orders
    if grid is None:
        layout = original.OvercookedGridworld.from_layout_name(name)
        base = dict(
            terrain=layout.terrain_mtx, start_player_positions=layout.start_player_positions, layout_name=name,
            start_all_orders=layout.start_all_orders, start_bonus_orders=layout.start_bonus_orders,
        )  # fmt: skip
        base |= {key: value for key, value in layout.recipe_config.items() if key not in ("all_orders",)}
    else:
        layout = original.OvercookedGridworld.from_grid(grid)
        base = dict(terrain=layout.terrain_mtx, start_player_positions=layout.start_player_positions)
    original.Recipe.ALL_RECIPES_CACHE.clear()
    kitchen = (later if options.get("old_dynamics") else original).OvercookedGridworld(**base | options)
    return OvercookedEnv(lambda _: kitchen, horizon=horizon, info_level=0)


def random_settings(rng):
    """Return settings drawn at random, most of them with a random kitchen."""
    settings = dict(horizon=int(rng.integers(60, 300)))
    if rng.random() < 0.25:
        names = ("asymmetric_advantages", "coordination_ring", "counter_circuit_o_1order", "cramped_room")
        settings["layout_name"] = str(rng.choice(names))
    else:
        settings["layout_grid"] = random_grid(rng)
        maximum = settings["max_num_ingredients"] = int(rng.choice([3, 3, 2, rng.integers(4, 10)]))
        sizes = rng.integers(1, maximum + 1, int(rng.integers(0, 5)))
        orders = {tuple(sorted(rng.choice([ONION, TOMATO], size).tolist())) for size in sizes}
        if rng.random() < 0.3 and maximum == 3:
            settings["old_dynamics"] = True
            orders = {(ONION,) * 3, (ONION, TOMATO, TOMATO)}
        orders = settings["start_all_orders"] = sorted(orders)
        settings["start_bonus_orders"] = orders[:1] if rng.random() < 0.5 else []
        settings["order_bonus"] = int(rng.integers(1, 4))
        kind = int(rng.integers(0, 4))
        if kind == 1 and orders:
            settings["recipe_values"] = rng.integers(0, 30, len(orders)).tolist()
            settings["recipe_times"] = rng.integers(0, 12, len(orders)).tolist()
        elif kind == 2:
            settings |= dict(onion_value=5, tomato_value=int(rng.integers(0, 9)), onion_time=3, tomato_time=2)
        elif kind == 3:
            settings |= dict(delivery_reward=int(rng.integers(0, 9)), cook_time=int(rng.integers(0, 9)))
    if rng.random() < 0.4:
        names = ("PLACEMENT_IN_POT_REW", "DISH_PICKUP_REWARD", "SOUP_PICKUP_REWARD")
        settings["rew_shaping_params"] = {name: int(rng.integers(0, 9)) for name in names}
    fixed = {"layout_name", "old_dynamics", "recipe_values"} & settings.keys()
    if not fixed and rng.random() < 0.6:  # all recipes, so that more soups are worth a reward
        settings["start_all_orders"] = settings["start_bonus_orders"] = []
    return settings


def random_grid(rng):
    """Return a random kitchen as text, with two players in one or two rooms."""
    while True:
        width, height = (int(size) for size in rng.integers(4, [9, 8]))
        cells = np.full((height, width), "X")
        cells[1:-1, 1:-1] = np.where(rng.random((height - 2, width - 2)) < 0.2, "X", " ")
        walls = np.argwhere(cells == "X")
        rng.shuffle(walls)
        things = "PDSO" + "".join(rng.choice(list("PDSOT"), int(rng.integers(1, 6))))
        if len(walls) < len(things):
            continue
        for (row, column), thing in zip(walls, things, strict=False):
            cells[row, column] = thing
        free = np.argwhere(cells == " ")
        if len(free) < 3:
            continue
        rng.shuffle(free)
        for (row, column), player in zip(free, "12", strict=False):
            cells[row, column] = player
        return "|".join("".join(row) for row in cells)


def code_of(item):
    """Return the number of an item in Overcooked-v0, 0 for None."""
    if item is None:
        return 0
    number = KINDS[item.name]
    if item.name == "soup":
        number |= (item.ingredients.count(ONION) + 16 * item.ingredients.count(TOMATO)) << 3
    return number


def state_of(env):
    """Return cells, orientations and items in hands of the players, items on surfaces, and the clock."""
    height, state = env.mdp.height, env.state
    kitchen = kitchen_of(env.mdp)
    positions = [x * height + y for x, y in state.player_positions]
    facing = [Direction.DIRECTION_TO_INDEX[player.orientation] for player in state.players]
    hands = [code_of(player.held_object) for player in state.players]
    item = np.zeros(len(kitchen.surfaces), np.int32)
    for (x, y), thing in state.objects.items():
        surface = kitchen.surfaces.index(x * height + y)
        ticks = thing._cooking_tick + 1 if surface < kitchen.num_pots else 0
        item[surface] = code_of(thing) | ticks << 11
    return dict(position=positions, facing=facing, inventory=hands, item=item, step=state.timestep)


def kitchen_of(mdp):
    """Return the kitchen of a layout, whose players stand where they start."""
    rows = [list(row) for row in mdp.terrain_mtx]
    for player, (x, y) in enumerate(mdp.start_player_positions):
        rows[y][x] = str(player + 1)
    return Kitchen(tuple("".join(row) for row in rows))


class Cook:
    """A player that goes to something useful or random, and uses it; some of its actions are random."""

    def __init__(self, mdp, index, rng):
        self.mdp, self.index, self.rng, self.goal = mdp, index, rng, None

    def wishes(self, state):
        """Return the places that are useful now."""
        of, item = self.mdp.terrain_pos_dict, state.players[self.index].held_object
        pots = {pot: state.objects.get(pot) for pot in of["P"]}
        ready = [pot for pot, soup in pots.items() if soup is not None and not soup.is_idle]
        idle = [pot for pot, soup in pots.items() if soup is not None and soup.is_idle]
        open_pots = [pot for pot in of["P"] if pot not in ready]
        if item is None:
            full = [pot for pot in idle if pots[pot].is_full]
            items = [cell for cell in of["X"] if cell in state.objects]
            return full * 3 or [*of["D"] * 2 * len(ready), *idle, *of["O"], *of["T"], *items]
        if self.rng.random() < 0.15:
            return of["X"]
        return {"dish": ready, "soup": of["S"]}.get(item.name, open_pots) or of["X"]

    def act(self, state):
        """Return an action."""
        player = state.players[self.index]
        if self.goal is None or self.rng.random() < 0.05:
            places = self.wishes(state)
            self.goal = places[self.rng.integers(len(places))] if places else None
        way = None if self.goal is None else self.first_step(player)
        if way is None or self.rng.random() < 0.15:
            self.goal = None if way is None else self.goal
            return int(self.rng.integers(6))
        if way == Action.INTERACT:
            self.goal = None
        return Action.ACTION_TO_INDEX[way]

    def first_step(self, player):
        """Return the first action of a shortest way to the goal, or None."""
        floor = set(self.mdp.get_valid_player_positions())
        reached, ways = {player.position}, deque([(player.position, None)])
        while ways:
            cell, first = ways.popleft()
            for direction in Direction.ALL_DIRECTIONS:
                target = Action.move_in_direction(cell, direction)
                if target == self.goal:
                    is_start = cell == player.position
                    return (Action.INTERACT if player.orientation == direction else direction) if is_start else first
                if target in floor and target not in reached:
                    reached.add(target)
                    ways.append((target, first or direction))
        return None


def record(settings, steps, seed):
    """Play an original; return the arrays of its transitions, with a leading number of steps, by name."""
    env, rng, trace = make(**settings), np.random.default_rng(seed), {}
    maximum = env.mdp.recipe_config.get("max_num_ingredients", 3)
    start = env.mdp.get_random_start_state_fn(True, 0.3 if maximum >= 3 else 0.0)
    cooks = [Cook(env.mdp, index, rng) for index in range(2)]
    np.random.seed(seed)  # noqa: NPY002  # the original draws from it
    env.state = start()
    for _ in range(steps):
        previous = state_of(env)
        action = [cook.act(env.state) for cook in cooks]
        joint = tuple(Action.INDEX_TO_ACTION[index] for index in action)
        env.state, info = env.mdp.get_state_transition(env.state, joint)
        after, obs = state_of(env), env.lossless_state_encoding_mdp(env.state)
        values = dict(
            previous, action=action, sparse=info["sparse_reward_by_agent"], shaped=info["shaped_reward_by_agent"],
            obs=np.stack(obs).reshape(2, -1), done=env.is_done(),
            **{f"after_{name}": after[name] for name in ("position", "facing", "inventory", "item")},
        )  # fmt: skip
        for name, value in values.items():
            trace.setdefault(name, []).append(value)
        if env.is_done():
            env.state = start() if rng.random() < 0.7 else env.mdp.get_standard_start_state()
    small = dict(action=np.int8, obs=np.int16, sparse=np.float32, shaped=np.float32, done=bool)
    return {name: np.array(values).astype(small.get(name, np.int32)) for name, values in trace.items()}


def record_all(path=TRACE, steps=500):
    """Write the traces of the quick tests."""
    arrays = {"settings": np.array(json.dumps(TRACED))}
    for index, settings in enumerate(TRACED):
        for name, values in record(settings, steps, seed=index).items():
            arrays[f"{index}.{name}"] = values
    write_arrays(path, arrays)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
