"""gymnax: random actions in its own environments."""

import gymnax
import jax

from benchmarks.peers.inside.child import BATCHES, serve
from benchmarks.peers.inside.jaxloop import rounds


def build(task):
    """``game``: a name of gymnax's, such as "CartPole-v1"."""
    env, params = gymnax.make(task["game"])
    choices = env.action_space(params).n
    actions = jax.random.randint(jax.random.PRNGKey(1), (BATCHES, task["worlds"]), 0, choices)

    def reset(key):
        return env.reset(key, params)

    def step(key, state, action):
        return env.step(key, state, action, params)

    return 1, rounds(reset, step, actions, task["worlds"])


if __name__ == "__main__":
    serve(build, ("gymnax", "jax"))
