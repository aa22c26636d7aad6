"""Games of the Hanabi Learning Environment 0.0.4, which replays compare with Hanabi-v0.

The recorded games of the quick tests are made by this module:

    .nox/hanabi/bin/python -m libraries.hanabi_oracle   # in the folder tests
"""

import json
from pathlib import Path

import numpy as np
from hanabi_learning_environment import pyhanabi
from parity.traces import write_arrays

TRACE = Path(__file__).parents[1] / "parity" / "cards" / "hanabi.npz.xz"
KINDS = ("minimal", "card_knowledge", "seer")
# Settings of the recorded games.
TRACED = (
    {},
    dict(
        players=3, colors=2, ranks=3, hand_size=2, max_information_tokens=3, max_life_tokens=2, random_start_player=True
    ),
    dict(players=5, max_life_tokens=5, observation_type="minimal"),
    dict(colors=1, hand_size=2, max_information_tokens=3, max_life_tokens=1, observation_type="seer"),
)
NAMES = ("players", "colors", "ranks", "hand_size", "max_information_tokens", "max_life_tokens", "random_start_player")


def make(settings, seed):
    """Return a game of the original."""
    options = {name: settings[name] for name in NAMES if settings.get(name) is not None}
    kind = KINDS.index(settings.get("observation_type", "card_knowledge"))
    return pyhanabi.HanabiGame({**options, "observation_type": kind, "seed": seed})


def cards_of(state):
    """Return the cards dealt so far."""
    deals = [item.move() for item in state.move_history() if item.move().type() == pyhanabi.HanabiMoveType.DEAL]
    return [(move.color(), move.rank()) for move in deals]


def play(game, rng, skill, watch=None):
    """Play a game; return its arrays by name.

    At a share of the steps, ``skill``, only cards that fit are played; otherwise actions are random.
    """
    encoder = pyhanabi.ObservationEncoder(game, pyhanabi.ObservationEncoderType.CANONICAL)
    players, actions, ranks = game.num_players(), game.max_moves(), game.num_ranks()
    state, trace = game.new_initial_state(), {"action": [], "legal": [], "reward": [], "obs": []}
    deal(state)
    first = state.cur_player()
    while not state.is_terminal():
        mover, score = state.cur_player(), state.score()
        if watch:
            watch(state)
        legal = [game.get_move_uid(move) for move in state.legal_moves()]
        fits = [
            game.hand_size() + position
            for position, card in enumerate(state.player_hands()[mover])
            if state.card_playable_on_fireworks(card.color(), card.rank())
        ]
        alternatives = [move for move in legal if not game.hand_size() <= move < 2 * game.hand_size()]
        careful = fits or alternatives or legal
        action = careful[0] if rng.random() < skill else int(rng.choice(legal))
        state.apply_move(game.get_move(action))
        if not state.is_terminal():  # rl_env deals a card after the end, which nothing depends on
            deal(state)
        encoded = [encoder.encode(state.observation(player)) for player in range(players)]
        trace["action"].append(action)
        trace["legal"].append(np.isin(np.arange(actions), legal))
        trace["reward"].append(state.score() - score)
        trace["obs"].append(np.packbits(np.array(encoded, np.uint8), axis=-1))
    counts = {(color, rank): game.num_cards(color, rank) for color in range(game.num_colors()) for rank in range(ranks)}
    deck = cards_of(state)
    for card in deck:
        counts[card] -= 1
    deck += [card for card, count in counts.items() for _ in range(count)]
    values = dict(deck=[color * ranks + rank for color, rank in deck], first=first, length=len(trace["action"]))
    return values | trace


def deal(state):
    """Let chance deal cards."""
    while state.cur_player() == pyhanabi.CHANCE_PLAYER_ID:
        state.deal_random_card()


def record(settings, games, seed):
    """Return the arrays of games by name, with a leading number of games; shorter games are padded with zeros."""
    rng, game = np.random.default_rng(seed), make(settings, seed + 1)
    played = [play(game, rng, skill=rng.random() ** 0.3) for _ in range(games)]
    longest = max(trace["length"] for trace in played)
    arrays = {name: np.array([trace[name] for trace in played]) for name in ("deck", "first", "length")}
    for name, kind in (("action", np.int8), ("legal", bool), ("reward", np.int8), ("obs", np.uint8)):
        shape = np.array(played[0][name]).shape[1:]
        arrays[name] = np.zeros((games, longest, *shape), kind)
        for index, trace in enumerate(played):
            arrays[name][index, : trace["length"]] = trace[name]
    small = dict(deck=np.int8, first=np.int8, length=np.int16)
    return {name: values.astype(small.get(name, values.dtype)) for name, values in arrays.items()}


def record_all(path=TRACE, games=20):
    """Write the games of the quick tests."""
    arrays = {"settings": np.array(json.dumps(TRACED))}
    for index, settings in enumerate(TRACED):
        for name, values in record(settings, games, seed=index).items():
            arrays[f"{index}.{name}"] = values
    write_arrays(path, arrays)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
