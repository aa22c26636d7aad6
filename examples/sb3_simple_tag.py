"""Stable-Baselines3's PPO on SimpleTag, group by group: chasers against a random prey, then a prey against them.

pip install '.[sb3]'
python examples/sb3_simple_tag.py
"""

import argparse

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from gpu_envs.views.sb3 import SB3VecEnv

SETTINGS = {"n_steps": 25, "batch_size": 1200, "n_epochs": 4, "learning_rate": 3e-3, "gamma": 0.95}


def mean_return(env: VecEnv, model: PPO | None = None, episodes: int = 100) -> float:
    """Return the mean return of an agent of the rows, with a model or random actions."""
    obs, returns = env.reset(), []
    while len(returns) < episodes:
        if model is None:
            action = np.array([env.action_space.sample() for _ in range(env.num_envs)])
        else:
            action, _ = model.predict(obs)
        obs, _, dones, infos = env.step(action)
        returns += [infos[row]["episode"]["r"] for row in np.flatnonzero(dones)]
    return float(np.mean(returns))


def scaled(env: SB3VecEnv) -> VecNormalize:
    """Scale rewards to order 1 for training; observations are unchanged."""
    return VecNormalize(env, norm_obs=False, gamma=SETTINGS["gamma"])


def train(steps: int = 300_000, num_envs: int = 64, seed: int = 0, verbose: int = 1) -> dict[str, float]:
    """Train both groups in turn.

    Returns:
        Mean returns of an agent: before learning, and after it.
    """
    settings = {**SETTINGS, "seed": seed, "verbose": verbose, "device": "cpu"}
    results = {}

    # Three rows per world, one per chaser, with a shared policy. The prey moves at random.
    chase = SB3VecEnv("SimpleTag-v0", num_envs=num_envs, group="adversary", device="cpu", seed=seed)
    results["random chasers, random prey"] = mean_return(chase)
    chasers = PPO("MlpPolicy", scaled(chase), **settings).learn(steps)
    results["trained chasers, random prey"] = mean_return(chase, chasers)

    # Now the prey is trained against the frozen chasers: opponents can be models.
    flight = SB3VecEnv("SimpleTag-v0", num_envs=num_envs, group="agent", opponents={"adversary": chasers}, device="cpu")
    results["random prey, trained chasers"] = mean_return(flight)
    prey = PPO("MlpPolicy", scaled(flight), **{**settings, "batch_size": 400}).learn(steps // 3)
    results["trained prey, trained chasers"] = mean_return(flight, prey)

    # Evaluate the chasers against the trained prey.
    chase.set_opponents({"agent": prey})
    results["trained chasers, trained prey"] = mean_return(chase, chasers)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300_000, help="total number of steps over all rows")
    parser.add_argument("--num-envs", type=int, default=64)
    torch.set_num_threads(1)  # more threads are slower for small networks
    for name, value in train(**vars(parser.parse_args())).items():
        print(f"{name:32s} {value:8.2f}")
