"""gymnax: random actions in its own environments."""

import gymnax
import jax

from benchmarks.peers.inside.child import BATCHES, serve
from benchmarks.peers.inside.jaxloop import rounds


def build(task):
    """``game``: a name of gymnax's, such as "CartPole-v1"."""
    env, params = gymnax.make(task["game"])
    space, key, batch = env.action_space(params), jax.random.PRNGKey(1), (BATCHES, task["worlds"])
    if hasattr(space, "n"):
        actions = jax.random.randint(key, batch, 0, space.n)
    else:
        actions = jax.random.uniform(key, (*batch, *space.shape), minval=space.low, maxval=space.high)

    def reset(key):
        return env.reset(key, params)

    def step(key, state, action):
        return env.step(key, state, action, params)

    return 1, rounds(reset, step, actions, task["worlds"])


if __name__ == "__main__":
    serve(build, ("gymnax", "jax"))
