"""Heuristics of LevelBasedForaging-v0: their targets in states set by hand, and returns above random play.

``make test-parity`` compares them with lbforaging's.
"""

import pytest
import torch

from gpu_envs.runtime.factory import make_core
from trainers.evaluation.foraging_policies import HEURISTICS, ForagingPolicy
from trainers.evaluation.policy_evaluation import evaluate_policies

NONE, NORTH, SOUTH, WEST, EAST, LOAD = range(6)


def act(heuristic, players, foods, **settings):
    """Return the actions of all players of a world in this state; without a reset, which would compile kernels."""
    core = make_core(
        "LevelBasedForaging-v0", 1, "cpu", players=len(players), max_num_food=len(foods), field_size=(9, 9), **settings
    )
    core.alive.fill_(True)
    core.world_state["player"][0] = torch.tensor(players)
    core.world_state["food"][0] = torch.tensor(foods)
    return ForagingPolicy(core, "player", heuristic).act(core.obs)[0].tolist()


@pytest.mark.parametrize(
    ("heuristic", "actions"), [("H1", [WEST, WEST]), ("H2", [EAST, WEST]), ("H3", [EAST, WEST]), ("H4", [EAST, WEST])]
)
def test_targets_differ_by_heuristic(heuristic, actions):
    """A food of level 9 is two cells to the left of the first player, one of level 1 between both players."""
    players, foods = ((4, 2, 1), (4, 8, 1)), ((4, 0, 9), (4, 5, 1))
    assert act(heuristic, players, foods) == actions


@pytest.mark.parametrize(("heuristic", "action"), [("H2", EAST), ("H3", WEST), ("H4", SOUTH)])
def test_levels_of_targets_differ_by_heuristic(heuristic, action):
    """Near the center of two players of level 2 are foods of level 9 and 4, and a food of level 2 is far away."""
    players, foods = ((4, 3, 2), (4, 7, 2)), ((4, 0, 2), (4, 5, 9), (7, 3, 4))
    assert act(heuristic, players, foods)[0] == action


def chosen_actions(sight):
    """Return the actions that a player in a corner takes whose food is four cells to the right."""
    core = make_core("LevelBasedForaging-v0", 64, "cpu", players=1, max_num_food=1, field_size=(9, 9), sight=sight)
    core.alive.fill_(True)
    core.world_state["player"][:] = torch.tensor([0, 0, 1])
    core.world_state["food"][:] = torch.tensor([0, 4, 1])
    return set(ForagingPolicy(core, "player", "H1").act(core.obs).flatten().tolist())


def test_food_out_of_sight_is_no_target_and_random_actions_have_an_effect():
    assert [chosen_actions(sight) for sight in (4, 3)] == [{EAST}, {NONE, SOUTH, EAST}]
    core = make_core("LevelBasedForaging-v0", 256, "cpu", seed=0, sight=0, field_size=(4, 4))
    core.reset()
    choice = ForagingPolicy(core, "player", "H1").act(core.obs)
    assert core.action_mask.gather(2, choice[..., None]).all()
    assert set(choice.flatten().tolist()) == set(range(6))


def test_player_beside_its_target_loads():
    assert act("H1", ((3, 4, 1), (4, 5, 1)), ((4, 4, 2), (7, 7, 1))) == [LOAD, LOAD]


def test_masks_of_the_policy_are_those_of_the_core():
    core = make_core("LevelBasedForaging-v0", 256, "cpu", seed=0, players=3, max_num_food=3, field_size=(6, 5))
    core.reset()
    for _ in range(10):
        food, player = (core.world_state[name].long() for name in ("food", "player"))
        gap = food[:, None, :, :2] - player[:, :, None, :2]
        assert torch.equal(ForagingPolicy(core, "player")._allowed(player, gap, food), core.action_mask)
        core.step(core.sample_actions())


@pytest.fixture(scope="module")
def by_chance():
    """Return worlds, and the returns of random play in them."""
    core = make_core("LevelBasedForaging-v0", 256, "cpu", seed=0, reuse_buffers=True)
    return core, evaluate_policies(core, {"player": None}, seed=1).returns["player"]


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_heuristics_beat_random(heuristic, by_chance):
    core, chance = by_chance
    ours = evaluate_policies(core, {"player": ForagingPolicy(core, "player", heuristic)}, seed=1).returns["player"]
    assert ours.mean - ours.half > chance.mean + chance.half, f"{ours} against {chance}"
