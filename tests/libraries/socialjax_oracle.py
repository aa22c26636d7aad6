"""Steps of SocialJax from the states of CommonsHarvest-v0.

SocialJax is no package of an index. The variable SOCIALJAX names the folder of its source, commit 9df972d0. The
recorded traces of the quick tests are made by this module:

    SOCIALJAX=... .nox/socialjax/bin/python -m libraries.socialjax_oracle   # in the folder tests
"""

import os
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from libraries import jax_steps
from parity.economy.gather_trade_build_replay import philox, unit

from gpu_envs.envs.grid.commons_harvest import LAYOUTS, Config
from warp_kernels.philox import STEP

sys.path.insert(0, os.environ["SOCIALJAX"])
from socialjax.environments.common_harvest.harvest_open import Harvest_open, State

ENDLESS = 2**30
KEY = jax.random.PRNGKey(0)


def make(settings, **options):
    """Return the original with the settings of CommonsHarvest-v0."""
    config = Config(**settings)
    rows = list(config.rows)
    options = {"num_inner_steps": config.num_inner_steps, "jit": False} | options
    size = len(rows), len(rows[0])
    return Harvest_open(
        num_agents=config.num_agents, shared_rewards=config.shared_rewards, grid_size=size, map_ASCII=rows, **options
    )


def draws(previous, num_apples, num_agents):
    """Return the numbers by cell of an apple (E, K) and the priorities of agents (E, A) that this library draws."""
    numbers, priorities = [], []
    for key, step in zip(previous["key"], previous["step"], strict=True):
        numbers.append(unit(philox(int(key), step + 1, np.arange(num_apples), STEP, 0)[:, 0]))
        words = philox(int(key), step + 1, np.arange(num_agents), STEP, 1)[:, 0] >> np.uint32(1)
        priorities.append(np.argsort(np.argsort(words, kind="stable")))
    return np.stack(numbers), np.stack(priorities)


def with_draws(env, step, numbers, priority, next_position, next_heading):
    """Return the result of ``step()``, in which SocialJax draws what this library drew.

    Spawns that agents go to are first in the order of spawns, by agent. A start after the end of an episode is as in
    the layout.
    """
    spawns = env.SPAWNS_PLAYERS
    goes = (spawns[:, None] == next_position[None]).all(-1)  # (S, A)
    order = jnp.where(goes.any(1), goes.argmax(1), env.num_agents + jnp.arange(len(spawns)))
    permutations = [priority, order, env.SPAWNS_PLAYER_IN, spawns]
    headings = [next_heading.astype(jnp.int16), jnp.zeros(env.num_agents, jnp.int8)]
    with (
        mock.patch.object(jax.random, "uniform", side_effect=[numbers]),
        mock.patch.object(jax.random, "permutation", side_effect=permutations),
        mock.patch.object(jax.random, "randint", side_effect=headings),
    ):
        return step()


def commons_harvest(settings):
    """Return ``f(previous, after, action) -> results`` of a batch of CommonsHarvest."""
    env, endless = make(settings), make(settings, num_inner_steps=ENDLESS)
    agents = env.num_agents

    def located(position, heading):
        return jnp.concatenate([position, heading[:, None]], 1).astype(jnp.int16)

    def step_world(previous, after, action, numbers, priority):
        state = State(
            agent_locs=located(previous["position"], previous["heading"]),
            agent_invs=jnp.stack([previous["apples"]] * 2, 1).astype(jnp.int8),
            inner_t=previous["step"],
            outer_t=0,
            grid=previous["grid"].astype(jnp.int16),
            apples=env.SPAWNS_APPLE,
            freeze=jnp.full((agents, agents), -1, jnp.int16),
            reborn_locs=located(previous["next_position"], previous["next_heading"]),
        )
        drawn = (numbers, priority, after["next_position"], after["next_heading"])
        # An episode that ends shows the next start, so the state comes from an episode without end.
        obs, new, _, _, info = with_draws(endless, lambda: endless.step_env(KEY, state, action), *drawn)
        _, _, reward, done, _ = with_draws(env, lambda: env.step_env(KEY, state, action), *drawn)
        if settings.get("cnn"):
            obs = jnp.moveaxis(obs, -1, 1)
        return {
            "obs": obs.reshape(agents, -1),
            "reward": reward,
            "done": jnp.stack([done[str(agent)] for agent in range(agents)]),
            "grid": new.grid,
            "position": new.agent_locs[:, :2],
            "heading": new.agent_locs[:, 2],
            "next_position": new.reborn_locs[:, :2],
            "next_heading": new.reborn_locs[:, 2],
            "apples": new.agent_invs[:, 0],
            "apples_left": info["AppleCount_info"],
        }

    batch = jax_steps.jitted(step_world)

    def step(previous, after, action):
        return batch(previous, after, action, *draws(previous, len(env.SPAWNS_APPLE), agents))

    return step


def random_settings(rng):
    """Return settings drawn at random: small and crowded layouts, or those of SocialJax."""
    settings = {
        "num_inner_steps": int(rng.integers(10, 60)),
        "time_limit": "termination",
        "shared_rewards": bool(rng.random() < 0.5),
        "cnn": bool(rng.random() < 0.5),
        "num_agents": int(rng.integers(2, 10)),
    }
    if rng.random() < 0.3:
        return settings | {"layout": str(rng.choice(list(LAYOUTS)))}
    size = rng.integers(4, 9, 2)
    cells = rng.choice(list("  WAAAPPQ"), size)
    cells[0, 0] = "A"
    cells[1] = "P"
    settings["num_agents"] = min(settings["num_agents"], int((cells == "P").sum()))
    return settings | {"layout_grid": tuple("".join(row) for row in cells)}


def compare(settings, num_envs, steps, seed):
    """Step worlds at random, and SocialJax from the same states; return the transitions and counts of cases."""
    return jax_steps.compare(commons_harvest(settings), "CommonsHarvest-v0", settings, num_envs, steps, seed)


def record(folder=None):
    """Write the traces of the quick tests; return their path."""
    return jax_steps.record("CommonsHarvest-v0", commons_harvest, folder)


if __name__ == "__main__":
    record()
