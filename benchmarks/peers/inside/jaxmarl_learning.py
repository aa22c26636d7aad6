"""Returns of JaxMARL's published IPPO settings: thresholds of docs/learning.md.

Its only argument is JSON: "game", "worlds", "steps" (of worlds), "seeds" (how many), "rate" (learning rate at the
start), and maybe "options" (settings of the game). It prints JSON: the mean return per agent and episode of each seed's
last policy.
"""

import importlib.metadata
import json
import sys

from benchmarks.peers.inside.jaxmarl_training import STEPS, training

ROLLOUTS = 25
"""Rollouts of the evaluation. `ROLLOUTS` * `STEPS` steps are whole episodes in MPE, Overcooked and CoinGame. In other
games the parts of episodes at both ends count too."""


def learned(task, seed):
    """Number of agents, and mean return per agent and episode of the policy that a seed gives."""
    options = task.get("options", {})
    agents, run, rollout, update = training(task["game"], task["worlds"], task["steps"], seed, task["rate"], options)
    played = 0
    while played < task["steps"]:
        run = update(*run)
        played += STEPS * task["worlds"]
    total, ends = 0.0, 0.0
    for _ in range(ROLLOUTS):
        run, rows = rollout(*run)
        total += float(rows.score.sum())
        ends += float(rows.done.sum())
    return agents, total / ends


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    (agents, *_), returns = zip(*(learned(task, seed) for seed in range(task["seeds"])), strict=True)
    versions = {name: importlib.metadata.version(name) for name in ("jaxmarl", "jax", "optax")}
    print(json.dumps({"returns": returns, "versions": versions, "agents": agents}))
