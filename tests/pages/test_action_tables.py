"""Action tables of pages: each row has the effect that it describes."""

import ast
import re

import pytest
import torch
from conftest import SMALL

from docs.scripts import tables
from gpu_envs.envs.games.hidden.liars_dice import quantity_and_face
from gpu_envs.runtime.factory import make_core

NAMES = tables.names()


def one_step(name, prepare, action, **settings):
    """State of a small world after one step, in which all agents take this action (component by component)."""
    core = make_core(NAMES[name], 1, "cpu", seed=0, autoreset="disabled", **SMALL[NAMES[name]] | settings)
    core.reset()
    prepare(core.world_state)
    core.step(torch.zeros_like(core.action_buffer) + torch.as_tensor(action, dtype=core.action_buffer.dtype))
    return {field: tensor[0] for field, tensor in core.world_state.items()}


def direction_of(word):
    """Unit vector of a cell like "left, -x"; zero where it names no axis."""
    axis = {"x": (1.0, 0.0), "y": (0.0, 1.0)}.get(word[-1], (0.0, 0.0)) if word[-2:-1] in ("+", "-") else (0.0, 0.0)
    return torch.tensor(axis) * (-1.0 if word[-2:-1] == "-" else 1.0)


def simple_tag_actions():
    def apart(state):
        state["pos"].copy_(torch.arange(12.0).view(1, 6, 2))

    discrete, continuous = tables.description("mpe/simple_tag").action_tables()
    accel = torch.tensor([[3.0], [3.0], [3.0], [4.0]])
    for index, push in discrete.rows:
        after = one_step("mpe/simple_tag", apart, index)
        torch.testing.assert_close(after["vel"], accel * 0.1 * direction_of(push))
    for index, push, _ in continuous.rows:
        after = one_step("mpe/simple_tag", apart, torch.eye(5)[index], continuous_actions=True)
        torch.testing.assert_close(after["vel"], accel * 0.1 * direction_of(push))


def tag_continuous_actions():
    def moving(state):
        state["speed"].fill_(0.5)
        state["direction"].fill_(3.0)

    (table,) = tables.description("tag/tag_continuous").action_tables()
    for index, acceleration, turn in table.rows:
        after = one_step("tag/tag_continuous", moving, index)
        assert abs(after["acceleration"][0] - float(acceleration)) < 1e-4
        assert abs(after["direction"][0] - 3.0 - float(turn)) < 1e-3


def tag_gridworld_actions():
    (table,) = tables.description("tag/tag_gridworld").action_tables()
    for index, move in table.rows:
        after = one_step("tag/tag_gridworld", lambda state: state["cell"].fill_(2), index)
        assert (after["cell"] - 2 == direction_of(move)).all()


def mpe_actions(name, accel=5.0):
    """Check the tables on agents at rest without contacts; ``accel`` is in m/s^2, for all agents or per agent."""
    accel = torch.as_tensor(accel).reshape(-1, 1)

    def apart(state):
        state["pos"].copy_(torch.arange(float(state["pos"].numel())).view_as(state["pos"]))

    discrete, continuous = tables.description(name).action_tables()
    for index, push in discrete.rows:
        after = one_step(name, apart, index)
        torch.testing.assert_close(after["vel"], (accel * 0.1 * direction_of(push)).expand_as(after["vel"]))
    for index, push, _ in continuous.rows:
        after = one_step(name, apart, torch.eye(5)[index], continuous_actions=True)
        torch.testing.assert_close(after["vel"], (accel * 0.1 * direction_of(push)).expand_as(after["vel"]))


# MPE, the talking ones


def talking_actions(name, speakers, accel, tables_of):
    """Hold tables of words and pushes against what agents do: (table, rows of the agents, continuous) each."""

    def apart(state):
        if "pos" in state:
            state["pos"].copy_(torch.arange(float(state["pos"].numel())).view_as(state["pos"]))

    components = max(len(table.rows) for table, _, continuous in tables_of if continuous)
    for table, rows, continuous in tables_of:
        for index, meaning, *_ in table.rows:
            action = torch.zeros(len(accel), components) if continuous else torch.zeros(len(accel))
            action[rows] = torch.eye(components)[index] if continuous else float(index)
            after = one_step(name, apart, action, continuous_actions=continuous)
            if accel.any():
                torch.testing.assert_close(after["vel"][rows], accel[rows, None] * 0.1 * direction_of(meaning))
            letter = re.match(r"letter (\d+)", meaning)
            for speaker in speakers:
                said = torch.zeros(after["said"].shape[1])
                if speaker in rows and letter:
                    said[int(letter[1])] = 1.0
                elif not continuous:
                    said[0] = 1.0  # choice 0, which is a letter too
                assert torch.equal(after["said"][speaker], said)


