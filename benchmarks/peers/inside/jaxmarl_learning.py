"""Returns of JaxMARL's published IPPO settings: thresholds for SimpleSpread and Overcooked in docs/learning.md.

Its only argument is JSON: "game", "worlds", "steps" (of worlds), "seeds" (how many), "rate" (learning rate at the
start, annealed to 0 as published). It prints JSON: the mean return per agent and episode of each seed's last policy.
"""

import importlib.metadata
import json
import sys

from benchmarks.peers.inside.jaxmarl_training import STEPS, training

EPISODES = {"overcooked": 400}
"""Steps of every episode by game; 25 in MPE."""
ROLLOUTS = 25
"""Rollouts of the evaluation: `ROLLOUTS` * `STEPS` steps of each world are whole episodes, begun where worlds begin."""


def learned(task, seed):
    """Number of agents, and mean return per agent and episode of the policy that a seed gives."""
    agents, run, rollout, update = training(task["game"], task["worlds"], task["steps"], seed, task["rate"])
    played = 0
    while played < task["steps"]:
        run = update(*run)
        played += STEPS * task["worlds"]
    total = 0.0
    for _ in range(ROLLOUTS):
        run, rows = rollout(*run)
        total += float(rows.score.mean())
    return agents, total / ROLLOUTS * EPISODES.get(task["game"], 25)


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    (agents, *_), returns = zip(*(learned(task, seed) for seed in range(task["seeds"])), strict=True)
    versions = {name: importlib.metadata.version(name) for name in ("jaxmarl", "jax", "optax")}
    print(json.dumps({"returns": returns, "versions": versions, "agents": agents}))
