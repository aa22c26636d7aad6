"""Stable-Baselines3's PPO on SimpleTag, group by group: chasers against a random prey, then a prey against them.

pip install 'gpu-envs[sb3]'
python examples/sb3_simple_tag.py
"""

import argparse

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from gpu_envs.views.sb3 import SB3VecEnv

SETTINGS = {"n_steps": 50, "batch_size": 600, "n_epochs": 5, "learning_rate": 1e-3, "gamma": 0.95, "ent_coef": 0.01}


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


def train(steps: int = 150_000, worlds: int = 32, seed: int = 0, verbose: int = 1) -> dict[str, float]:
    """Train both groups in turn.

    Returns:
        Mean returns of an agent: before learning, and after it.
    """
    settings = {**SETTINGS, "seed": seed, "verbose": verbose, "device": "cpu"}
    results = {}

    # Three rows a world, one for each chaser; they share the policy. The prey moves at random.
    chase = SB3VecEnv("SimpleTag-v0", num_envs=worlds, group="adversary", device="cpu", seed=seed)
    results["random chasers, random prey"] = mean_return(chase)
    chasers = PPO("MlpPolicy", chase, **settings).learn(steps)
    results["trained chasers, random prey"] = mean_return(chase, chasers)

    # Now the prey learns, and the chasers stay as they are: a model may sit among the others.
    flight = SB3VecEnv("SimpleTag-v0", num_envs=worlds, group="agent", others={"adversary": chasers}, device="cpu")
    results["random prey, trained chasers"] = mean_return(flight)
    prey = PPO("MlpPolicy", flight, **{**settings, "batch_size": 200}).learn(steps // 3)
    results["trained prey, trained chasers"] = mean_return(flight, prey)

    # How do the chasers do against a prey that has learned?
    chase.set_others({"agent": prey})
    results["trained chasers, trained prey"] = mean_return(chase, chasers)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150_000, help="steps of all rows together")
    parser.add_argument("--worlds", type=int, default=32)
    for name, value in train(**vars(parser.parse_args())).items():
        print(f"{name:32s} {value:8.2f}")