def simple_crypto_actions():
    discrete, continuous = tables.description("mpe/simple_crypto").action_tables()
    rows = [0, 1, 2]
    talking_actions("mpe/simple_crypto", rows, torch.zeros(3), ((discrete, rows, False), (continuous, rows, True)))


def simple_reference_actions():
    discrete, continuous = tables.description("mpe/simple_reference").action_tables()
    rows, accel = [0, 1], torch.tensor([5.0, 5.0])
    talking_actions("mpe/simple_reference", rows, accel, ((discrete, rows, False), (continuous, rows, True)))


def simple_speaker_listener_actions():
    word, push, loudness, throttle = tables.description("mpe/simple_speaker_listener").action_tables()
    both = (word, [0], False), (push, [1], False), (loudness, [0], True), (throttle, [1], True)
    talking_actions("mpe/simple_speaker_listener", [0], torch.tensor([0.0, 5.0]), both)


def simple_world_comm_actions():
    lead, push, loudness, throttle = tables.description("mpe/simple_world_comm").action_tables()
    others, accel = [1, 2, 3, 4, 5], torch.tensor([3.0, 3.0, 3.0, 3.0, 4.0, 4.0])
    both = (lead, [0], False), (push, others, False), (loudness, [0], True), (throttle, others, True)
    talking_actions("mpe/simple_world_comm", [0], accel, both)


# classic control


def cartpole_actions():
    (table,) = tables.description("classic/cartpole").action_tables()
    for index, push in table.rows:
        after = one_step("classic/cartpole", lambda state: state["motion"].zero_(), index)
        assert after["motion"][1].sign() == direction_of(push)[0]


def level_based_foraging_actions():
    """A player in the middle moves by a cell; beside a food of its level it stays and loads."""
    moves = {"row above": (-1, 0), "row below": (1, 0), "on the left": (0, -1), "on the right": (0, 1)}

    def prepare(state):
        state["player"].copy_(torch.tensor([[2, 2, 1], [0, 0, 1], [3, 0, 1]]))
        state["food"].copy_(torch.tensor([[1, 4, 1], [3, 1, 1]]))

    def beside_food(state):
        prepare(state)
        state["player"][:, 0, :2] = torch.tensor([3, 2])

    (table,) = tables.description("grid/level_based_foraging").action_tables()
    for index, meaning in table.rows:
        after = one_step("grid/level_based_foraging", prepare, index)["player"][0, :2] - 2
        assert after.tolist() == list(next((moves[words] for words in moves if words in meaning), (0, 0)))
        after = one_step("grid/level_based_foraging", beside_food, index)
        assert (after["food"][1, 2] == 0) == ("load the adjacent food" in meaning)


def robot_warehouse_actions():
    """A robot below a shelf drives, turns, or picks the shelf up; one with a shelf puts it down."""

    def prepare(state):
        state["row"].copy_(torch.tensor([2, 0, 0]))
        state["column"].copy_(torch.tensor([2, 0, 1]))
        state["direction"].zero_()
        state["shelf"].zero_()[..., 2, 2] = 1

    def loaded(state):
        prepare(state)
        state["load"].copy_(torch.tensor([1, 0, 0]))

    ways = {"turn left": 2, "turn right": 3}
    (table,) = tables.description("grid/robot_warehouse").action_tables()
    for index, meaning in table.rows:
        after = one_step("grid/robot_warehouse", prepare, [index, 0])
        assert (after["row"][0] == 1) == ("to the cell ahead" in meaning)
        assert after["direction"][0] == next((ways[words] for words in ways if words in meaning), 0)
        assert (after["load"][0] == 1) == ("pick up the shelf" in meaning)
        after = one_step("grid/robot_warehouse", loaded, [index, 0])
        assert (after["load"][0] == 0) == ("put down the own one" in meaning)


def overcooked_actions():
    """The first player, in the middle of an open kitchen, moves by a cell; with an item before a counter it puts it."""
    moves = {"row above": -1, "row below": 1, "on the right": 5, "on the left": -5}
    small = {"layout_grid": ("XPXXX", "O   D", "X 12X", "X   X", "XSXXX")}

    def prepare(state):
        state["place"].copy_(torch.tensor([[12, 18]]))
        state["held"].copy_(torch.tensor([[2, 0]]))

    def before_counter(state):
        prepare(state)
        state["place"][:, 0] = 11

    (table,) = tables.description("kitchen/overcooked").action_tables()
    for index, meaning in table.rows:
        after = one_step("kitchen/overcooked", prepare, index, **small)
        assert after["place"][0] - 12 == next((moves[words] for words in moves if words in meaning), 0)
        after = one_step("kitchen/overcooked", before_counter, index, **small)
        assert (after["held"][0] == 0) == ("interact" in meaning)


