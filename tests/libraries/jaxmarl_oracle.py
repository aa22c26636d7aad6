"""Steps of JaxMARL 0.2.0 from states of SwitchRiddle-v0, CoinGame-v0 and OvercookedV2-v0, with their random numbers.

The recorded traces of the quick tests are made by this module:

    .nox/jaxmarl/bin/python -m libraries.jaxmarl_oracle   # in the folder tests
"""

from unittest import mock

import jax
import jax.numpy as jnp
import jaxmarl
from jaxmarl.environments.overcooked_v2 import Layout, OvercookedV2
from jaxmarl.environments.overcooked_v2.common import Agent, Position
from jaxmarl.environments.overcooked_v2.overcooked import State
from libraries import jax_steps
from parity.jax_replay import kitchen_settings

from gpu_envs.envs.kitchen.overcooked_v2 import Config
from gpu_envs.envs.kitchen.overcooked_v2.layouts import LAYOUTS

KEY = jax.random.PRNGKey(0)


def with_draws(step, draws):
    """Return the result of ``step()``, in which JaxMARL draws these integers one after another."""
    with mock.patch.object(jax.random, "randint", side_effect=draws):
        return step()


def switch_riddle(settings):
    """Return ``f(previous, after, action) -> results`` of a batch of SwitchRiddle."""
    env = jaxmarl.make("switch_riddle", **settings)
    state_type = type(env.reset(KEY)[1])
    step_env = type(env).step_env.__wrapped__  # the random numbers would be constants of the compiled one

    def step_world(previous, room, action):
        fields = dict(bulb_state=previous["bulb"] == 1, agent_in_room=previous["room"], has_been=previous["been"])
        state = state_type(**fields, done=jnp.array(False), step=previous["step"])
        actions = dict(zip(env.agents, action, strict=True))
        obs, new, reward, done, _ = with_draws(lambda: step_env(env, KEY, state, actions), [room])
        return {
            "obs": jnp.stack([obs[agent] for agent in env.agents]),
            "reward": jnp.stack([reward[agent] for agent in env.agents]),
            "done": jnp.stack([done[agent] for agent in env.agents]),
            "bulb": new.bulb_state,
            "room": new.agent_in_room,
            "been": new.has_been,
        }

    batch = jax_steps.jitted(step_world)
    return lambda previous, after, action: batch(previous, after["room"], action)


