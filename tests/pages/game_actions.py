"""Checks of the action tables of games."""

import re

import torch
from action_steps import one_step

from docs.scripts import tables
from gpu_envs.envs.games.hidden.liars_dice import quantity_and_face
from gpu_envs.runtime.factory import make_core


def connect_four_actions():
    (table,) = tables.action_tables("games/connect_four")
    assert [index for index, _ in table] == list(range(7))
    for index, position in table:
        after = one_step("games/connect_four", lambda state: None, index, rows=6, columns=7)
        assert after["marks"].tolist() == [1 << 7 * int(re.match(r"column (\d)", position)[1]), 0]


def disc_game_actions():
    ((x, *_), (y, *_)) = tables.action_tables("games/disc_game")[0]
    after = one_step("games/disc_game", lambda state: None, torch.eye(2)[x] * 0.5 + torch.eye(2)[y] * 0.25)
    assert after["last"].tolist() == [[0.5, 0.25]] * 2


def tic_tac_toe_actions():
    (table,) = tables.action_tables("games/tic_tac_toe")
    down, across = ("top", "middle", "bottom"), ("left", "middle", "right")
    for index, position in table:
        row, column = (side.split()[0] for side in position.split(", "))
        after = one_step("games/tic_tac_toe", lambda state: None, index)
        assert after["marks"].tolist() == [1 << 4 * across.index(column) + down.index(row), 0]


def kuhn_poker_actions():
    (table,) = tables.action_tables("games/kuhn_poker")
    for index, action, _ in table:
        assert one_step("games/kuhn_poker", lambda state: None, index)["bets"] == int(action == "bet")


def leduc_poker_actions():
    """Check the actions after a raise by the opponent, where all three are legal."""
    (table,) = tables.action_tables("games/leduc_poker")
    paid = {"fold": 1, "call": 3, "raise": 5}
    for index, action, _ in table:
        core = make_core("LeducPoker-v0", 1, "cpu", seed=0, autoreset="disabled")
        core.reset()
        core.step(torch.tensor([[2, 0]]))
        assert core.action_mask[0, 1].all()
        _, _, terminated, _, _ = core.step(torch.tensor([[0, index]]))
        assert core.world_state["chips"].tolist() == [[3, paid[action]]]
        assert terminated.all() == (action == "fold")


def dark_hex_actions():
    (table,) = tables.action_tables("games/hidden/dark_hex")
    for index, position, _ in table:
        row, column = map(int, re.match(r"row (\d), column (\d)", position).groups())
        after = one_step("games/hidden/dark_hex", lambda state: None, index, num_rows=3)
        assert after["marks"].tolist() == [1 << 3 * row + column, 0]


def goofspiel_actions():
    (table,) = tables.action_tables("games/hidden/goofspiel")
    for index, action, _ in table:
        core = make_core("Goofspiel-v0", 1, "cpu", seed=0)
        core.reset()
        core.step(torch.tensor([[index, index]]))
        assert core.world_state["bid"][0, :, 0].tolist() == [int(action.removeprefix("bid ")) - 1] * 2
        assert not core.action_mask[0, :, index].any()


def liars_dice_actions():
    (table,) = tables.action_tables("games/hidden/liars_dice")
    config = make_core("LiarsDice-v0", 1, "cpu").config
    for index, action, _ in table:
        core = make_core("LiarsDice-v0", 1, "cpu", seed=0, autoreset="disabled")
        core.reset()
        core.step(torch.tensor([[0, 0]]))  # one 1
        if index:
            _, _, terminated, _, _ = core.step(torch.tensor([[0, index]]))
            assert terminated.all() == (action == "liar")
        if action != "liar":
            quantity, face = map(int, re.match(r"bid (\d+) x (\d+)", action).groups())
            assert quantity_and_face(config, int(core.world_state["last"])) == (quantity, face)


def markov_soccer_actions():
    def separate(state):
        state["cell"].copy_(torch.tensor([[7, 2]]))

    (table,) = tables.action_tables("games/hidden/markov_soccer")
    to = {"up": 4, "down": 10, "left": 6, "right": 8, "stand": 7}
    for index, move in table:
        after = one_step("games/hidden/markov_soccer", separate, index, grid="A.O\n..B\n...\n...")
        assert after["cell"][0] == to[move]


def oshi_zumo_actions():
    (table,) = tables.action_tables("games/hidden/oshi_zumo")
    ((span, action, _),) = table
    assert (span, action) == ("0 to 50", "bid that many coins")
    for coins in (0, 1, 49, 50):
        after = one_step("games/hidden/oshi_zumo", lambda state: None, coins, coins=50)
        assert after["coins"].tolist() == [50 - coins] * 2
        assert after["bid"].tolist() == [coins] * 2


def phantom_tic_tac_toe_actions():
    (table,) = tables.action_tables("games/hidden/phantom_tic_tac_toe")
    down, across = ("top", "middle", "bottom"), ("left", "center", "right")
    for index, position, _ in table:
        row, column = position.split()
        after = one_step("games/hidden/phantom_tic_tac_toe", lambda state: None, index)
        assert after["marks"].tolist() == [1 << 3 * down.index(row) + across.index(column), 0]


def matrix_game_actions():
    (table,) = tables.action_tables("games/matrix_game")
    core = make_core("MatrixGame-v0", 1, "cpu", seed=0)
    core.reset()
    for index, _, earns in table:
        for other, payoff in enumerate(earns.split(" or ")):
            assert core.step(torch.tensor([[index, other]]))[1][0, 0] == float(payoff)


def rock_paper_scissors_actions():
    (table,) = tables.action_tables("games/rock_paper_scissors")
    named = {choice: index for index, choice, _ in table}
    core = make_core("RockPaperScissors-v0", 1, "cpu", seed=0)
    core.reset()
    for index, _, beaten in table:
        assert core.step(torch.tensor([[index, named[beaten]]]))[1].tolist() == [[1.0, -1.0]]


def climbing_game_actions():
    (table,) = tables.action_tables("games/climbing_game")
    core = make_core("ClimbingGame-v0", 1, "cpu", seed=0)
    core.reset()
    for row, *earned in table:
        for column, payoff in enumerate(earned):
            assert core.step(torch.tensor([[row, column]]))[1].tolist() == [[float(payoff)] * 2]


def two_step_game_actions():
    (table,) = tables.action_tables("games/two_step_game")
    core = make_core("TwoStepGame-v0", 1, "cpu", seed=0)
    core.reset()
    to = {way.removeprefix("to table "): index for index, way, *_ in table}
    for index, _, safe, *risky in table:
        for column in range(2):
            for name, payoff in (("A", safe), ("B", risky[column])):
                core.step(torch.tensor([[to[name], 0]]))
                assert core.step(torch.tensor([[index, column]]))[1].tolist() == [[float(payoff)] * 2]
