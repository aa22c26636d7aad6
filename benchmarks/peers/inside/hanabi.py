"""Hanabi Learning Environment: one game after the other in a Python loop over its C++ library."""

import random

from hanabi_learning_environment import pyhanabi

from benchmarks.peers.inside.child import one_by_one, serve


def build(task):
    """``options``: parameters of a `HanabiGame`, such as players. The mover's observation is encoded in every step."""
    game = pyhanabi.HanabiGame({**task["options"], "seed": 1})
    encoder = pyhanabi.ObservationEncoder(game, pyhanabi.ObservationEncoderType.CANONICAL)
    draw, state = random.Random(1).choice, game.new_initial_state()

    def step(index):
        nonlocal state
        if state.is_terminal():
            state = game.new_initial_state()
        while state.cur_player() == pyhanabi.CHANCE_PLAYER_ID:
            state.deal_random_card()
        encoder.encode(state.observation(state.cur_player()))
        state.apply_move(draw(state.legal_moves()))

    return game.num_players(), one_by_one(step)


if __name__ == "__main__":
    serve(build, ("hanabi-learning-environment",))
