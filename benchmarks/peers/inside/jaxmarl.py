"""JaxMARL: random actions in its own environments."""

import jax
import jaxmarl

from benchmarks.peers.inside.child import BATCHES, serve
from benchmarks.peers.inside.jaxloop import rounds


def build(task):
    """``game``: a name of JaxMARL's, such as "MPE_simple_tag_v3"."""
    env = jaxmarl.make(task["game"], **task["options"])
    keys = dict(zip(env.agents, jax.random.split(jax.random.PRNGKey(1), len(env.agents)), strict=True))
    shape = (BATCHES, task["worlds"])
    actions = {agent: jax.random.randint(key, shape, 0, env.action_space(agent).n) for agent, key in keys.items()}
    return len(env.agents), rounds(env.reset, env.step, actions, task["worlds"])


if __name__ == "__main__":
    serve(build, ("jaxmarl", "jax"))
