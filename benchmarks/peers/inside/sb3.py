"""Stable-Baselines3: PPO with its defaults on Gymnasium's environments, learning included."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.peers.inside.child import serve


def build(task):
    """Return a function that trains for steps rounded up to whole rollouts of 2048 steps in every world."""
    torch.set_num_threads(task["threads"])
    model = PPO("MlpPolicy", make_vec_env(task["game"], task["worlds"], seed=0), seed=0, device=task["device"])

    def play(count):
        start = model.num_timesteps
        model.learn(-(-count // task["worlds"]) * task["worlds"], reset_num_timesteps=False)
        return (model.num_timesteps - start) // task["worlds"]

    return 1, play


if __name__ == "__main__":
    serve(build, ("stable_baselines3", "torch", "gymnasium"))
