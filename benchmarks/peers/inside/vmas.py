"""VMAS: worlds in torch tensors. It has no autoreset: the whole batch is reset at the end of its episode."""

import torch
import vmas

from benchmarks.peers.inside.child import BATCHES, one_by_one, serve

EPISODE = 25


def build(task):
    """``substeps``: physics steps in a step of the world, where not as shipped."""
    torch.set_num_threads(task["threads"])
    env = vmas.make_env(
        task["game"], task["worlds"], device=task["device"], continuous_actions=False, seed=0, max_steps=None
    )
    substeps = task["options"].get("substeps")
    if substeps:
        env.world._substeps = substeps
        env.world._sub_dt = env.world._dt / substeps
    env.reset()
    actions = [[env.get_random_action(agent) for agent in env.agents] for _ in range(BATCHES)]

    def step(index):
        env.step(actions[index % BATCHES])
        if index % EPISODE == EPISODE - 1:
            env.reset()

    @torch.no_grad()
    def play(count):
        played = steps(count)
        if task["device"] != "cpu":
            torch.cuda.synchronize()
        return played

    steps = one_by_one(step)
    return len(env.agents), play


if __name__ == "__main__":
    serve(build, ("vmas", "torch"))
