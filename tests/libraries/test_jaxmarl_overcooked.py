"""Overcooked-v0 with its old dynamics against Overcooked of JaxMARL 0.2.0, step by step; kitchens of OvercookedV2-v0.

The package overcooked_ai 1.1.0 has no old dynamics, so JaxMARL's is the oracle that was written elsewhere. Its
observations differ in one layer: a counter is none while something lies on it. If both players interact, the second
one's shaped reward for a dish depends on the pots before the step in overcooked_ai, and after the first player's action
in JaxMARL.
"""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax.core.frozen_dict import FrozenDict
from jaxmarl.environments.overcooked.common import DIR_TO_VEC, OBJECT_TO_INDEX
from jaxmarl.environments.overcooked.overcooked import POT_EMPTY_STATUS, Overcooked
from jaxmarl.environments.overcooked_v2 import OvercookedV2, overcooked_v2_layouts
from libraries.oracle_checks import assert_equally_frequent

from gpu_envs.envs.kitchen.overcooked.layouts import LAYOUTS
from gpu_envs.envs.kitchen.overcooked_v2.layouts import LAYOUTS as LAYOUTS_V2
from gpu_envs.runtime.factory import make_core

WORLDS, ROUNDS, STEPS, INTERACT = 128, 4, 100, 5
WORDS = {"wall_idx": "XOPDS", "onion_pile_idx": "O", "plate_pile_idx": "D", "pot_idx": "P", "goal_idx": "S"}
"""Characters of a kitchen by part of a layout of JaxMARL, which counts cells row by row."""
PLAYERS, POT, COUNTER, THINGS = [0, 1], 10, 11, [21, 22, 23]
"""Layers of observations; things are soups, dishes and onions."""
DISH, ONION, SOUP_OF_ONIONS = 1, 2, 4 + 3 * 8
"""Items of Overcooked-v0; the last one is on a dish."""
HELD = {0: "empty", ONION: "onion", DISH: "plate", SOUP_OF_ONIONS: "dish"}
"""Names of JaxMARL's items by item of Overcooked-v0."""


def original(rows):
    """Return an environment of JaxMARL with the kitchen of these rows of text."""
    text = "".join(rows)
    layout = {name: jnp.array([k for k, letter in enumerate(text) if letter in kinds]) for name, kinds in WORDS.items()}
    layout["agent_idx"] = jnp.array([text.index(player) for player in "12"])
    return Overcooked(FrozenDict(layout | {"height": len(rows), "width": len(rows[0])}), max_steps=STEPS)


def starts(env, core, rng):
    """Start an episode with random onions in the pots and random items in the hands; return JaxMARL's states."""
    core.reset()
    onions, hands = rng.integers(0, 4, WORLDS), rng.choice(list(HELD), (WORLDS, 2))
    mine = core.get_state()
    soups = torch.from_numpy(np.where(onions, 4 + 8 * onions, 0))
    mine["state.item"][:, : core.config.kitchen.num_pots] = soups[:, None]
    mine["state.inventory"][:] = torch.from_numpy(hands)
    core.set_state(mine)
    state = jax.vmap(env.reset)(jax.random.split(jax.random.PRNGKey(0), WORLDS))[1]
    padding = (state.maze_map.shape[1] - env.height) // 2
    x, y = (padding + state.pot_pos[0, :, axis] for axis in (0, 1))
    pots = state.maze_map.at[:, y, x, 2].set(jnp.asarray(POT_EMPTY_STATUS - onions, state.maze_map.dtype)[:, None])
    items = np.vectorize(lambda item: OBJECT_TO_INDEX[HELD[item]])(hands)
    north = jnp.zeros((WORLDS, 2), jnp.int32)  # the original starts in random directions
    return state.replace(agent_dir_idx=north, agent_dir=DIR_TO_VEC[north], maze_map=pots, agent_inv=jnp.asarray(items))


