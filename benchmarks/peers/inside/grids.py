"""lbforaging or rware: one world in NumPy, Gymnasium's interface with a tuple per agent."""

from importlib import import_module
from importlib.util import find_spec

import gymnasium
import numpy as np

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve

LIBRARY = "lbforaging" if find_spec("lbforaging") else "rware"  # each is installed in its own environment


def build(task):
    """``game``: an id such as "Foraging-8x8-2p-2f-v3" or "rware-tiny-2ag-v2"."""
    import_module(LIBRARY)  # registers the environments
    env = gymnasium.make(task["game"], disable_env_checker=True).unwrapped
    env.reset(seed=1)
    choices = env.action_space[0].n
    actions = np.random.default_rng(0).integers(0, choices, (BATCHES, 1000, env.n_agents)).tolist()
    count = 0

    def step(index):
        nonlocal count
        count += 1
        _, _, done, truncated, _ = env.step(actions[index % BATCHES][count % 1000])
        if done or truncated:
            env.reset()

    return env.n_agents, one_by_one(step)


if __name__ == "__main__":
    serve(build, (LIBRARY, "gymnasium", "numpy"))
