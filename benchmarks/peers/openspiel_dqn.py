"""Returns of OpenSpiel's DQN in self-play against random opponents: thresholds of docs/learning.md.

The agents, their settings and the evaluation come from OpenSpiel's example ``dqn_breakthrough_pytorch.py``:
independent DQN, one agent per seat. The only argument is JSON: "game", "steps" (of the game, in whole episodes),
"seeds" (how many) and "episodes" (of the evaluation, for each seat). It prints JSON: the mean return of each seed's
last policies by seat.
"""

import importlib.metadata
import json
import sys
from typing import Any

import numpy as np
import torch

from benchmarks.peers.openspiel_psro import load_dqn

SETTINGS: dict[str, Any] = {"hidden_layers_sizes": [64, 64], "replay_buffer_capacity": 100_000, "batch_size": 32}
"""Settings of the example; all others are OpenSpiel's defaults."""


def play(env: Any, agents: list[Any], evaluate: bool) -> tuple[int, list[float]]:
    """Play an episode; return its steps and the return of every seat."""
    time_step, steps, returns = env.reset(), 0, np.zeros(len(agents))
    while not time_step.last():
        seats = [time_step.observations["current_player"]] if env.is_turn_based else range(len(agents))
        time_step = env.step([agents[seat].step(time_step, is_evaluation=evaluate).action for seat in seats])
        returns += time_step.rewards
        steps += 1
    if not evaluate:
        for agent in agents:
            agent.step(time_step)
    return steps, returns.tolist()


def learned(task: dict[str, Any], seed: int) -> list[float]:
    """Train the agents of a seed; return the mean return of each against random opponents."""
    from open_spiel.python import rl_environment
    from open_spiel.python.algorithms import random_agent

    np.random.seed(seed)  # noqa: NPY002 random agents draw from it
    torch.manual_seed(seed)
    env = rl_environment.Environment(task["game"])
    env.seed(seed)
    width, choices = env.observation_spec()["info_state"][0], env.action_spec()["num_actions"]
    seats = range(env.num_players)
    agents = [load_dqn().DQN(seat, width, choices, seed=2 * seed + seat, **SETTINGS) for seat in seats]
    chance = [random_agent.RandomAgent(seat, choices) for seat in seats]
    played = 0
    while played < task["steps"]:
        played += play(env, agents, evaluate=False)[0]
    returns = []
    for seat in seats:
        players = [*chance[:seat], agents[seat], *chance[seat + 1 :]]
        returns.append(float(np.mean([play(env, players, evaluate=True)[1][seat] for _ in range(task["episodes"])])))
    return returns


if __name__ == "__main__":
    torch.set_num_threads(1)
    task = json.loads(sys.argv[1])
    returns = list(zip(*(learned(task, seed) for seed in range(task["seeds"])), strict=True))
    versions = {name: importlib.metadata.version(name) for name in ("open_spiel", "torch")}
    print(json.dumps({"returns": returns, "versions": versions}))
