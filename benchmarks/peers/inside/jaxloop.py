"""Many steps of a JAX environment in one compiled call, as its users run it: jit, vmap over worlds, scan over steps."""

import jax
import jax.numpy as jnp

from benchmarks.peers.inside.child import BATCHES

CALL = 50_000
"""Steps of worlds in one call, about, ..."""
SHORTEST, LONGEST = 10, 1000
"""... and steps of a call."""


def rounds(reset, step, actions, worlds):
    """Return a function that plays a number of steps, rounded up to a multiple of a call's steps.

    Everything a step gives stays in the carry, so that nothing of it is optimized away.

    Args:
        reset: key -> (obs, state).
        step: (key, state, action) -> (obs, state, reward and ends, info).
        actions: A tree of random actions (BATCHES, E, ...).
        worlds: E.
    """
    length = min(LONGEST, max(SHORTEST, CALL // worlds))

    def advance(carry, index):
        key, state, *_ = carry
        key, draw = jax.random.split(key)
        action = jax.tree.map(lambda a: a[index % BATCHES], actions)
        obs, state, *outcome, _ = jax.vmap(step)(jax.random.split(draw, worlds), state, action)
        return (key, state, obs, *outcome)

    first, key = jax.random.split(jax.random.PRNGKey(0))
    _, state = jax.vmap(reset)(jax.random.split(first, worlds))
    carry = jax.jit(lambda key, state: advance((key, state), 0))(key, state)
    call = jax.jit(lambda carry: jax.lax.scan(lambda c, i: (advance(c, i), None), carry, jnp.arange(length))[0])

    def play(count):
        nonlocal carry
        done = 0
        while done < count:
            carry = call(carry)
            done += length
        jax.block_until_ready(carry)
        return done

    return play
