"""WarpDrive: one world of its Tags in NumPy, the CPU side of its environments."""

import importlib

import numpy as np

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve

GAMES = {"tag_continuous": "TagContinuous", "tag_gridworld": "TagGridWorld"}


def build(task):
    """``game``: a module of its example_envs; ``options``: arguments of the environment."""
    game = task["game"]
    np.random.seed(1)  # noqa: NPY002 what it draws from without a seed; its seed= does not work with this gym
    env = getattr(importlib.import_module(f"example_envs.{game}.{game}"), GAMES[game])(**task["options"])
    env.reset()
    draw = np.random.default_rng(0).integers
    spaces = env.action_space.items()
    actions = [
        {agent: draw(space.nvec if hasattr(space, "nvec") else space.n) for agent, space in spaces}
        for _ in range(BATCHES)
    ]

    def step(index):
        *_, done, _ = env.step(actions[index % BATCHES])
        if done["__all__"]:
            env.reset()

    return len(actions[0]), one_by_one(step)


if __name__ == "__main__":
    serve(build, ("rl-warp-drive", "numpy"))
