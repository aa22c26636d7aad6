"""RobotWarehouse-v0: recorded transitions of rware, queues, loads, deliveries, starts, ends and views.

``make test-parity`` plays the original itself with random settings, see tests/libraries/test_rware.py.
"""

from pathlib import Path

import gymnasium
import pytest
import torch

from gpu_envs.envs.grid.robot_warehouse import nested_space
from gpu_envs.errors import ActionError
from gpu_envs.runtime.factory import make_core
from parity.grid.warehouse_replay import replay
from parity.traces import recorded

TOLERANCE = 1e-5
TRACE = Path(__file__).with_name("robot_warehouse.npz.xz")
NONE, FORWARD, LEFT, RIGHT, LOAD = range(5)
UP, DOWN, TO_LEFT, TO_RIGHT = range(4)  # directions
OPEN = "xxx...\n......\n......\n......\n.....g\n......"
ROBOTS = 5  # of all worlds set by hand: every number compiles its own kernels
PARKED = [(5, column, UP, 0) for column in range(ROBOTS)]


def make(worlds=1, **settings):
    core = make_core("RobotWarehouse-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    return core


def at(robots, shelves=(), **settings):
    """Return a core with one world in this state; further robots are parked in the bottom row.

    Args:
        robots: Row, column, direction and load of robots.
        shelves: Row, column and entry of cells: 1 a shelf, 2 a requested shelf; the others are empty.
        settings: Settings.
    """
    core = make(**{"layout": OPEN, "n_agents": ROBOTS, "request_queue_size": 1, **settings})
    values = [*robots, *PARKED[len(robots) :]]
    for name, column in zip(("row", "column", "direction", "load"), zip(*values, strict=True), strict=True):
        core.world_state[name][0] = torch.tensor(column)
    core.world_state["shelf"].zero_()
    for row, column, entry in shelves:
        core.world_state["shelf"][0, row, column] = entry
    return core


def actions_of(*actions, bits=0):
    """Return the actions of a world whose further robots stay."""
    rows = [*actions, *[[NONE] + [0] * bits if bits else NONE] * (ROBOTS - len(actions))]
    return torch.tensor([rows])


def step(core, *actions):
    """Take a step; return the rewards of these robots."""
    return core.step(actions_of(*actions))[1][0, : len(actions)].tolist()


def cells(core, count=ROBOTS):
    """Return row and column of the first robots."""
    places = zip(core.world_state["row"][0].tolist(), core.world_state["column"][0].tolist(), strict=True)
    return list(places)[:count]


def loads(core, count):
    """Return the loads of the first robots."""
    return core.world_state["load"][0, :count].tolist()


def shelves(core):
    return [
        (*cell, int(core.world_state["shelf"][0][tuple(cell)]))
        for cell in core.world_state["shelf"][0].nonzero().tolist()
    ]


# ---------------------------------------------------------------- transitions


@pytest.mark.variations
@pytest.mark.parametrize("index", [2, 0, 1, 3])
def test_recorded_transitions_equal_the_original(index):
    settings, trace = recorded(TRACE, index)
    counts = replay(settings, trace, TOLERANCE)
    assert counts["steps"] == 300
    assert min(counts[name] for name in ("moves", "moves with a shelf", "blocked", "picked up", "turns")) > 5, counts
    if index:
        crowds = ("put down", "deliveries", "ties", "rings", "swaps")
        assert min(counts[name] for name in crowds) > 0, counts


def test_four_turns_to_one_side_are_a_whole_turn():
    core = at([(2, 2, UP, 0)])
    directions = []
    for action in (LEFT, LEFT, LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT):
        step(core, action)
        directions.append(core.world_state["direction"][0, 0].item())
    assert directions == [TO_LEFT, DOWN, TO_RIGHT, UP, TO_RIGHT, DOWN, TO_LEFT, UP]
    assert cells(core, 1) == [(2, 2)]


def test_robots_drive_ahead_and_stay_at_walls():
    core = at([(2, 0, TO_LEFT, 0), (5, 1, DOWN, 0), (0, 5, UP, 0), (2, 5, TO_RIGHT, 0), (2, 2, UP, 0)])
    step(core, *[FORWARD] * 5)
    assert cells(core) == [(2, 0), (5, 1), (0, 5), (2, 5), (1, 2)]


def test_first_robot_of_a_tie_moves():
    """Both outcomes occur in the original, see tests/libraries/test_rware.py."""
    for column in range(1, 5):
        core = at([(2, column - 1, TO_RIGHT, 0), (2, column + 1, TO_LEFT, 0)])
        step(core, FORWARD, FORWARD)
        assert cells(core, 2) == [(2, column), (2, column + 1)]


def test_longest_queue_to_a_cell_moves():
    core = at([(1, 2, DOWN, 0), (2, 3, TO_LEFT, 0), (2, 4, TO_LEFT, 0)])
    step(core, FORWARD, FORWARD, FORWARD)
    assert cells(core, 3) == [(1, 2), (2, 2), (2, 3)]


def test_queue_waits_for_a_robot_that_stays():
    core = at([(2, 1, TO_RIGHT, 0), (2, 2, TO_RIGHT, 0), (2, 3, TO_RIGHT, 0)])
    step(core, FORWARD, FORWARD, LEFT)
    assert cells(core, 3) == [(2, 1), (2, 2), (2, 3)]


def test_robots_do_not_swap_and_a_ring_of_four_turns():
    core = at([(2, 2, TO_RIGHT, 0), (2, 3, TO_LEFT, 0), (1, 2, DOWN, 0)])
    step(core, FORWARD, FORWARD, FORWARD)
    assert cells(core, 3) == [(2, 2), (2, 3), (1, 2)]
    ring = [(1, 1, TO_RIGHT, 1), (1, 2, DOWN, 1), (2, 2, TO_LEFT, 0), (2, 1, UP, 0), (1, 0, TO_RIGHT, 0)]
    core = at(ring, [(1, 1, 2), (1, 2, 1)])
    step(core, *[FORWARD] * 5)
    assert cells(core) == [(1, 2), (2, 2), (2, 1), (1, 1), (1, 0)]  # the fifth wants to enter the ring, and waits
    assert shelves(core) == [(1, 2, 2), (2, 2, 1)]


def test_loaded_robot_does_not_enter_the_cell_of_a_shelf_and_others_pass_below():
    core = at([(1, 0, UP, 1)], [(1, 0, 1), (0, 0, 1)])
    step(core, FORWARD)
    assert cells(core, 1) == [(1, 0)]
    core = at([(1, 0, UP, 0)], [(0, 0, 1)])
    step(core, FORWARD)
    assert cells(core, 1) == [(0, 0)]
    core = at([(1, 0, UP, 1), (0, 0, TO_RIGHT, 0)], [(1, 0, 1), (0, 0, 1)])
    step(core, FORWARD, FORWARD)  # the second robot leaves without the shelf
    assert cells(core, 2) == [(1, 0), (0, 1)]
    core = at([(1, 0, UP, 1), (0, 0, TO_RIGHT, 1)], [(1, 0, 1), (0, 0, 2)])
    step(core, FORWARD, FORWARD)  # the second robot takes the shelf along
    assert cells(core, 2) == [(0, 0), (0, 1)]
    assert shelves(core) == [(0, 0, 1), (0, 1, 2)]


def test_shelves_are_picked_up_anywhere_and_put_down_on_their_places_only():
    core = at([(0, 0, DOWN, 0), (2, 2, UP, 0)], [(0, 0, 1)])
    step(core, LOAD, LOAD)
    assert loads(core, 2) == [1, 0]
    step(core, FORWARD, NONE)
    step(core, LOAD, NONE)  # in a corridor
    assert loads(core, 2) == [1, 0]
    assert shelves(core) == [(1, 0, 1)]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("global", [1.0, 1.0], 0.0), ("individual", [1.0, 0.0], 0.0), ("two_stage", [0.5, 0.0], 0.5)],
)
def test_delivery_is_rewarded_and_another_shelf_is_requested(kind, first, second):
    core = at([(3, 5, DOWN, 1), (2, 2, UP, 0)], [(3, 5, 2), (0, 1, 1), (0, 2, 1)], reward_type=kind)
    assert step(core, FORWARD, NONE) == first
    assert sorted(entry for *_, entry in shelves(core)) == [1, 1, 2]
    assert (4, 5, 1) in shelves(core)
    for name, value in (("row", 0), ("column", 0)):
        core.world_state[name][0, 0] = value
    core.world_state["shelf"][0, 4, 5] = 0
    core.world_state["shelf"][0, 0, 0] = 1
    assert step(core, LOAD, NONE) == [second, 0.0]
    assert loads(core, 2) == [0, 0]
    assert step(core, LOAD, NONE) == step(core, LOAD, NONE) == [0.0, 0.0]  # once per delivery


