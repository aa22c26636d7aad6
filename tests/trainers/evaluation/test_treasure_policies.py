"""Scripted policy of CollectTreasure-v0: goals in states set by hand, and full pushes."""

import torch

from gpu_envs.runtime.factory import make_core
from trainers.evaluation.treasure_policies import TreasurePolicy

NONE, LEFT, RIGHT, DOWN, UP = range(5)


def world(**settings):
    """Return a world at rest with two collectors, a deposit on the right, and treasures on the left and above.

    It is without a reset, which would compile kernels.
    """
    core = make_core("CollectTreasure-v0", 1, "cpu", num_collectors=2, num_deposits=1, num_treasures=2, **settings)
    core.alive.fill_(True)
    core.world_state["pos"][0] = torch.tensor([(-0.5, 0.0), (0.0, 0.0), (0.9, 0.0), (-0.9, 0.0), (0.0, 0.8)])
    core.world_state["vel"].zero_()
    core.world_state["kind"].fill_(1)
    return core


def test_collectors_go_to_treasures_of_their_own_and_bring_them_to_the_deposit():
    core = world()
    policy = TreasurePolicy(core, "collector")
    assert policy.act(core.obs)[0].tolist() == [LEFT, UP]
    core.world_state["pos"][0, 1, 0] = -0.2  # the first treasure is the nearest one of both
    assert policy.act(core.obs)[0].tolist() == [LEFT, UP]
    core.world_state["pos"][0, 1, 0] = 0.0
    core.world_state["holding"][0, 1] = 1
    assert policy.act(core.obs)[0].tolist() == [LEFT, RIGHT]


def test_deposit_meets_the_nearest_collector_that_has_its_treasure():
    core = world()
    core.world_state["pos"][0, 2] = torch.tensor([-0.5, 0.5])
    core.world_state["holding"][0, 1] = 1
    assert TreasurePolicy(core, "deposit_0").act(core.obs)[0].tolist() in ([RIGHT], [DOWN])
    core.world_state["pos"][0, 2] = torch.tensor([0.0, 0.5])
    assert TreasurePolicy(core, "deposit_0").act(core.obs)[0].tolist() == [DOWN]


def test_collector_keeps_away_from_others():
    core = world()
    core.world_state["pos"][0, 0] = torch.tensor([0.13, 0.0])
    core.world_state["holding"][0, 1] = 1  # the deposit is behind the other collector
    assert TreasurePolicy(core, "collector_1").act(core.obs)[0, 0] != RIGHT


def test_continuous_actions_are_full_pushes():
    core = world(continuous_actions=True)
    chosen = TreasurePolicy(core, "collector").act(core.obs)
    assert chosen[0].tolist() == torch.eye(5)[[LEFT, UP]].tolist()
