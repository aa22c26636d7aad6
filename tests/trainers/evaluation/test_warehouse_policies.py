"""Scripted policy of RobotWarehouse-v0: ways, choices in states set by hand, and returns above random play."""

import torch

from gpu_envs.runtime.factory import make_core
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.evaluation.scripted_policies import scripted_policy
from trainers.evaluation.warehouse_policies import WarehousePolicy

NONE, FORWARD, LEFT, RIGHT, LOAD = range(5)
UP, DOWN, TO_LEFT, TO_RIGHT = range(4)
LAYOUT = "xx.x\n....\nxx.x\n..g."


def act(robots, shelves, **settings):
    """Return the actions of two robots: row, column, direction, load; cells of shelves with their entries.

    The world is without a reset, which would compile kernels.
    """
    core = make_core("RobotWarehouse-v0", 1, "cpu", layout=LAYOUT, request_queue_size=1, seed=0, **settings)
    core.alive.fill_(True)
    for name, values in zip(("row", "column", "direction", "load"), zip(*robots, strict=True), strict=True):
        core.world_state[name][0] = torch.tensor(values)
    core.world_state["shelf"].zero_()
    for row, column, entry in shelves:
        core.world_state["shelf"][0, row, column] = entry
    return WarehousePolicy(core, "robot").act(core.obs)[0].tolist()


def test_robots_go_to_different_requested_shelves():
    robots = [(1, 2, TO_LEFT, 0), (1, 1, TO_LEFT, 0)]
    assert act(robots, [(0, 1, 2), (2, 0, 2)])[1] == FORWARD  # the nearest is chosen by the first robot
    assert act(robots, [(0, 3, 2), (2, 0, 2)]) == [RIGHT, FORWARD]


def test_robot_below_its_shelf_picks_it_up_and_carries_it_through_corridors_to_the_goal():
    assert act([(0, 0, UP, 0), (3, 3, UP, 0)], [(0, 0, 2)])[0] == LOAD
    robots = [(1, 2, DOWN, 1), (3, 0, UP, 0)]
    assert act(robots, [(1, 2, 2), (0, 0, 1)])[0] == FORWARD
    assert act([(2, 1, DOWN, 1), (3, 3, UP, 0)], [(2, 1, 2), (0, 0, 1)])[0] == FORWARD
    assert act([(2, 1, TO_RIGHT, 1), (3, 3, UP, 0)], [(2, 1, 2), (0, 0, 1)])[0] == FORWARD


def test_delivered_shelf_is_brought_to_the_nearest_free_place():
    robots = [(3, 2, TO_RIGHT, 1), (1, 0, UP, 0)]
    full = [(0, 0, 1), (0, 1, 1), (0, 3, 1), (2, 0, 1), (3, 2, 1)]
    assert act(robots, [*full, (2, 1, 1)])[0] == FORWARD  # to (2, 3)
    assert act(robots, [*full, (2, 3, 1)])[0] == LEFT  # to (2, 1)
    assert act([(2, 3, DOWN, 1), (1, 0, UP, 0)], [*full[:-1], (2, 3, 1), (2, 1, 2)])[0] == LOAD


def test_messages_are_empty():
    core = make_core("RobotWarehouse-v0", 3, "cpu", seed=0, msg_bits=2)
    action = scripted_policy(core, "robot_1").act(core.obs)
    assert action.shape == (3, 1, 3)
    assert not action[..., 1:].any()


def test_scripted_robots_deliver_much_more_than_random_ones():
    core = make_core("RobotWarehouse-v0", 24, "cpu", seed=0, reuse_buffers=True, max_steps=300)
    chance = evaluate_policies(core, {"robot": None}, seed=1).returns["robot"]
    ours = evaluate_policies(core, {"robot": WarehousePolicy(core, "robot")}, seed=1).returns["robot"]
    assert ours.mean - ours.half > chance.mean + chance.half + 10.0, f"{ours} against {chance}"
