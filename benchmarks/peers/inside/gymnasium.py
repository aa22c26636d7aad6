"""Gymnasium: its own vector environments."""

import gymnasium
import numpy as np

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve


def build(task):
    """``game``: an id with a vector environment of its own."""
    envs = gymnasium.make_vec(task["game"], task["worlds"], vectorization_mode="vector_entry_point")
    envs.reset(seed=1)
    draw = np.random.default_rng(0).integers
    actions = [draw(envs.single_action_space.n, size=task["worlds"]) for _ in range(BATCHES)]
    return 1, one_by_one(lambda index: envs.step(actions[index % BATCHES]))


if __name__ == "__main__":
    serve(build, ("gymnasium", "numpy"))
