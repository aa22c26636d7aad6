"""rware: one world in NumPy, Gymnasium's interface with a tuple per robot."""

import gymnasium
import numpy as np
import rware  # noqa: F401  # registers the environments

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve


def build(task):
    """``game``: an id such as "rware-tiny-2ag-v2"."""
    env = gymnasium.make(task["game"], disable_env_checker=True).unwrapped
    env.reset(seed=1)
    actions = np.random.default_rng(0).integers(0, 5, (BATCHES, 1000, env.n_agents)).tolist()
    count = 0

    def step(index):
        nonlocal count
        count += 1
        _, _, done, truncated, _ = env.step(actions[index % BATCHES][count % 1000])
        if done or truncated:
            env.reset()

    return env.n_agents, one_by_one(step)


if __name__ == "__main__":
    serve(build, ("rware", "gymnasium", "numpy"))
