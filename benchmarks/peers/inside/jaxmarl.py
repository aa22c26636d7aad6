"""JaxMARL: random actions in its own environments."""

import jax
import jaxmarl
from jaxmarl.environments.smax import map_name_to_scenario

from benchmarks.peers.inside.child import BATCHES, serve
from benchmarks.peers.inside.jaxloop import rounds


def build(task):
    """``game``: a name of JaxMARL's, such as "MPE_simple_tag_v3"; the option ``scenario`` is a map of SMAX."""
    options = dict(task["options"])
    if "scenario" in options:
        options["scenario"] = map_name_to_scenario(options["scenario"])
    env = jaxmarl.make(task["game"], **options)
    keys = dict(zip(env.agents, jax.random.split(jax.random.PRNGKey(1), len(env.agents)), strict=True))
    shape = (BATCHES, task["worlds"])
    actions = {agent: jax.random.randint(key, shape, 0, env.action_space(agent).n) for agent, key in keys.items()}
    return len(env.agents), rounds(env.reset, env.step, actions, task["worlds"])


if __name__ == "__main__":
    serve(build, ("jaxmarl", "jax"))
