"""OpenSpiel: random play, one game after the other. A "step" is a whole game."""

import random

from benchmarks.peers.inside.child import serve


def loop(game, observe):
    """Return a function that plays a number of random games in a Python loop.

    Args:
        game: OpenSpiel's name of it.
        observe: Read what the mover sees and the mask of its legal actions before every move, as a learner would.
    """
    import pyspiel

    game, draw = pyspiel.load_game(game), random.Random(1).choice
    has_information_state = game.get_type().provides_information_state_tensor

    def play(count):
        for _ in range(count):
            state = game.new_initial_state()
            while not state.is_terminal():
                if observe and not state.is_chance_node():
                    mover = state.current_player()
                    (state.information_state_tensor if has_information_state else state.observation_tensor)(mover)
                    state.legal_actions_mask(mover)
                state.apply_action(draw(state.legal_actions()))  # chances are equal in these games
            state.returns()
        return count

    return play


def bots(game):
    """Return a function that plays a number of games of OpenSpiel's random players, in C++."""
    import pyspiel

    game = pyspiel.load_game(game)
    players = [pyspiel.make_uniform_random_bot(player, player) for player in range(2)]

    def play(count):
        for seed in range(count):
            pyspiel.evaluate_bots(game.new_initial_state(), players, seed)
        return count

    return play


def build(task):
    """``players``: "loop", "loop with observations" or "bots"."""
    players = task["options"]["players"]
    play = bots(task["game"]) if players == "bots" else loop(task["game"], players == "loop with observations")
    return 2, play


if __name__ == "__main__":
    serve(build, ("open_spiel",))