def test_unrequested_shelf_is_no_delivery():
    core = at([(3, 5, DOWN, 1)], [(3, 5, 1), (0, 1, 2)])
    assert step(core, FORWARD) == [0.0]
    assert shelves(core) == [(0, 1, 2), (4, 5, 1)]


def test_every_other_shelf_is_requested_equally_often():
    core = make(6000, layout=OPEN.replace("......\n......", "xx.x..\n......", 1), request_queue_size=2)
    state = core.world_state
    state["shelf"].zero_()
    for row, column, entry in ((4, 5, 2), (0, 0, 1), (0, 1, 1), (0, 2, 2), (1, 0, 1), (1, 1, 1)):
        state["shelf"][:, row, column] = entry
    for name, values in (("row", (4, 5)), ("column", (5, 0)), ("load", (1, 0))):
        state[name].copy_(torch.tensor(values))
    core.step(torch.zeros((6000, 2), dtype=torch.long))
    requested = (state["shelf"] == 2).float().mean(0)
    assert requested[0, 2] == 1.0
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        assert requested[row, column].item() == pytest.approx(0.25, abs=0.03)
    assert requested.sum().item() == pytest.approx(2.0)


def test_messages_are_seen_with_the_robot_from_the_next_step_on():
    core = at([(2, 2, UP, 0), (2, 3, DOWN, 0)], msg_bits=2, normalised_coordinates=True)
    obs = core.step(actions_of([NONE, 1, 0], [NONE, 1, 1], bits=2))[0][0]
    center, right = 8 + 4 * 9, 8 + 5 * 9  # cells in sight
    assert obs[0, center : center + 7].tolist() == [1, 1, 0, 0, 0, 1, 0]
    assert obs[0, right : right + 7].tolist() == [1, 0, 1, 0, 0, 1, 1]
    core.reset()
    assert core.world_state["message"].tolist() == [[0] * ROBOTS]


