"""Play of OpenSpiel's own DQN against random opponents, as in its example breakthrough_dqn, after a number of steps.

python -m benchmarks.peers.openspiel_learning liars_dice --steps 100000 --seed 0

Both seats learn by DQN against each other, with the settings of the example. Then each seat plays greedily against
random opponents. The output is one line of JSON with the mean returns by seat and their 95 % half-widths.
"""

import argparse
import json
import math
import statistics
import sys
import time

EPISODES = 1_000
"""Evaluation episodes per seat."""
HIDDEN = (64, 64)
"""Widths of the hidden layers in the example."""


def main(argv: list[str]) -> int:
    """Train and evaluate; print the result."""
    import numpy as np
    import pyspiel
    import torch
    from open_spiel.python import rl_environment
    from open_spiel.python.algorithms import random_agent
    from open_spiel.python.pytorch import dqn

    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.openspiel_learning", description=__doc__)
    parser.add_argument("game", help="game string of OpenSpiel")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps; simultaneous moves are one step")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    np.random.seed(given.seed)  # noqa: NPY002  # the source of OpenSpiel's agents
    env = rl_environment.Environment(pyspiel.load_game(given.game), seed=given.seed)
    width, actions = env.observation_spec()["info_state"][0], env.action_spec()["num_actions"]
    agents = [dqn.DQN(seat, width, actions, list(HIDDEN), replay_buffer_capacity=100_000) for seat in range(2)]

    def play(players, learning: bool) -> tuple[int, list[float]]:
        """Play an episode; return its steps and returns."""
        step, taken, returns = env.reset(), 0, np.zeros(2)
        while not step.last():
            mover = step.observations["current_player"]
            movers = range(2) if env.is_turn_based is False else [mover]
            chosen = [players[seat].step(step, is_evaluation=not learning).action for seat in movers]
            step, taken = env.step(chosen), taken + 1
            returns += np.array(step.rewards)
        if learning:
            for player in players:
                player.step(step)
        return taken, returns.tolist()

    begin, done = time.perf_counter(), 0
    while done < given.steps:
        done += play(agents, True)[0]
    seconds = time.perf_counter() - begin
    result = {"game": given.game, "steps": done, "seed": given.seed, "seconds": round(seconds)}
    for seat in range(2):
        players = [random_agent.RandomAgent(other, actions) for other in range(2)]
        players[seat] = agents[seat]
        found = [play(players, False)[1][seat] for _ in range(EPISODES)]
        half = 1.96 * statistics.stdev(found) / math.sqrt(EPISODES)
        result[f"player_{seat}"] = [round(statistics.fmean(found), 3), round(half, 3)]
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
