"""Checks of the action tables of games."""

import re

import torch
from action_steps import one_step

from docs.scripts import tables
from gpu_envs.envs.games.hidden.liars_dice import quantity_and_face
from gpu_envs.runtime.factory import make_core


def connect_four_actions():
    (table,) = tables.description("games/connect_four").action_tables()
    assert [index for index, _ in table.rows] == list(range(7))
    for index, where in table.rows:
        after = one_step("games/connect_four", lambda state: None, index, rows=6, columns=7)
        assert after["marks"].tolist() == [1 << 7 * int(re.match(r"column (\d)", where)[1]), 0]


def disc_game_actions():
    ((x, *_), (y, *_)) = tables.description("games/disc_game").action_tables()[0].rows
    after = one_step("games/disc_game", lambda state: None, torch.eye(2)[x] * 0.5 + torch.eye(2)[y] * 0.25)
    assert after["last"].tolist() == [[0.5, 0.25]] * 2


def tic_tac_toe_actions():
    words = tables.description("games/tic_tac_toe")
    (table,) = words.action_tables()
    for index, where in table.rows:
        row, column = (side.split()[0] for side in where.split(", "))
        after = one_step("games/tic_tac_toe", lambda state: None, index)
        assert after["marks"].tolist() == [1 << 4 * words.ACROSS.index(column) + words.DOWN.index(row), 0]


def kuhn_poker_actions():
    (table,) = tables.description("games/kuhn_poker").action_tables()
    for index, action, _ in table.rows:
        assert one_step("games/kuhn_poker", lambda state: None, index)["bets"] == int(action == "bet")


def leduc_poker_actions():
    """Check the actions after a raise by the opponent, where all three are legal."""
    (table,) = tables.description("games/leduc_poker").action_tables()
    paid = {"fold": 1, "call": 3, "raise": 5}
    for index, action, _ in table.rows:
        core = make_core("LeducPoker-v0", 1, "cpu", seed=0, autoreset="disabled")
        core.reset()
        core.step(torch.tensor([[2, 0]]))
        assert core.action_mask[0, 1].all()
        _, _, terminated, _, _ = core.step(torch.tensor([[0, index]]))
        assert core.world_state["chips"].tolist() == [[3, paid[action]]]
        assert terminated.all() == (action == "fold")


def dark_hex_actions():
    (table,) = tables.description("games/hidden/dark_hex").action_tables()
    for index, where, _ in table.rows:
        row, column = map(int, re.match(r"row (\d), column (\d)", where).groups())
        after = one_step("games/hidden/dark_hex", lambda state: None, index, num_rows=3)
        assert after["marks"].tolist() == [1 << 3 * row + column, 0]


def goofspiel_actions():
    (table,) = tables.description("games/hidden/goofspiel").action_tables()
    for index, action, _ in table.rows:
        core = make_core("Goofspiel-v0", 1, "cpu", seed=0)
        core.reset()
        core.step(torch.tensor([[index, index]]))
        assert core.world_state["bid"][0, :, 0].tolist() == [int(action.removeprefix("bid ")) - 1] * 2
        assert not core.action_mask[0, :, index].any()


def liars_dice_actions():
    (table,) = tables.description("games/hidden/liars_dice").action_tables()
    config = make_core("LiarsDice-v0", 1, "cpu").config
    for index, action, _ in table.rows:
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
    def apart(state):
        state["cell"].copy_(torch.tensor([[7, 2]]))

    (table,) = tables.description("games/hidden/markov_soccer").action_tables()
    to = {"up": 4, "down": 10, "left": 6, "right": 8, "stand": 7}
    for index, move in table.rows:
        after = one_step("games/hidden/markov_soccer", apart, index, grid="A.O\n..B\n...\n...")
        assert after["cell"][0] == to[move]


def oshi_zumo_actions():
    (table,) = tables.description("games/hidden/oshi_zumo").action_tables()
    ((span, action, _),) = table.rows
    assert (span, action) == ("0 to 50", "bid that many coins")
    for coins in (0, 1, 49, 50):
        after = one_step("games/hidden/oshi_zumo", lambda state: None, coins, coins=50)
        assert after["coins"].tolist() == [50 - coins] * 2
        assert after["bid"].tolist() == [coins] * 2


def phantom_tic_tac_toe_actions():
    (table,) = tables.description("games/hidden/phantom_tic_tac_toe").action_tables()
    down, across = ("top", "middle", "bottom"), ("left", "center", "right")
    for index, where, _ in table.rows:
        row, column = where.split()
        after = one_step("games/hidden/phantom_tic_tac_toe", lambda state: None, index)
        assert after["marks"].tolist() == [1 << 3 * down.index(row) + across.index(column), 0]


def matrix_game_actions():
    (table,) = tables.description("games/matrix_game").action_tables()
    core = make_core("MatrixGame-v0", 1, "cpu", seed=0)
    core.reset()
    for index, _, earns in table.rows:
        for other, payoff in enumerate(earns.split(" or ")):
            assert core.step(torch.tensor([[index, other]]))[1][0, 0] == float(payoff)


def rock_paper_scissors_actions():
    (table,) = tables.description("games/rock_paper_scissors").action_tables()
    named = {choice: index for index, choice, _ in table.rows}
    core = make_core("RockPaperScissors-v0", 1, "cpu", seed=0)
    core.reset()
    for index, _, beaten in table.rows:
        assert core.step(torch.tensor([[index, named[beaten]]]))[1].tolist() == [[1.0, -1.0]]


def climbing_game_actions():
    (table,) = tables.description("games/climbing_game").action_tables()
    core = make_core("ClimbingGame-v0", 1, "cpu", seed=0)
    core.reset()
    for row, *earned in table.rows:
        for column, payoff in enumerate(earned):
            assert core.step(torch.tensor([[row, column]]))[1].tolist() == [[float(payoff)] * 2]


def two_step_game_actions():
    (table,) = tables.description("games/two_step_game").action_tables()
    core = make_core("TwoStepGame-v0", 1, "cpu", seed=0)
    core.reset()
    to = {way.removeprefix("to table "): index for index, way, *_ in table.rows}
    for index, _, safe, *risky in table.rows:
        for column in range(2):
            for name, payoff in (("A", safe), ("B", risky[column])):
                core.step(torch.tensor([[to[name], 0]]))
                assert core.step(torch.tensor([[index, column]]))[1].tolist() == [[float(payoff)] * 2]
