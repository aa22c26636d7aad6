"""Checks of the action tables of grids, kitchens, cards and the switch riddle."""

import torch
from action_steps import one_step

from docs.scripts import tables
from gpu_envs.envs.cards.hanabi import COLORS
from gpu_envs.runtime.factory import make_core


def level_based_foraging_actions():
    """A player in the middle moves by a cell; beside a food of its level it stays and loads."""
    moves = {"row above": (-1, 0), "row below": (1, 0), "on the left": (0, -1), "on the right": (0, 1)}

    def prepare(state):
        state["player"].copy_(torch.tensor([[2, 2, 1], [0, 0, 1], [3, 0, 1]]))
        state["food"].copy_(torch.tensor([[1, 4, 1], [3, 1, 1]]))

    def beside_food(state):
        prepare(state)
        state["player"][:, 0, :2] = torch.tensor([3, 2])

    (table,) = tables.action_tables("grid/level_based_foraging")
    for index, meaning in table:
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
    (table,) = tables.action_tables("grid/robot_warehouse")
    for index, meaning in table:
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
        state["position"].copy_(torch.tensor([[12, 18]]))
        state["inventory"].copy_(torch.tensor([[2, 0]]))

    def before_counter(state):
        prepare(state)
        state["position"][:, 0] = 11

    (table,) = tables.action_tables("kitchen/overcooked")
    for index, meaning in table:
        after = one_step("kitchen/overcooked", prepare, index, **small)
        assert after["position"][0] - 12 == next((moves[words] for words in moves if words in meaning), 0)
        after = one_step("kitchen/overcooked", before_counter, index, **small)
        assert (after["inventory"][0] == 0) == ("interact" in meaning)


def overcooked_v2_actions():
    """The first agent, in the middle of an open kitchen, moves by a cell; with an item before a counter it puts it."""
    moves = {"row above": -5, "row below": 5, "on the right": 1, "on the left": -1}
    small = {"layout_grid": ("WPWWW", "0A AB", "W   W", "1   R", "WXWWW")}

    def prepare(state):
        state["position"].copy_(torch.tensor([[12, 18]]))
        state["inventory"].copy_(torch.tensor([[1, 0]]))
        state["facing"].zero_()
        state["item"].zero_()

    def before_counter(state):
        prepare(state)
        state["position"][:, 0] = 7

    (table,) = tables.action_tables("kitchen/overcooked_v2")
    for index, meaning in table:
        after = one_step("kitchen/overcooked_v2", prepare, index, **small)
        assert after["position"][0] - 12 == next((moves[words] for words in moves if words in meaning), 0)
        after = one_step("kitchen/overcooked_v2", before_counter, index, **small)
        assert (after["inventory"][0] == 0) == ("interact" in meaning)


def smax_actions():
    """An ally beside two enemies moves along an axis or attacks one of them."""

    def prepare(state):
        state["pos"].copy_(torch.tensor([[[4.0, 4.0], [4.0, 1.0], [6.0, 4.0], [6.0, 5.0], [6.0, 6.0]]]))

    def act(index, **settings):
        return one_step("smax/smax", prepare, index, **{"world_steps_per_env_step": 1} | settings)

    discrete, continuous = tables.action_tables("smax/smax")
    ways = {"north": (0.0, 1.0), "east": (1.0, 0.0), "south": (0.0, -1.0), "west": (-1.0, 0.0)}
    for index, meaning in discrete:
        first = index if isinstance(index, int) else 5 + 1
        state = act(first)
        assert state["move"][0].tolist() == list(ways.get(meaning.partition(":")[0], (0.0, 0.0)))
        hit = torch.nonzero(state["health"][2:] < state["before"][2:]).flatten().tolist()
        assert (first - 5 in hit) == ("attack" in meaning)
    assert len(continuous) == 4
    moves = act([[1.0, 1.0, 0.5, 0.25], [1.0, 1.0, 0.5, 0.0]] + [[0.0, 1.0, 0.0, 0.0]] * 3, action_type="continuous")
    torch.testing.assert_close(moves["move"][:2], torch.tensor([[0.0, 0.5], [0.5, 0.0]]))
    shot = act([[1.0, 0.0, 1.0, 0.0]] + [[0.0, 0.0, 0.0, 0.0]] * 4, action_type="continuous")
    assert shot["attack"].tolist() == [5, 0, 0, 0, 0]  # the nearest to a point on the right; the others repeat nothing


def hanabi_actions():
    """Each action of a table with one of every color and rank in both hands, with some tokens used."""
    (table,) = tables.action_tables("cards/hanabi")
    for index, action, legal in table:
        core = make_core("Hanabi-v0", 1, "cpu", seed=0, autoreset="disabled")
        core.reset()
        assert core.action_mask[0, 0, index] == (legal == "always") or "hint" in legal or "match" in legal
        state = core.get_state()
        state["state.hand"][0] = torch.tensor([0, 6, 12, 18, 24])
        state["state.information"][:] = 4
        state["io.action_mask"][:] = True
        core.set_state(state)
        core.step(torch.tensor([[index, 0]]))
        after = {field: tensor[0] for field, tensor in core.world_state.items()}
        words = action.split()
        if words[0] == "tell":
            assert words[1:3] == ["player", "+1"]
            bit = 5 + int(words[4]) - 1 if words[3] == "rank" else COLORS.index(words[3])
            assert after["revealed"][1].sum() == 1 << bit
        else:
            slot = int(words[2])
            assert after["last_card"] == [0, 6, 12, 18, 24][slot]
            assert after["information"] == 4 + (words[0] == "discard")
            assert after["fireworks"].sum() + 3 - after["lives"] == (words[0] == "play")


