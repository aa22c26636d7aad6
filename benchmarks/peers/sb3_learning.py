"""Returns of Stable-Baselines3's PPO on scenarios of mpe2 and lbforaging: thresholds of docs/learning.md.

Wrappers and settings come from PettingZoo's tutorial `sb3_waterworld_vector.py`: SuperSuit makes one vector
environment of the agents of 8 worlds, which share one policy. All other settings are Stable-Baselines3's defaults. The
only argument is JSON: "game" (module of mpe2, or id of lbforaging), "steps" (of worlds), "seeds" (how many) and
"episodes" (of the evaluation). It prints JSON: the mean return of each seed's last policy by group of agents, with the
most probable actions, as in the tutorial, and with samples.
"""

import importlib
import importlib.metadata
import json
import sys
from typing import Any

import torch
from pettingzoo import ParallelEnv

WORLDS = 8
SETTINGS: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 256}
"""Settings of the tutorial; all others are Stable-Baselines3's defaults."""


class Foraging(ParallelEnv[str, Any, int]):
    """A world of lbforaging in PettingZoo's interface, which SuperSuit needs."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    render_mode = None

    def __init__(self, id: str) -> None:
        import gymnasium
        import lbforaging  # noqa: F401  # pyright: ignore[reportMissingImports]

        self.world: Any = gymnasium.make(id, disable_env_checker=True)  # it expects one agent
        self.possible_agents = [f"player_{index}" for index in range(len(self.world.action_space))]
        self.agents = list(self.possible_agents)

    def observation_space(self, agent: str) -> Any:
        return self.world.observation_space[self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> Any:
        return self.world.action_space[self.possible_agents.index(agent)]

    def by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        obs, _ = self.world.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self.by_agent(obs), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        obs, rewards, terminated, truncated, _ = self.world.step([actions[agent] for agent in self.possible_agents])
        ends = ({agent: bool(end) for agent in self.possible_agents} for end in (terminated, truncated))
        if terminated or truncated:
            self.agents = []
        return self.by_agent(obs), self.by_agent(rewards), *ends, {agent: {} for agent in self.possible_agents}

    def close(self) -> None:
        self.world.close()


def worlds(game: str, seed: int) -> tuple[list[str], Any]:
    """Return the agents of a world, and the vector environment of all worlds."""
    import supersuit  # pyright: ignore[reportMissingImports]

    env: Any
    if game.startswith("Foraging"):
        env = Foraging(game)
    else:
        env = supersuit.pad_observations_v0(importlib.import_module(f"mpe2.{game}").parallel_env())
    agents = env.possible_agents
    env = supersuit.pettingzoo_env_to_vec_env_v1(env)
    vector = supersuit.concat_vec_envs_v1(env, WORLDS, num_cpus=1, base_class="stable_baselines3")
    vector.venv.reset(seed=seed)  # SuperSuit copies the world with its random stream; now each gets its own stream
    return agents, vector


def evaluate(model: Any, game: str, seed: int, episodes: int, greedy: bool) -> dict[str, float]:
    """Return the mean return by group of agents."""
    assert episodes % WORLDS == 0
    agents, vector = worlds(game, seed)
    obs = vector.reset()
    total = torch.zeros(len(agents), dtype=torch.float64)
    running = torch.zeros(WORLDS, len(agents), dtype=torch.float64)
    left = torch.full((WORLDS,), episodes // WORLDS)
    while left.any():  # Every world counts equally many episodes. Otherwise short episodes would count more.
        obs, rewards, dones, _ = vector.step(model.predict(obs, deterministic=greedy)[0])
        running += torch.as_tensor(rewards).reshape(WORLDS, len(agents))
        done = torch.as_tensor(dones).reshape(WORLDS, len(agents)).bool().all(1)
        counts = done & (left > 0)
        total += running[counts].sum(0)
        left -= counts.long()
        running[done] = 0
    groups: dict[str, float] = {}
    for agent, value in zip(agents, (total / episodes).tolist(), strict=True):
        group = agent.rpartition("_")[0]
        groups[group] = groups.get(group, 0.0) + value
    return {group: round(value, 6) for group, value in groups.items()}  # sums of float32 exceed 1 by 1e-8


def learned(task: dict[str, Any], seed: int) -> list[dict[str, float]]:
    """Return the mean returns of the policy that a seed gives: with the most probable actions, and with samples."""
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.utils import set_random_seed  # pyright: ignore[reportMissingImports]

    set_random_seed(seed)
    agents, vector = worlds(task["game"], 1000 * seed)
    model = PPO("MlpPolicy", vector, device="cpu", **SETTINGS)
    model.learn(task["steps"] * len(agents))
    return [evaluate(model, task["game"], 10**6 + seed, task["episodes"], greedy) for greedy in (True, False)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    task = json.loads(sys.argv[1])
    greedy, sampled = zip(*(learned(task, seed) for seed in range(task["seeds"])), strict=True)
    names = ("stable_baselines3", "supersuit", "mpe2", "lbforaging", "pettingzoo", "torch")
    versions = {name: importlib.metadata.version(name) for name in names}
    print(json.dumps({"greedy": greedy, "sampled": sampled, "versions": versions}))