def test_wrong_actions_are_refused():
    core = make()
    with pytest.raises(ActionError, match="out of range"):
        core.step(torch.full((1, 2), 5))
    core = at([(2, 2, UP, 0)], msg_bits=2, normalised_coordinates=True)
    with pytest.raises(ActionError, match="out of range"):
        core.step(actions_of([NONE, 0, 2], bits=2))


# ---------------------------------------------------------------- starts and ends


def test_starts_have_robots_on_different_cells_and_as_many_requests_as_asked():
    core = make(4000, n_agents=ROBOTS, request_queue_size=5)
    state = core.world_state
    cell = state["row"] * 10 + state["column"]
    assert (cell.sort(1).values.diff(dim=1) > 0).all()
    assert (torch.bincount(cell.flatten(), minlength=110) / 4000 - ROBOTS / 110).abs().max() < 0.02
    assert ((state["shelf"] > 0) == (state["floor"] == 0)).all()
    assert ((state["shelf"] == 2).sum((1, 2)) == 5).all()
    shelf = (state["shelf"] == 2).float().mean(0)[state["floor"][0] == 0]
    assert len(shelf) == 32
    assert (shelf - 5 / 32).abs().max() < 0.03
    assert (state["direction"].flatten().bincount() / (4000 * ROBOTS) - 0.25).abs().max() < 0.02


