"""Full random games in games a second: ours in a batch, OpenSpiel's one by one in a Python loop."""

import random
from collections.abc import Callable
from typing import Any

from gpu_envs.registry import make_core

SPIEL = {"LeducPoker-v0": "leduc_poker", "ConnectFour-v0": "connect_four"}
"""OpenSpiel's name of a game."""
LOOP = 100
"""Games that a call of OpenSpiel's loop plays."""
STEPS = 200
"""Steps that a call of random play plays."""


class Batch:
    """Worlds that play on and on; a call is a step, or many in one kernel.

    Args:
        env_id: Which game.
        num_envs: Worlds.
        fused: Play many steps in one kernel, instead of one with its observations and masks.
    """

    def __init__(self, env_id: str, num_envs: int, fused: bool) -> None:
        self.core = make_core(env_id, num_envs, "cpu", seed=1, threads=2, reuse_buffers=True)
        self.core.reset()
        self.play = self.playout if fused else self.step
        self.calls = 0

    def step(self) -> None:
        """One step of every world."""
        self.calls += 1
        self.core.step(self.core.sample_actions())

    def playout(self) -> None:
        """Many steps of every world."""
        self.calls += 1
        self.core.play_random(STEPS)

    def games_per_call(self) -> float:
        """Finished games, on the average of all calls so far."""
        return int(self.core.episodes.sum()) / self.calls


def loop(env_id: str, observe: bool) -> Callable[[], Any]:
    """A function that plays ``LOOP`` random games of OpenSpiel's.

    Args:
        env_id: Our id of the game.
        observe: Read what the mover sees and the mask of its legal actions before every move, as a learner would.
    """
    import pyspiel

    game, draw = pyspiel.load_game(SPIEL[env_id]), random.Random(1).choice
    kinds = game.get_type()

    def see(state: Any, mover: int) -> None:
        if kinds.provides_information_state_tensor:
            state.information_state_tensor(mover)
        else:
            state.observation_tensor(mover)
        state.legal_actions_mask(mover)

    def play() -> None:
        for _ in range(LOOP):
            state = game.new_initial_state()
            while not state.is_terminal():
                if observe and not state.is_chance_node():
                    see(state, state.current_player())
                state.apply_action(draw(state.legal_actions()))  # chances are equal in these games
            state.returns()

    return play


def bots(env_id: str) -> Callable[[], Any]:
    """A function that plays ``LOOP`` games of OpenSpiel's own random players, in C++."""
    import pyspiel

    game = pyspiel.load_game(SPIEL[env_id])
    players = [pyspiel.make_uniform_random_bot(player, player) for player in range(2)]

    def play() -> None:
        for seed in range(LOOP):
            pyspiel.evaluate_bots(game.new_initial_state(), players, seed)

    return play