def with_full_counters(obs):
    """Return observations of JaxMARL, (E, H, W, 26), as (E, W, H, 26), with counters under things, too."""
    obs = np.array(obs).swapaxes(1, 2)
    lies = obs[..., THINGS].any(-1) & ~obs[..., PLAYERS].any(-1) & (obs[..., POT] == 0)
    assert not obs[lies, COUNTER].any()
    obs[lies, COUNTER] = 1
    return obs


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "counter_circuit"])  # JaxMARL has no tomatoes
def test_steps_with_old_dynamics_equal_those_of_jaxmarl(name):
    """Observations, rewards, shaped rewards and ends of random play."""
    env = original(LAYOUTS[name]["layout_grid"])
    step = jax.jit(jax.vmap(env.step_env))
    settings = {"layout_name": name, "old_dynamics": True, "horizon": STEPS, "autoreset": "disabled"}
    core = make_core("Overcooked-v0", WORLDS, "cpu", seed=0, **settings)
    pots, rng, total = core.config.kitchen.num_pots, np.random.default_rng(0), Counter()
    keys = jax.random.split(jax.random.PRNGKey(1), WORLDS)
    for index in range(ROUNDS * STEPS):
        if index % STEPS == 0:
            state = starts(env, core, rng)
        action = torch.from_numpy(rng.choice(6, (WORLDS, 2), p=(0.15, 0.15, 0.15, 0.15, 0.05, 0.35)))
        alone = (action == INTERACT).sum(1) < 2
        actions = {agent: jnp.asarray(action[:, player].numpy()) for player, agent in enumerate(env.agents)}
        previous = core.world_state["item"][:, :pots].clone()
        theirs, state, reward, done, info = step(keys, state, actions)
        obs, _, terminated, truncated, mine = core.step(action)
        for player, agent in enumerate(env.agents):
            expected = with_full_counters(theirs[agent])
            np.testing.assert_array_equal(
                obs[:, player].numpy().reshape(expected.shape), expected, f"{name} step {index}"
            )
            shaped = mine["shaped_r_by_agent"][alone, player]
            np.testing.assert_array_equal(shaped, np.asarray(info["shaped_reward"][agent])[alone])
            total["shaped rewards"] += int((shaped > 0).sum())
        np.testing.assert_array_equal(mine["sparse_r_by_agent"].sum(1), reward["agent_0"])
        np.testing.assert_array_equal((terminated | truncated).all(1), done["__all__"])
        after = core.world_state["item"][:, :pots]
        total["pots that start"] += int(((previous >> 11 == 0) & (after >> 11 > 0)).sum())
        total["soups taken"] += int(((previous > 0) & (after == 0)).sum())
        total["soups served"] += int((mine["sparse_r_by_agent"] > 0).sum())
        total["ends"] += int(done["__all__"].sum())
    assert total["ends"] == ROUNDS * WORLDS
    names = ("shaped rewards", "pots that start", "soups taken", "soups served")
    assert min(total[name] for name in names) >= 5, total


KINDS = {0: 0, 1: 1, 4: 2, 5: 3, 6: 4, 7: 5, 9: 6} | {10 + kind: 7 + kind for kind in range(10)}
"""Terrain of OvercookedV2-v0 by JaxMARL's."""


@pytest.mark.parametrize("name", LAYOUTS_V2)
def test_kitchens_and_recipes_of_v2_are_those_of_jaxmarl(name):
    assert list(LAYOUTS_V2) == list(overcooked_v2_layouts)
    theirs = OvercookedV2(layout=name, agent_view_size=2)
    core = make_core("OvercookedV2-v0", 1, "cpu", layout=name, agent_view_size=2)
    kitchen, layout = core.config.kitchen, theirs.layout
    assert [divmod(cell, kitchen.width)[::-1] for cell in kitchen.starts] == layout.agent_positions
    assert kitchen.kinds.tolist() == [KINDS[kind] for kind in layout.static_objects.ravel().tolist()]
    assert sorted(core.config.recipes) == sorted(tuple(recipe) for recipe in layout.possible_recipes)
    assert core.observation_spaces["agent_0"].shape == (np.prod(theirs.observation_space("agent_0").shape),)
    assert core.definition.max_episode_steps == theirs.max_steps
    assert list(core.possible_agents) == theirs.agents


@pytest.mark.parametrize("starts", [{"random_reset": True}, {"random_agent_positions": True},
                                    {"random_reset": True, "start_cooking_interaction": True}])  # fmt: skip
def test_starts_of_v2_are_distributed_as_in_jaxmarl(starts):
    """Chi-square of all parts of 4,000 starts of JaxMARL."""
    settings = {"layout": "two_rooms_both", **starts}
    env = OvercookedV2(**settings, op_ingredient_permutations=[0, 1])
    theirs = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(jax.random.split(jax.random.PRNGKey(0), 4000))
    core = make_core("OvercookedV2-v0", 40_000, "cpu", seed=0, **settings, op_ingredient_permutations=(0, 1))
    core.reset()
    kitchen, state = core.config.kitchen, {name: values.numpy() for name, values in core.world_state.items()}
    grid = np.asarray(theirs.grid).reshape(4000, -1, 3)
    position = np.asarray(theirs.agents.pos.y * kitchen.width + theirs.agents.pos.x)
    weights = 3 ** np.arange(4).reshape(2, 2)
    permutations = (np.asarray(theirs.ingredient_permutations) * weights).sum((1, 2))
    pairs = [
        (state["position"] @ [100, 1], position @ [100, 1]),
        (state["facing"] @ [4, 1], np.asarray(theirs.agents.dir) @ [4, 1]),
        (state["recipe"], np.asarray(theirs.recipe)),
        ((state["permutation"] * weights).sum((1, 2)), permutations),
        *zip(state["inventory"].T, np.asarray(theirs.agents.inventory).T, strict=True),
        *zip(state["item"].T, grid[:, [*kitchen.pots, *kitchen.counters], 1].T, strict=True),
        *zip(state["timer"].T, grid[:, kitchen.pots, 2].T, strict=True),
    ]
    for ours, original in pairs:
        assert_equally_frequent(ours, original)
    assert len(np.unique(state["recipe"])) == len(np.unique(permutations)) == 4
