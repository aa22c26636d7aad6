"""Steps of Jumanji 1.1.2 from the states of Connector-v0.

The recorded traces of the quick tests are made by this module:

    .nox/jumanji/bin/python -m libraries.jumanji_oracle   # in the folder tests
"""

import jax
import jax.numpy as jnp
from jumanji.environments.routing.connector import Connector, generator, reward, types, utils
from libraries import jax_steps

GENERATORS = {"random_walk": generator.RandomWalkGenerator, "uniform": generator.UniformRandomGenerator}


def make(settings):
    """Return the original with the settings of Connector-v0."""
    kind = GENERATORS[settings.get("generator", "random_walk")]
    walks = {"temperature": "temperature", "max_walk_steps": "max_steps"}
    options = {theirs: settings[name] for name, theirs in walks.items() if name in settings}
    start = kind(settings.get("grid_size", 10), settings.get("num_agents", 10), **options)
    rewards = reward.SharedDenseRewardFn if settings.get("shared_rewards") else reward.DenseRewardFn
    amounts = settings.get("connected_reward", 1.0), settings.get("timestep_reward", -0.03)
    return Connector(start, rewards(*amounts), settings.get("max_episode_steps", 50))


def views(grid, ids):
    """Return the observations of agents (A, 5 * N * N), by what the original says of the values of cells."""
    layers = [utils.is_position(grid), utils.is_target(grid), utils.is_path(grid)]
    alone = [jnp.stack([*layers, grid == utils.get_position(i), grid == utils.get_target(i)]).ravel() for i in ids]
    return jnp.stack(alone)


def connector(settings):
    """Return ``f(previous, after, action) -> results`` of a batch of Connector."""
    env = make(settings)
    ids = jnp.arange(env.num_agents)
    stay = jnp.arange(5) == 0  # the mask here after the end of an episode

    def step_world(previous, after, action):
        agents = types.Agent(id=ids, start=ids, target=previous["target"], position=previous["position"])
        masks = utils.get_action_masks(agents, previous["grid"])
        fields = {"grid": previous["grid"], "step_count": previous["step"], "agents": agents, "action_mask": masks}
        state, timestep = env.step(types.State(key=jax.random.PRNGKey(0), **fields), action)
        ended = timestep.last()
        blocked = jax.vmap(utils.connected_or_blocked)(state.agents, state.action_mask).all()
        return {
            "obs": views(timestep.observation.grid, range(env.num_agents)),
            "reward": timestep.reward,
            "done": jnp.broadcast_to(ended & blocked, ids.shape),
            "truncated": jnp.broadcast_to(ended & ~blocked, ids.shape),
            "action_mask": jnp.where(ended, stay, timestep.observation.action_mask),
            "grid": state.grid,
            "position": state.agents.position,
            "target": state.agents.target,
            "connected": state.agents.connected,
            "total_length": jnp.broadcast_to(timestep.extras["total_path_length"], ids.shape),
        }

    return jax_steps.jitted(step_world)


def random_settings(rng):
    """Return settings drawn at random."""
    side = int(rng.integers(3, 9))
    return {
        "grid_size": side,
        "num_agents": int(rng.integers(1, (side * side // 2 + 1) // 2 + 1)),
        "max_episode_steps": int(rng.integers(3, 30)),
        "generator": str(rng.choice(["random_walk", "uniform"])),
        "connected_reward": float(rng.integers(1, 5)) / 2,
        "timestep_reward": -float(rng.integers(0, 5)) / 4,  # sums of these are exact
        "shared_rewards": bool(rng.random() < 0.3),
    }


def record(folder=None):
    """Write the traces of the quick tests; return their path."""
    return jax_steps.record("Connector-v0", connector, folder)


if __name__ == "__main__":
    record()