def hanabi_actions():
    """Each action of a table with one of every color and rank in both hands, with some tokens used."""
    (table,) = tables.description("cards/hanabi").action_tables()
    colors = tables.description("cards/hanabi").COLORS
    for index, action, legal in table.rows:
        core = make_core("Hanabi-v0", 1, "cpu", seed=0, autoreset="disabled")
        core.reset()
        assert core.action_mask[0, 0, index] == (legal == "always") or "hint" in legal or "match" in legal
        before = core.get_state()
        before["state.hand"][0] = torch.tensor([0, 6, 12, 18, 24])
        before["state.information"][:] = 4
        before["io.action_mask"][:] = True
        core.set_state(before)
        core.step(torch.tensor([[index, 0]]))
        after = {field: tensor[0] for field, tensor in core.world_state.items()}
        words = action.split()
        if words[0] == "tell":
            assert words[1:3] == ["player", "+1"]
            bit = 5 + int(words[4]) - 1 if words[3] == "rank" else colors.index(words[3])
            assert after["revealed"][1].sum() == 1 << bit
        else:
            place = int(words[2])
            assert after["last_card"] == [0, 6, 12, 18, 24][place]
            assert after["information"] == 4 + (words[0] == "discard")
            assert after["fireworks"].sum() + 3 - after["lives"] == (words[0] == "play")


def coin_game_actions():
    (table,) = tables.description("grid/coin_game").action_tables()
    ways = {"+column": (0, 1), "-column": (0, -1), "+row": (1, 0), "-row": (-1, 0)}
    for index, meaning in table.rows:

        def middle(state):
            state["player"].fill_(1)
            state["coin"].zero_()

        after = one_step("grid/coin_game", middle, index)
        assert (after["player"] - 1).tolist() == [list(ways.get(meaning.partition(", ")[2], (0, 0)))] * 2


def switch_riddle_actions():
    (table,) = tables.description("games/switch_riddle").action_tables()
    for index, meaning in table.rows:
        after = one_step("games/switch_riddle", lambda state: None, index)
        assert (after["bulb"] == 1) == meaning.startswith("switch the lamp")
        assert (after["claim"] > 0) == meaning.startswith("tell")


def multi_cartpole_actions():
    (table,) = tables.description("classic/multi_cartpole").action_tables()
    for index, push in table.rows:
        after = one_step("classic/multi_cartpole", lambda state: state["motion"].zero_(), index)
        assert (after["motion"][:, 1].sign() == direction_of(push)[0]).all()


def mountain_car_actions():
    (table,) = tables.description("classic/mountain_car").action_tables()
    for index, push in table.rows:
        after = one_step("classic/mountain_car", lambda state: state["motion"].copy_(torch.tensor([-0.5, 0.0])), index)
        coasting = -0.0025 * float(torch.cos(torch.tensor(-1.5)))
        assert after["motion"][1] - coasting == pytest.approx(0.001 * float(direction_of(push)[0]), abs=1e-8)


def mountain_car_continuous_actions():
    name = "classic/mountain_car_continuous"
    ((_, throttle, span),) = tables.description(name).action_tables()[0].rows
    for action in ast.literal_eval(span):
        after = one_step(name, lambda state: state["motion"].copy_(torch.tensor([-0.5, 0.0])), action)
        coasting = -0.0025 * float(torch.cos(torch.tensor(-1.5)))
        expected = 0.0015 * action * float(direction_of(throttle)[0])
        assert after["motion"][1] - coasting == pytest.approx(expected, abs=1e-8)


def pendulum_actions():
    ((_, sense, span),) = tables.description("classic/pendulum").action_tables()[0].rows
    assert sense == "counter-clockwise"
    for torque in ast.literal_eval(span):
        after = one_step("classic/pendulum", lambda state: state["motion"].zero_(), torque)
        assert float(after["motion"][1]) == pytest.approx(3 * torque * 0.05)
        picture = -torch.sin(after["motion"][0])  # where the free end went, to the right
        assert picture.sign() == -torch.tensor(torque).sign()


def acrobot_actions():
    (table,) = tables.description("classic/acrobot").action_tables()
    for index, torque in table.rows:
        after = one_step("classic/acrobot", lambda state: state["motion"].zero_(), index)
        assert after["motion"][3].sign() == float(torque)


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
    for index, action, _ in table.rows:
        after = one_step("games/hidden/oshi_zumo", lambda state: None, index, coins=50)
        coins = int(re.match(r"bid (\d+)", action)[1])
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


@pytest.mark.parametrize("name", NAMES)
def test_action_tables(name):
    """A new environment needs a check of its action table in ACTIONS."""
    ACTIONS[name]()
