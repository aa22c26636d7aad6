"""Overcooked-v0 with its old dynamics against Overcooked of JaxMARL 0.2.0, step by step.

The package overcooked_ai 1.1.0 has no old dynamics, so JaxMARL's is the oracle that was written elsewhere. Its
observations differ in one layer: a counter is none while something lies on it. If both players interact, the second
one's shaped reward for a dish depends on the pots before the step in overcooked_ai, and after the first player's action
in JaxMARL.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax.core.frozen_dict import FrozenDict
from jaxmarl.environments.overcooked.common import DIR_TO_VEC
from jaxmarl.environments.overcooked.overcooked import Overcooked

from gpu_envs.envs.kitchen.overcooked.layouts import LAYOUTS
from gpu_envs.runtime.factory import make_core
from trainers.storage import model_zoo

WORLDS, STEPS, INTERACT = 32, 400, 5
WORDS = {"wall_idx": "XOPDS", "onion_pile_idx": "O", "plate_pile_idx": "D", "pot_idx": "P", "goal_idx": "S"}
"""Characters of a kitchen by part of a layout of JaxMARL, which counts cells row by row."""
PLAYERS, POT, COUNTER, THINGS = [0, 1], 10, 11, [21, 22, 23]
"""Layers of observations; things are soups, dishes and onions."""


def original(rows):
    """Return an environment of JaxMARL with the kitchen of these rows of text, and its starts of a batch of worlds."""
    text = "".join(rows)
    layout = {name: jnp.array([k for k, letter in enumerate(text) if letter in kinds]) for name, kinds in WORDS.items()}
    layout["agent_idx"] = jnp.array([text.index(player) for player in "12"])
    env = Overcooked(FrozenDict(layout | {"height": len(rows), "width": len(rows[0])}), max_steps=STEPS)
    state = jax.vmap(env.reset)(jax.random.split(jax.random.PRNGKey(0), WORLDS))[1]
    north = jnp.zeros((WORLDS, 2), jnp.int32)  # the original starts in random directions
    return env, state.replace(agent_dir_idx=north, agent_dir=DIR_TO_VEC[north])


def with_full_counters(seen):
    """Return observations of JaxMARL, (E, H, W, 26), as (E, W, H, 26), with counters under things, too."""
    seen = np.array(seen).swapaxes(1, 2)
    lies = seen[..., THINGS].any(-1) & ~seen[..., PLAYERS].any(-1) & (seen[..., POT] == 0)
    assert not seen[lies, COUNTER].any()
    seen[lies, COUNTER] = 1
    return seen


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "counter_circuit"])  # JaxMARL has no tomatoes
def test_steps_with_old_dynamics_equal_those_of_jaxmarl(name):
    """Observations, rewards, shaped rewards and ends of random play, mixed with that of trained players."""
    env, state = original(LAYOUTS[name]["layout_grid"])
    step = jax.jit(jax.vmap(env.step_env))
    settings = {"layout_name": name, "old_dynamics": True, "horizon": STEPS, "autoreset": "disabled"}
    core = make_core("Overcooked-v0", WORLDS, "cpu", seed=0, **settings)
    policy = model_zoo.load("overcooked-ippo").policy("player") if name == "cramped_room" else None
    rng, keys, served, shaped = np.random.default_rng(0), jax.random.split(jax.random.PRNGKey(1), WORLDS), 0, 0
    obs, _ = core.reset()
    for index in range(STEPS):
        action = torch.from_numpy(rng.choice(6, (WORLDS, 2), p=(0.15, 0.15, 0.15, 0.15, 0.05, 0.35)))
        if policy is not None:
            told = policy.act(obs.flatten(0, 1)).view(WORLDS, 2)
            action = torch.where(torch.from_numpy(rng.random((WORLDS, 2)) < 0.7), told, action)
        alone = (action == INTERACT).sum(1) < 2
        both = {agent: jnp.asarray(action[:, player].numpy()) for player, agent in enumerate(env.agents)}
        theirs, state, reward, done, info = step(keys, state, both)
        obs, _, terminated, truncated, mine = core.step(action)
        for player, agent in enumerate(env.agents):
            seen = with_full_counters(theirs[agent])
            np.testing.assert_array_equal(obs[:, player].numpy().reshape(seen.shape), seen, f"{name} step {index}")
            given = mine["shaped_r_by_agent"][alone, player]
            np.testing.assert_array_equal(given, np.asarray(info["shaped_reward"][agent])[alone])
        np.testing.assert_array_equal(mine["sparse_r_by_agent"].sum(1), reward["agent_0"])
        np.testing.assert_array_equal((terminated | truncated).all(1), done["__all__"])
        served += int((reward["agent_0"] > 0).sum())
        shaped += int((mine["shaped_r_by_agent"][alone] > 0).sum())
    assert shaped >= 5  # random players of separate rooms seldom help each other
    assert served > 50 or policy is None
