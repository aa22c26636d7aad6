"""Returns of Stable-Baselines3's PPO on scenarios of mpe2: thresholds of docs/learning.md.

Wrappers and settings are those of PettingZoo's tutorial `sb3_waterworld_vector.py`: SuperSuit makes one vector
environment of the agents of 8 worlds, which share one policy. All other settings are Stable-Baselines3's defaults. The
only argument is JSON: "game" (module of mpe2), "steps" (of worlds), "seeds" (how many) and "episodes" (of the
evaluation). It prints JSON: the mean return of each seed's last policy by group of agents, with the most probable
actions, as in the tutorial, and with samples.
"""

import importlib
import importlib.metadata
import json
import sys
from typing import Any

import torch

WORLDS = 8
SETTINGS: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 256}
"""Settings of the tutorial; all others are Stable-Baselines3's defaults."""


def worlds(game: str, seed: int) -> tuple[list[str], Any]:
    """Return the agents of a world, and the vector environment of all worlds."""
    import supersuit  # pyright: ignore[reportMissingImports]

    env = importlib.import_module(f"mpe2.{game}").parallel_env()
    agents = env.possible_agents
    env = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.pad_observations_v0(env))
    vector = supersuit.concat_vec_envs_v1(env, WORLDS, num_cpus=1, base_class="stable_baselines3")
    vector.venv.reset(seed=seed)  # SuperSuit copies the world with its random stream; this gives each one of its own
    return agents, vector


def judge(model: Any, game: str, seed: int, episodes: int, greedy: bool) -> dict[str, float]:
    """Return the mean return by group of agents."""
    agents, vector = worlds(game, seed)
    obs, ended = vector.reset(), 0
    total = torch.zeros(len(agents), dtype=torch.float64)
    while ended < episodes:
        obs, rewards, dones, _ = vector.step(model.predict(obs, deterministic=greedy)[0])
        total += torch.as_tensor(rewards).reshape(WORLDS, len(agents)).sum(0)
        ended += int(dones.sum()) // len(agents)  # all worlds end together
    groups: dict[str, float] = {}
    for agent, value in zip(agents, (total / ended).tolist(), strict=True):
        group = agent.rpartition("_")[0]
        groups[group] = groups.get(group, 0.0) + value
    return groups


def learned(task: dict[str, Any], seed: int) -> list[dict[str, float]]:
    """Return the mean returns of the policy that a seed gives: with the most probable actions, and with samples."""
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.utils import set_random_seed  # pyright: ignore[reportMissingImports]

    set_random_seed(seed)
    agents, vector = worlds(task["game"], 1000 * seed)
    model = PPO("MlpPolicy", vector, device="cpu", **SETTINGS)
    model.learn(task["steps"] * len(agents))
    return [judge(model, task["game"], 10**6 + seed, task["episodes"], greedy) for greedy in (True, False)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    task = json.loads(sys.argv[1])
    greedy, sampled = zip(*(learned(task, seed) for seed in range(task["seeds"])), strict=True)
    names = ("stable_baselines3", "supersuit", "mpe2", "pettingzoo", "torch")
    versions = {name: importlib.metadata.version(name) for name in names}
    print(json.dumps({"greedy": greedy, "sampled": sampled, "versions": versions}))
