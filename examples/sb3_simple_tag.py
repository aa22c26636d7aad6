"""Stable-Baselines3's PPO on SimpleTag, group by group: chasers against a random prey, then a prey against them.

pip install 'gpu-envs[sb3]'
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
    """Mean return of an agent of the rows, played by a model or at random."""
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
    """The same with rewards of order 1, to learn from; observations are as they were."""
    return VecNormalize(env, norm_obs=False, gamma=SETTINGS["gamma"])


def train(steps: int = 300_000, worlds: int = 64, seed: int = 0, verbose: int = 1) -> dict[str, float]:
    """Train both groups in turn.

    Returns:
        Mean returns of an agent: before learning, and after it.
    """
    settings = {**SETTINGS, "seed": seed, "verbose": verbose, "device": "cpu"}
    results = {}

    # Three rows a world, one for each chaser; they share the policy. The prey moves at random.
    chase = SB3VecEnv("SimpleTag-v0", num_envs=worlds, group="adversary", device="cpu", seed=seed)
    results["random chasers, random prey"] = mean_return(chase)
    chasers = PPO("MlpPolicy", scaled(chase), **settings).learn(steps)
    results["trained chasers, random prey"] = mean_return(chase, chasers)

    # Now the prey learns, and the chasers stay as they are: a model may sit among the others.
    flight = SB3VecEnv("SimpleTag-v0", num_envs=worlds, group="agent", others={"adversary": chasers}, device="cpu")
    results["random prey, trained chasers"] = mean_return(flight)
    prey = PPO("MlpPolicy", scaled(flight), **{**settings, "batch_size": 400}).learn(steps // 3)
    results["trained prey, trained chasers"] = mean_return(flight, prey)

    # How do the chasers do against a prey that has learned?
    chase.set_others({"agent": prey})
    results["trained chasers, trained prey"] = mean_return(chase, chasers)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300_000, help="steps of all rows together")
    parser.add_argument("--worlds", type=int, default=64)
    torch.set_num_threads(1)  # small networks: more threads would wait for each other
    for name, value in train(**vars(parser.parse_args())).items():
        print(f"{name:32s} {value:8.2f}")
