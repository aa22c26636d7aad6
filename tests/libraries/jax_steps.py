"""Steps of originals in JAX from the states of environments, compared and recorded."""

import jax
import numpy as np
from parity.jax_replay import TRACES, played, write


def jitted(function):
    """Return a function that takes a batch of states in NumPy and returns NumPy."""
    compiled = jax.jit(jax.vmap(function))
    return lambda *arguments: jax.tree.map(np.asarray, compiled(*arguments))


def compare(original, env_id, settings, num_envs, steps, seed):
    """Step worlds at random, and the original from the same states; return the transitions and counts of cases.

    The original is ``f(previous, after, action) -> results`` of a batch.
    """
    story, tally = [], {"steps": 0, "done": 0, "rewarded": 0, "lost": 0}
    for previous, action, after in played(env_id, settings, num_envs, steps, seed):
        results = original(previous, after, action)
        active = after["valid"].any(1)
        for name, values in results.items():
            mine, values = after[name], values.astype(after[name].dtype)
            np.testing.assert_array_equal(mine[active], values[active], err_msg=f"{name} {settings}")
        tally["steps"] += int(active.sum())
        tally["done"] += int(after["done"][active].all(1).sum())
        tally["rewarded"] += int((results["reward"][active] > 0).any(1).sum())
        tally["lost"] += int((results["reward"][active] < 0).any(1).sum())
        story.append((previous, action, {**results, "valid": after["valid"]}))
    return story, tally


def record(env_id, original, folder=None):
    """Write the traces of the quick tests; return their path. ``original(settings)`` returns the one of `compare`."""
    stories = [
        compare(original(settings), env_id, settings, num_envs, steps, seed)[0]
        for seed, (settings, num_envs, steps) in enumerate(TRACES[env_id])
    ]
    path = write(env_id, stories, folder)
    print(f"{path}: {path.stat().st_size} bytes")
    return path
