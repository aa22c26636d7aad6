"""Returns of JaxMARL's published IPPO settings: thresholds of docs/learning.md.

Its only argument is JSON: "game", "worlds", "steps" (of worlds), "seeds" (how many), "rate" (learning rate at the
start), and maybe "options" (settings of the game). It prints JSON: the mean return per agent and episode of each seed's
last policy. With "against": "random", each agent in turn acts by the policy and the others act at random; the returns
are those of this agent, by agent and seed.
"""

import importlib.metadata
import json
import sys

import jax.numpy as jnp

from benchmarks.peers.inside.jaxmarl_training import STEPS, training

ROLLOUTS = 25
"""Rollouts of the evaluation. `ROLLOUTS` * `STEPS` steps are whole episodes in MPE, Overcooked and CoinGame. In other
games the parts of episodes at both ends count too."""


def learned(task, seed):
    """Return the number of agents, and the mean return per episode of the policy that a seed gives.

    The return is per agent, or a list: the return of each agent alone among random ones.
    """
    options = task.get("options", {})
    agents, run, rollout, update = training(task["game"], task["worlds"], task["steps"], seed, task["rate"], options)
    played = 0
    while played < task["steps"]:
        run = update(*run)
        played += STEPS * task["worlds"]
    if "against" not in task:
        return agents, mean_return(rollout, None, run)
    return agents, [mean_return(rollout, jnp.arange(agents) == seat, run) for seat in range(agents)]


def mean_return(rollout, acting, run):
    """Return the mean return per acting agent and episode, see `training` for `acting`."""
    total, ends = 0.0, 0.0
    for _ in range(ROLLOUTS):
        run, rows = rollout(acting, *run)
        counted = 1.0 if acting is None else jnp.repeat(acting, rows.score.shape[1] // len(acting))
        total += float((rows.score * counted).sum())
        ends += float((rows.done * counted).sum())
    return total / ends


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    (agents, *_), returns = zip(*(learned(task, seed) for seed in range(task["seeds"])), strict=True)
    if "against" in task:
        returns = list(zip(*returns, strict=True))
    versions = {name: importlib.metadata.version(name) for name in ("jaxmarl", "jax", "optax")}
    print(json.dumps({"returns": returns, "versions": versions, "agents": agents}))
