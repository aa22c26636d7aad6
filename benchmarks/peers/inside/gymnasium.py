"""Gymnasium: its own vector environments, and its own single ones."""

import gymnasium
import numpy as np

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve


def build(task):
    """``game``: an id with a vector environment; ``vector``: False for ``gymnasium.make``."""
    vector = task["options"].get("vector", True)
    return 1, one_by_one(batch(task["game"], task["worlds"]) if vector else single(task["game"]))


def batch(game, worlds):
    """Run the i-th step of a batch with autoreset."""
    envs = gymnasium.make_vec(game, worlds, vectorization_mode="vector_entry_point")
    envs.reset(seed=1)
    actions = np.random.default_rng(0).integers(envs.single_action_space.n, size=(BATCHES, worlds))
    return lambda index: envs.step(actions[index % BATCHES])


def single(game):
    """Run the i-th step of one world with a reset at the end of its episode."""
    env = gymnasium.make(game)
    env.reset(seed=1)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=BATCHES)

    def step(index):
        *_, terminated, truncated, _ = env.step(actions[index % BATCHES])
        if terminated or truncated:
            env.reset()

    return step


if __name__ == "__main__":
    serve(build, ("gymnasium", "numpy"))
