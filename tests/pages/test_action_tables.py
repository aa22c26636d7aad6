"""Action tables of pages: each row has the effect that it describes."""

import pytest
from action_steps import NAMES
from classic_actions import (
    acrobot_actions,
    cartpole_actions,
    mountain_car_actions,
    mountain_car_continuous_actions,
    multi_cartpole_actions,
    pendulum_actions,
)
from cooperative_actions import (
    coin_game_actions,
    gather_trade_build_actions,
    hanabi_actions,
    level_based_foraging_actions,
    one_step_economy_actions,
    overcooked_actions,
    robot_warehouse_actions,
    smax_actions,
    switch_riddle_actions,
)
from game_actions import (
    climbing_game_actions,
    connect_four_actions,
    dark_hex_actions,
    disc_game_actions,
    goofspiel_actions,
    kuhn_poker_actions,
    leduc_poker_actions,
    liars_dice_actions,
    markov_soccer_actions,
    matrix_game_actions,
    oshi_zumo_actions,
    phantom_tic_tac_toe_actions,
    rock_paper_scissors_actions,
    tic_tac_toe_actions,
    two_step_game_actions,
)
from particle_actions import (
    mpe_actions,
    simple_crypto_actions,
    simple_reference_actions,
    simple_speaker_listener_actions,
    simple_tag_actions,
    simple_world_comm_actions,
    tag_continuous_actions,
    tag_gridworld_actions,
)

ACTIONS = {
    "mpe/simple_tag": simple_tag_actions,
    "tag/tag_continuous": tag_continuous_actions,
    "tag/tag_gridworld": tag_gridworld_actions,
    # MPE
    "mpe/simple": lambda: mpe_actions("mpe/simple"),
    "mpe/simple_adversary": lambda: mpe_actions("mpe/simple_adversary"),
    "mpe/simple_push": lambda: mpe_actions("mpe/simple_push"),
    "mpe/simple_spread": lambda: mpe_actions("mpe/simple_spread"),
    # MPE, the talking ones
    "mpe/simple_crypto": simple_crypto_actions,
    "mpe/simple_reference": simple_reference_actions,
    "mpe/simple_speaker_listener": simple_speaker_listener_actions,
    "mpe/simple_world_comm": simple_world_comm_actions,
    "mpe/collect_treasure": lambda: mpe_actions("mpe/collect_treasure", [1.5] * 3 + [1.5 / 2.25] * 2),
    "mpe/simple_formation": lambda: mpe_actions("mpe/simple_formation"),
    "mpe/simple_line": lambda: mpe_actions("mpe/simple_line"),
    # grids
    "grid/coin_game": coin_game_actions,
    "grid/level_based_foraging": level_based_foraging_actions,
    "grid/robot_warehouse": robot_warehouse_actions,
    "kitchen/overcooked": overcooked_actions,
    # economies
    "economy/one_step": one_step_economy_actions,
    "smax/smax": smax_actions,
    "economy/gather_trade_build": gather_trade_build_actions,
    # cards
    "cards/hanabi": hanabi_actions,
    # classic control
    "classic/cartpole": cartpole_actions,
    "classic/multi_cartpole": multi_cartpole_actions,
    "classic/mountain_car": mountain_car_actions,
    "classic/mountain_car_continuous": mountain_car_continuous_actions,
    "classic/pendulum": pendulum_actions,
    "classic/acrobot": acrobot_actions,
    # games
    "games/climbing_game": climbing_game_actions,
    "games/connect_four": connect_four_actions,
    "games/disc_game": disc_game_actions,
    "games/kuhn_poker": kuhn_poker_actions,
    "games/leduc_poker": leduc_poker_actions,
    "games/hidden/dark_hex": dark_hex_actions,
    "games/hidden/goofspiel": goofspiel_actions,
    "games/hidden/liars_dice": liars_dice_actions,
    "games/hidden/markov_soccer": markov_soccer_actions,
    "games/hidden/oshi_zumo": oshi_zumo_actions,
    "games/hidden/phantom_tic_tac_toe": phantom_tic_tac_toe_actions,
    "games/matrix_game": matrix_game_actions,
    "games/rock_paper_scissors": rock_paper_scissors_actions,
    "games/switch_riddle": switch_riddle_actions,
    "games/tic_tac_toe": tic_tac_toe_actions,
    "games/two_step_game": two_step_game_actions,
}


def test_all_action_tables_have_a_check():
    """A new environment needs one in ACTIONS."""
    assert ACTIONS.keys() == NAMES.keys()


QUICK = ("CartPole-v1", "Pendulum-v1", "RockPaperScissors-v0", "SimpleSpeakerListener-v0", "SimpleTag-v0")
"""Environments of quick tests, with discrete, continuous and several actions."""


@pytest.mark.parametrize(
    ("name", "env_id"),
    [pytest.param(*each, marks=() if each[1] in QUICK else pytest.mark.slow) for each in NAMES.items()],
)
def test_action_tables(name, env_id):  # env_id: for the parts of all tests, see selection.py
    """Each row has the effect that it describes."""
    ACTIONS[name]()
