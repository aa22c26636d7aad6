"""Small games and their OpenSpiel equivalents, and the loop that produced the reference tables."""

from functools import cache

import numpy as np
import pyspiel
import torch
from open_spiel.python import policy

from league.exact.game_tree import GameTree
from league.game import Game


def _turns_of(game, settings):
    """Return OpenSpiel's name of a game of simultaneous moves, in which the players move in turn unseen."""
    listed = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"turn_based_simultaneous_game(game={game}({listed}))"


GAMES = {
    "kuhn": ("KuhnPoker-v0", {}, "kuhn_poker"),
    "kuhn of three": ("KuhnPoker-v0", {"num_players": 3}, "kuhn_poker(players=3)"),
    "leduc": ("LeducPoker-v0", {}, "leduc_poker"),
    "liar's dice": ("LiarsDice-v0", {"dice_sides": 3}, "liars_dice(dice_sides=3)"),
    "liar's dice of two": (
        "LiarsDice-v0",
        {"numdice": 2, "dice_sides": 2, "bidding_rule": "reset-quantity"},
        "liars_dice(numdice=2,dice_sides=2,bidding_rule=reset-quantity)",
    ),
    **{
        name: ("Goofspiel-v0", settings, _turns_of("goofspiel", settings))
        for name, settings in {
            "goofspiel of four": {"num_cards": 4, "imp_info": True, "points_order": "descending"},
            "goofspiel of four in random order": {"num_cards": 4, "imp_info": True, "points_order": "random"},
            "goofspiel of five": {"num_cards": 5, "imp_info": True, "points_order": "ascending"},
        }.items()
    },
    "dark hex of 2 x 2": (
        "DarkHex-v0",
        {"board_size": 2, "obstype": "reveal-numturns"},
        "dark_hex(board_size=2,obstype=reveal-numturns)",
    ),
    **{  # enumerated by OpenSpiel's states
        f"{name} as a host environment": (f"open_spiel:{name}", {}, name)
        for name in ("kuhn_poker(players=3)", "leduc_poker")
    },
    "goofspiel as a host environment": (
        "open_spiel:goofspiel(num_cards=3,imp_info=True,points_order=random)",
        {},
        _turns_of("goofspiel", {"num_cards": 3, "imp_info": True, "points_order": "random"}),
    ),
    "liar's dice of six faces": ("LiarsDice-v0", {}, "liars_dice"),
}
LARGE = ("goofspiel of four in random order", "goofspiel of five", "liar's dice of six faces")
"""Games whose comparison takes longer."""


@cache
def tree_of(name):
    env_id, settings, _ = GAMES[name]
    return GameTree(Game.of(env_id, settings))


@cache
def spiel_of(name):
    return pyspiel.load_game(GAMES[name][2])


def random_table(tree, seat, generator):
    """Any behavior, some choices of it never taken."""
    legal = tree.legal[seat]
    odds = torch.rand(legal.shape, generator=generator, dtype=torch.float64) * legal
    odds *= torch.rand(legal.shape, generator=generator) < 0.7
    odds = torch.where(odds.sum(-1, keepdim=True) > 0, odds, legal.double())
    return odds / odds.sum(-1, keepdim=True)


@cache
def states_of(name):
    """Return OpenSpiel's tabular policy and, for each row, a state, the player and the infoset of gpu-envs."""
    tree, tabular, states = tree_of(name), policy.TabularPolicy(spiel_of(name)), []
    ours = [{row.numpy().tobytes(): index for index, row in enumerate(rows)} for rows in tree.observations]
    for state in tabular.states:
        player = state.current_player()
        obs = np.array(state.information_state_tensor(player), np.float32)  # equal to the observations of gpu-envs
        obs = obs[-tree.observations[player].shape[1] :]  # without the player to act of simultaneous moves
        states.append((state, player, ours[player][obs.tobytes()]))
    return tabular, states


def to_spiel(name, profile):
    """Return the policies as one tabular policy of OpenSpiel."""
    tabular, states = states_of(name)
    tabular = tabular.__copy__()
    for row, (_, player, infoset) in enumerate(states):
        tabular.action_probability_array[row] = profile[player][infoset].numpy()
    return tabular


def psro(tree, solve, iterations, tie=0.0):
    """NashConv by iteration: the policies so far, mixed, and a best response of every seat to the mixture."""
    seats = range(len(tree.game.seats))
    pools, nash_convs = [[tree.uniform(seat)] for seat in seats], []
    for _ in range(iterations + 1):
        marginals = solve(tree.payoffs(pools))
        profile = [tree.mix(pools[seat], marginals[seat], seat) for seat in seats]
        nash_convs.append(tree.nash_conv(profile))
        for seat in seats:
            pools[seat].append(tree.best_response(profile, seat, tie)[0])
    return np.array(nash_convs)


def from_loss_to_win(payoffs):
    """Return payoffs (S, ...) of which each seat's range from -1 to 1, or are all -1 if they are equal."""
    seats = payoffs.double().flatten(1)
    lowest, highest = seats.min(1, keepdim=True).values, seats.max(1, keepdim=True).values
    return (2 * (seats - lowest) / (highest - lowest).clamp(min=1e-12) - 1).view_as(payoffs)