@pytest.mark.parametrize("limit", ["termination", "truncation"])
def test_episode_ends_at_the_limit_or_after_inactivity(limit):
    idle = torch.zeros((4, 2), dtype=torch.long)
    core = make(4, max_steps=3, time_limit=limit)
    for index in range(3):
        *_, terminated, truncated, _ = core.step(idle)
        assert (terminated | truncated).all() == (index == 2)
    assert (terminated if limit == "termination" else truncated).all()
    core = make(4, max_inactivity_steps=2, max_steps=None, time_limit=limit)
    core.step(idle)
    *_, terminated, truncated, _ = core.step(idle)
    assert terminated.all()
    assert not truncated.any()
    core = make(4, max_episode_steps=1)
    assert core.step(idle)[3].all()  # as everywhere, this name truncates


def test_delivery_restarts_the_time_without_one():
    core = at([(4, 5, DOWN, 1)], [(4, 5, 1), (0, 1, 2), (0, 0, 1)], max_inactivity_steps=3)
    step(core, NONE)
    step(core, NONE)
    core.world_state["shelf"][0, 4, 5] = 2
    assert step(core, NONE) == [1.0]
    assert core.world_state["inactive"].item() == 0


def test_global_state_has_robots_shelves_and_the_time():
    core = at([(2, 3, DOWN, 2)], [(2, 3, 1), (0, 1, 2)], msg_bits=2, normalised_coordinates=True)
    core.step(actions_of([NONE, 0, 1], bits=2))
    state = core.state()[0]
    assert state[:10].tolist() == [2, 3, 0, 1, 0, 0, 1, 1, 0, 1]
    shelf = state[10 * ROBOTS : -1].reshape(6, 6)
    assert shelf.nonzero().tolist() == [[0, 1], [2, 3]]
    assert shelf[0, 1] == 2
    assert state[-1].item() == pytest.approx(1 / 500)


# ---------------------------------------------------------------- views


def test_images_are_turned_so_that_the_direction_is_up():
    layers = ("shelves", "agent_direction", "accessible")
    robots = [(1, 1, UP, 0), (3, 1, TO_RIGHT, 0), (0, 4, DOWN, 0), (3, 4, TO_LEFT, 0)]
    shelves_ahead = [(0, 1, 1), (3, 2, 2), (1, 4, 1), (3, 3, 1)]
    core = at(robots, shelves_ahead, observation_type="image", image_observation_layers=layers)
    core.step(actions_of())
    image = core.obs[0].reshape(ROBOTS, 3, 3, 3)
    for robot in range(4):
        assert image[robot, 0, 0, 1] == 1
        assert image[robot, 0, 1:].sum() == 0
        assert image[robot, 1, 1, 1] == 1 + robots[robot][2]
    assert image[:4, 2].sum((1, 2)).tolist() == [8, 8, 5, 8]
    assert image[2, 2, 2].tolist() == [0, 0, 0]  # outside, behind the robot


def test_nested_space_unflattens_observations():
    core = at([(2, 3, DOWN, 1)], [(2, 3, 2)], msg_bits=2, normalised_coordinates=True)
    nested = gymnasium.spaces.unflatten(nested_space(core.config), core.reset()[0][0, 0].numpy())
    assert set(nested) == {"self", "sensors"}
    assert len(nested["sensors"]) == 9
    assert nested["sensors"][4]["has_agent"].tolist() == [1]