def coin_game(settings):
    """Return ``f(previous, after, action) -> results`` of a batch of CoinGame."""
    env = jaxmarl.make("coin_game", **settings)
    state_type = type(env.reset(KEY)[1])
    inner = env.num_inner_steps

    def step_world(previous, after, action):
        sides = ("red", "blue")
        counters = [("coop", "own_coins"), ("defect", "other_coins")]
        fields = {f"{side}_pos": previous["player"][row] for row, side in enumerate(sides)}
        fields |= {f"{side}_coin_pos": previous["coin"][row] for row, side in enumerate(sides)}
        fields |= {
            f"{side}_{theirs}": previous[name][row].astype(jnp.int8)
            for theirs, name in counters
            for row, side in enumerate(sides)
        }
        counts = dict(counter=previous["convention_steps"], coop1=previous["convention_own"][0])
        counts |= dict(coop2=previous["convention_own"][1], last_state=previous["convention"])
        fields |= {name: values.astype(float) for name, values in counts.items()}
        clocks = dict(step=previous["step"] % inner, outer_t=previous["step"] // inner, done=jnp.array(False))
        state = state_type(**fields, **clocks)
        actions = dict(zip(env.agents, action, strict=True))
        draws = [after["coin"], jnp.concatenate([after["player"], after["coin"]])]
        obs, new, reward, done, info = with_draws(lambda: env.step_env(KEY, state, actions), draws)
        observations = [obs[agent] for agent in env.agents]
        if env.cnn:  # layers first
            observations = [jnp.moveaxis(observation, -1, 0) for observation in observations]
        totals = {name: [getattr(new, f"{side}_{theirs}") for side in sides] for theirs, name in counters}
        return {
            "obs": jnp.stack([observation.ravel() for observation in observations]),
            "reward": jnp.stack([reward[agent] for agent in env.agents]),
            "done": jnp.stack([done[agent] for agent in env.agents]),
            "inner_done": jnp.stack([info["inner_episode_done"]] * 2),
            "player": jnp.stack([new.red_pos, new.blue_pos]),
            "coin": jnp.stack([new.red_coin_pos, new.blue_coin_pos]),
            **{name: jnp.stack(values) for name, values in totals.items()},
            "convention": new.last_state,
            "convention_steps": new.counter,
            "convention_own": jnp.stack([new.coop1, new.coop2]),
        }

    return jax_steps.jitted(step_world)


OURS = ("layout_grid", "possible_recipes", "reward_shaping_factor", "time_limit", "channels_first")
"""Settings of OvercookedV2-v0 that are no arguments of JaxMARL's class."""


def make_overcooked_v2(settings):
    """Return JaxMARL's environment with these settings of OvercookedV2-v0."""
    options = {name: value for name, value in settings.items() if name not in OURS}
    if "layout_grid" in settings:
        recipes = settings.get("possible_recipes")
        recipes = recipes and [list(recipe) for recipe in recipes]
        options["layout"] = Layout.from_string("\n".join(settings["layout_grid"]), recipes)
    if "op_ingredient_permutations" in options:
        options["op_ingredient_permutations"] = list(options["op_ingredient_permutations"])
    return OvercookedV2(**options)


def overcooked_v2(settings):
    """Return ``f(previous, after, action) -> results`` of a batch of OvercookedV2."""
    env, kitchen = make_overcooked_v2(settings), Config(**settings).kitchen
    surfaces = jnp.array([*kitchen.pots, *kitchen.counters])
    timers = jnp.array([*kitchen.pots, *kitchen.buttons])
    static = jnp.asarray(env.layout.static_objects, jnp.int32)
    recipes = jnp.stack([jnp.sum(4 << 2 * recipe) for recipe in env.possible_recipes])
    width, cells = kitchen.width, len(kitchen.kinds)

    def step_world(previous, recipe, action):
        position = previous["position"]
        layers = jnp.zeros((cells, 3), jnp.int32).at[:, 0].set(static.ravel())
        layers = layers.at[surfaces, 1].set(previous["item"]).at[timers, 2].set(previous["timer"])
        position = Position(x=position % width, y=position // width)
        state = State(
            agents=Agent(pos=position, dir=previous["facing"], inventory=previous["inventory"]),
            grid=layers.reshape(*static.shape, 3),
            recipe=previous["recipe"],
            new_correct_delivery=previous["correct"] == 1,
            ingredient_permutations=previous["permutation"] if env.op_ingredient_permutations else None,
            step=previous["step"],
            done=jnp.array(False),
        )
        actions = dict(zip(env.agents, action, strict=True))
        drawn = jnp.argmax(recipes == recipe)
        obs, new, reward, done, info = with_draws(lambda: env.step_env(KEY, state, actions), [drawn])
        shaped = jnp.stack([info["shaped_reward"][agent] for agent in env.agents])
        grid = new.grid.reshape(cells, 3)
        observations = [obs[agent] for agent in env.agents]
        if settings.get("channels_first"):
            observations = [jnp.moveaxis(observation, -1, 0) for observation in observations]
        return {
            "obs": jnp.stack([observation.ravel() for observation in observations]),
            "reward": jnp.stack([reward[agent] for agent in env.agents])
            + settings.get("reward_shaping_factor", 0.0) * shaped,
            "done": jnp.stack([done[agent] for agent in env.agents]),
            "shaped": shaped,
            "position": new.agents.pos.y * width + new.agents.pos.x,
            "facing": new.agents.dir,
            "inventory": new.agents.inventory,
            "item": grid[surfaces, 1],
            "timer": grid[timers, 2],
            "recipe": new.recipe,
            "correct": new.new_correct_delivery,
        }

    batch = jax_steps.jitted(step_world)
    return lambda previous, after, action: batch(previous, after["recipe"], action)


ORIGINALS = {"SwitchRiddle-v0": switch_riddle, "CoinGame-v0": coin_game, "OvercookedV2-v0": overcooked_v2}


def random_settings(env_id, rng):
    """Return settings drawn at random."""
    if env_id == "SwitchRiddle-v0":
        return {
            "num_agents": int(rng.integers(3, 8)),
            "initial_bulb_state": bool(rng.random() < 0.5),
            "reward_all_die": -float(rng.integers(1, 5)),
            "reward_all_live": float(rng.integers(1, 5)) / 2,
        }
    if env_id == "OvercookedV2-v0":
        layout = str(rng.choice([name for name, (text, *_) in LAYOUTS.items() if "1" in text]))
        return kitchen_settings(int(rng.integers(12)), layout) | {
            "agent_view_size": int(rng.integers(1, 5)),
            "channels_first": bool(rng.random() < 0.5),
            "negative_rewards": True,
            "max_steps": int(rng.integers(8, 40)),
        }
    return {
        "num_inner_steps": int(rng.integers(1, 12)),
        "num_outer_steps": int(rng.integers(1, 5)),
        "cnn": bool(rng.random() < 0.5),
        "egocentric": bool(rng.random() < 0.5),
        "shared_rewards": bool(rng.random() < 0.3),
        "payoff_matrix": tuple(tuple(float(value) for value in row) for row in rng.integers(-3, 4, (2, 3))),
    }


def compare(env_id, settings, num_envs, steps, seed):
    """Step worlds at random, and JaxMARL from the same states; return the transitions and counts of cases."""
    return jax_steps.compare(ORIGINALS[env_id](settings), env_id, settings, num_envs, steps, seed)


def record_all(folder=None):
    """Write the traces of the quick tests; return their paths."""
    return [jax_steps.record(env_id, original, folder) for env_id, original in ORIGINALS.items()]


if __name__ == "__main__":
    record_all()
