"""mpe2: one world in NumPy, PettingZoo's parallel interface."""

import importlib

import numpy as np

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve


def build(task):
    """``game``: a module of mpe2, such as "simple_tag_v3"."""
    env = importlib.import_module(f"mpe2.{task['game']}").parallel_env(**task["options"])
    env.reset(seed=1)
    draw = np.random.default_rng(0).integers
    names = env.possible_agents
    actions = [{agent: int(draw(env.action_space(agent).n)) for agent in names} for _ in range(BATCHES)]

    def step(index):
        if not env.agents:
            env.reset()
        env.step(actions[index % BATCHES])

    return len(names), one_by_one(step)


if __name__ == "__main__":
    serve(build, ("mpe2", "pettingzoo", "numpy"))