def one_step_actions():
    """Workers with a skill of 1 earn as many coins as they work hours; the planner's choices set the rate."""
    hours, rates = tables.action_tables("economy/one_step")
    for index, meaning in hours:

        def works(state):
            state["period_step"].fill_(1)
            state["labor"].fill_(7.0)

        action = [[index, 0, 0]] * 3 + [[0, 0, 0]]
        after = one_step("economy/one_step", works, action, mask_first_step=False, skills=(1.0,) * 3)
        assert after["production"].tolist() == [index] * 3
        assert after["labor"].tolist() == [7.0 if meaning == "keep the labor" else int(meaning.split()[1])] * 3
    settings = {"rate_disc": 0.05, "tax_limit": 1.0}
    for index, meaning in rates:
        after = one_step("economy/one_step", lambda state: state["rate_index"].fill_(9), index, **settings)
        rate = after["rate"][after["rate_index"][0]].item()
        assert abs(100 * rate - (45.0 if meaning == "keep the rate" else float(meaning.split()[1]))) < 1e-4


def coin_game_actions():
    (table,) = tables.action_tables("grid/coin_game")
    ways = {"+column": (0, 1), "-column": (0, -1), "+row": (1, 0), "-row": (-1, 0)}
    for index, meaning in table:

        def middle(state):
            state["player"].fill_(1)
            state["coin"].zero_()

        after = one_step("grid/coin_game", middle, index)
        assert (after["player"] - 1).tolist() == [list(ways.get(meaning.partition(", ")[2], (0, 0)))] * 2


def commons_harvest_actions():
    """An agent in the middle of an empty field turns, moves or zaps."""
    (table,) = tables.action_tables("grid/commons_harvest")
    ways = {"+column": (0, 1), "-column": (0, -1), "+row": (1, 0), "-row": (-1, 0)}
    settings = {"layout_grid": "AA   |     |     |     |PPPPP", "num_agents": 2}

    def middle(state):
        state["grid"].zero_()
        state["next_position"].copy_(torch.tensor([[2, 2], [4, 4]]))
        state["next_heading"].zero_()

    for index, meaning in table:
        after = one_step("grid/commons_harvest", middle, [index, 6], **settings)
        way = ways.get(meaning.partition(", ")[2], (0, 0))
        assert (after["position"][0] - 2).tolist() == list(way)
        assert after["heading"][0] == {"turn left": 1, "turn right": 3}.get(meaning, 0)
        assert (after["grid"] == 2).any() == (meaning == "zap")


def switch_riddle_actions():
    (table,) = tables.action_tables("games/switch_riddle")
    for index, meaning in table:
        after = one_step("games/switch_riddle", lambda state: None, index)
        assert (after["bulb"] == 1) == meaning.startswith("switch the lamp")
        assert (after["claim"] > 0) == meaning.startswith("tell")


def gather_trade_build_actions():
    """An agent on free land with resources and coin: orders, houses and moves; rates of the planner."""
    agents, rates = tables.action_tables("economy/gather_trade_build")
    settings = {"max_bid_ask": 10, "env_layout": ("   ",) * 3, "n_agents": 2, "resource_regen_prob": 0.0}

    def prepare(state):
        state["cell"].zero_()
        state["position"].copy_(torch.tensor([[4, 0]]))
        state["cell"][0, [4, 0]] = torch.tensor([1 << 16, 2 << 16], dtype=torch.int32)
        state["goods"].fill_(1)
        state["coin"][0, 0] = 20.0

    ways = {"west": -1, "east": 1, "north": -3, "south": 3}
    for index, meaning in agents:
        action = [[index, 0, 0], [0, 0, 0], [0, 0, 0]]
        after = one_step("economy/gather_trade_build", prepare, action, **settings)
        words = meaning.split()
        assert (after["houses"][0] == 1) == (meaning == "build a house")
        assert after["position"][0] == 4 + (ways[words[1]] if words[0] == "go" else 0)
        book = torch.zeros(4, dtype=torch.int32)
        if words[0] in ("buy", "sell"):
            number = 2 * (words[1] == "wood") + (words[0] == "sell")
            book[number] = 1
            assert after["order"][number * after["order"].numel() // 4] == int(words[3]) << 8
        assert (after["num_orders"] == book).all()
    for index, meaning in rates:
        start = {"rate_disc": 0.05, "rate_min": 0.0}
        action = [[0] * 3, [0] * 3, [0] * 3, [index] * 3]
        after = one_step("economy/gather_trade_build", lambda state: state["rates"].fill_(0.45), action, **start)
        rate = 45.0 if meaning == "keep the rate" else float(meaning.split()[1])
        assert (100 * after["rates"] - rate).abs().max() < 1e-6
