"""LevelBasedForaging-v0: recorded transitions of lbforaging, starts, collisions, loads, ends and settings.

``make test-parity`` plays the original itself with random settings, see tests/libraries/test_lbforaging.py.
"""

import dataclasses
from pathlib import Path

import pytest
import torch

import gpu_envs
from gpu_envs.definition.registry import find
from gpu_envs.envs.grid.level_based_foraging import original_settings
from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from parity.grid.foraging_replay import replay
from parity.traces import recorded

TOLERANCE = 1e-5
TRACE = Path(__file__).with_name("level_based_foraging.npz.xz")
NONE, NORTH, SOUTH, WEST, EAST, LOAD = range(6)
APART = ((1, 1, 1), (5, 5, 1))  # foods


def make(worlds=1, **settings):
    core = make_core("LevelBasedForaging-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    return core


def at(players, foods=APART, **settings):
    """Return a core with one world in this state: rows, columns and levels of players and foods."""
    core = make(players=len(players), max_num_food=len(foods), field_size=(7, 7), **settings)
    core.world_state["player"].copy_(torch.tensor([players]))
    core.world_state["food"].copy_(torch.tensor([foods]))
    core.world_state["spawned"].fill_(sum(level for _, _, level in foods))
    return core


def cells(core):
    return [tuple(player[:2]) for player in core.world_state["player"][0].tolist()]


# ---------------------------------------------------------------- transitions


@pytest.mark.variations
@pytest.mark.parametrize("index", [1, 0, 2, 3, 4])
def test_recorded_transitions_equal_the_original(index):
    settings, trace = recorded(TRACE, index)
    counts = replay(settings, trace, TOLERANCE)
    assert counts["steps"] == 300
    assert min(counts["loads"], counts["moves"], counts["limits"] + counts["cleared"]) > 5, counts
    assert counts["joint loads"] > 5 or not settings.get("force_coop")
    assert counts["penalties"] > 5 or not settings.get("penalty")


def test_players_that_want_one_cell_stay():
    core = at(((3, 2, 1), (3, 4, 1)))
    core.step(torch.tensor([[EAST, WEST]]))
    assert cells(core) == [(3, 2), (3, 4)]
    core = at(((3, 2, 1), (3, 3, 1)))
    core.step(torch.tensor([[EAST, NONE]]))  # the second player wants its own cell
    assert cells(core) == [(3, 2), (3, 3)]


def test_players_swap_cells_and_enter_cells_that_others_want_to_leave():
    core = at(((3, 2, 1), (3, 3, 1)))
    core.step(torch.tensor([[EAST, WEST]]))
    assert cells(core) == [(3, 3), (3, 2)]
    core = at(((3, 2, 1), (3, 4, 1), (4, 2, 1)))
    core.step(torch.tensor([[EAST, WEST, NORTH]]))  # the first two stay, and the third shares a cell
    assert cells(core) == [(3, 2), (3, 4), (3, 2)]


@pytest.mark.parametrize(
    ("food", "normalize", "rewards"),
    [(3, True, (1 * 3 / (3 * 4), 2 * 3 / (3 * 4))), (3, False, (3.0, 6.0)), (4, True, (-0.25, -0.25))],
)
def test_reward_is_shared_by_level_or_a_penalty(food, normalize, rewards):
    core = at(
        ((2, 3, 1), (4, 3, 2)), ((3, 3, food), (5, 5, 1)), penalty=0.25, normalize_reward=normalize, max_food_level=9
    )
    _, reward, terminated, *_ = core.step(torch.tensor([[LOAD, LOAD]]))
    assert reward[0].tolist() == pytest.approx(rewards)
    assert core.world_state["food"][0, :, 2].tolist() == [food if food == 4 else 0, 1]
    assert not terminated.any()


def test_level_of_a_player_who_does_not_load_does_not_count():
    core = at(((2, 3, 1), (4, 3, 2)), ((3, 3, 2), (5, 5, 1)), penalty=0.25)
    reward = core.step(torch.tensor([[LOAD, NONE]]))[1]
    assert reward[0].tolist() == [-0.25, 0.0]


def test_action_without_effect_is_the_no_op_with_and_without_masks():
    cores = [make(64, action_mask=mask, field_size=(5, 5)) for mask in (True, False)]
    generator, refused = torch.Generator().manual_seed(0), 0
    assert cores[1].action_mask is None
    for _ in range(30):
        action = torch.randint(0, 6, (64, 2), generator=generator)
        mask = cores[0].action_mask
        refused += int((~mask.gather(2, action[..., None])).sum())
        results = [core.step(action)[:4] for core in cores]
        assert all(torch.equal(mine, other) for mine, other in zip(*results, strict=True))
    assert refused > 200
    cores[0].reset()
    with pytest.raises(ActionError, match="out of range"):
        cores[0].step(torch.full((64, 2), 6))


def test_single_world_accepts_actions_without_effect():
    env = gpu_envs.parallel_env("LevelBasedForaging-v0", field_size=(3, 3))
    observations, _ = env.reset(seed=0)
    illegal = {agent: int((observations[agent]["action_mask"] == 0).nonzero()[0][0]) for agent in observations}
    later, rewards, *_ = env.step(illegal)
    assert set(rewards.values()) == {0.0}
    for agent in observations:
        assert (later[agent]["observation"] == observations[agent]["observation"]).all()


def test_no_op_for_illegal_actions_needs_masks():
    kind, build = find("LevelBasedForaging-v0").load()
    definition = build(kind(action_mask=False))
    wrong = dataclasses.replace(definition, rules=dataclasses.replace(definition.rules, illegal_noop=True))
    with pytest.raises(ConfigError, match="illegal_noop: expected False without masks or with turns"):
        Core(wrong, env_id="LevelBasedForaging-v0", config=kind(), num_envs=1, device=torch.device("cpu"))


# ---------------------------------------------------------------- starts and ends


def test_starts_keep_foods_apart_and_players_off_each_other():
    """So no cell is beside two foods, and the order in which the original takes loading players does not matter."""
    core = make(5000, players=4, max_num_food=4, field_size=(8, 6), sight=8)
    food, player = core.world_state["food"].long(), core.world_state["player"].long()
    present = food[..., 2] > 0
    inside = ((food[..., 0] >= 1) & (food[..., 0] <= 6) & (food[..., 1] >= 1) & (food[..., 1] <= 4)) | ~present
    assert inside.all()
    gaps = (food[:, :, None, :2] - food[:, None, :, :2]).abs().sum(-1) + 99 * torch.eye(4, dtype=torch.long)
    assert gaps[present[:, :, None] & present[:, None]].min() == 3
    index = food[..., 0] * 6 + food[..., 1]
    assert (index[:, 1:] > index[:, :-1])[present[:, 1:]].all()  # in the order of observations
    occupied = torch.cat([index.masked_fill(~present, -1), player[..., 0] * 6 + player[..., 1]], 1).sort(1).values
    assert ((occupied[:, 1:] > occupied[:, :-1]) | (occupied[:, 1:] < 0)).all()
    assert torch.equal(core.world_state["spawned"].long(), food[..., 2].sum(1))


def test_start_without_room_has_fewer_foods():
    core = make(2000, players=4, max_num_food=4, field_size=(4, 4))
    counts = (core.world_state["food"][..., 2] > 0).sum(1)
    assert set(counts.tolist()) == {0, 1}  # four inner cells, on which players may stand
    obs, _, terminated, *_ = core.step(torch.full((2000, 4), NONE))
    assert torch.equal(terminated.all(1), counts == 0)  # without food, as in the original
    assert (obs[counts == 0][..., :12] == torch.tensor([-1.0, -1.0, 0.0] * 4)).all()


def test_levels_are_those_of_the_settings_in_random_order():
    core = make(
        4000, players=3, min_player_level=(1, 3, 5), max_player_level=(2, 3, 6), max_num_food=2, force_coop=True
    )
    levels = core.world_state["player"][..., 2]
    assert levels.sort(1).values.unique(dim=0).tolist() == [[1, 3, 5], [1, 3, 6], [2, 3, 5], [2, 3, 6]]
    first = levels[:, 0].bincount(minlength=7) / 4000
    assert (first - torch.tensor([0, 1, 1, 2, 0, 1, 1]) / 6).abs().max() < 0.03
    assert torch.equal(core.world_state["food"][..., 2], levels.sum(1, keepdim=True).expand(-1, 2).int())
    core = make(4000, min_food_level=(1, 4), max_food_level=(2, 5))
    assert core.world_state["food"][..., 2].sort(1).values.unique(dim=0).tolist() == [[1, 4], [1, 5], [2, 4], [2, 5]]
    core = make(4000, players=4, max_player_level=3)
    lowest = core.world_state["player"][..., 2].sort(1).values[:, :3].sum(1, keepdim=True)
    food = core.world_state["food"][..., 2]
    assert (food <= lowest).all()
    assert (food == lowest).any()


def test_episode_ends_when_all_food_is_gone_or_at_the_limit():
    core = at(((2, 3, 1), (4, 3, 1)), ((3, 3, 1), (0, 0, 0)))
    _, reward, terminated, truncated, info = core.step(torch.tensor([[LOAD, NONE]]))
    assert reward.tolist() == [[1.0, 0.0]]
    assert terminated.all()
    assert not truncated.any()
    assert (info["final_obs"][0, 0, :6] == torch.tensor([-1.0, -1.0, 0.0] * 2)).all()
    for limit in ("termination", "truncation"):
        core = make(8, max_episode_steps=3, time_limit=limit, force_coop=True)
        for step in range(3):
            *_, terminated, truncated, _ = core.step(torch.zeros((8, 2), dtype=torch.long))
            ends = terminated if limit == "termination" else truncated
            assert (terminated | truncated).all() == (step == 2)
        assert ends.all()


def test_returns_of_an_episode_add_up_to_one_when_all_food_is_loaded():
    core = make(256, field_size=(5, 5), players=3, max_episode_steps=200)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        info = core.step(torch.randint(0, 6, (256, 3), generator=generator))[-1]
    cleared = core.world_state["food"][..., 2].sum(1) == 0
    assert cleared.sum() > 50
    torch.testing.assert_close(info["episode_return"].sum(1)[cleared], torch.ones(int(cleared.sum())))


def test_global_state_has_all_foods_players_and_the_time():
    core = at(((2, 3, 1), (4, 3, 2)), ((3, 3, 2), (0, 0, 0)), sight=1)
    core.step(torch.tensor([[NONE, NONE]]))
    state = core.state()
    assert state[0].tolist() == pytest.approx([3, 3, 2, -1, -1, 0, 2, 3, 1, 4, 3, 2, 1 / 50])


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"field_size": (5,)}, "field_size: expected 2 ints"),
        ({"min_player_level": (1, 2, 3)}, "min_player_level: expected an int in .* or a list of 2"),
        ({"max_player_level": 0}, "max_player_level: expected an int in"),
        ({"min_player_level": 3}, "max_player_level: expected at least min_player_level = 3 of player 0, got 2"),
        ({"min_food_level": 3}, "min_food_level: expected at most 2, the lowest sum of levels of 2 players"),
        (
            {"min_food_level": 4, "players": 5},
            "min_food_level: expected at most 3, the lowest sum of levels of 3 players",
        ),
        ({"players": 10, "field_size": (3, 3)}, "players: expected at most one per cell, 9"),
        ({"grid_observation": True, "sight": 0}, "sight: expected at least 1 with grid_observation=True"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_names_of_the_original_become_settings():
    assert original_settings("Foraging-2s-10x10-3p-4f-coop-v3") == {
        "field_size": (10, 10), "players": 3, "max_num_food": 4, "force_coop": True, "grid_observation": False,
        "sight": 2,
    }  # fmt: skip
    grid = original_settings("Foraging-grid-3s-5x5-2p-1f-ind-pen-v3")
    assert (grid["grid_observation"], grid["max_food_level"], grid["penalty"]) == (True, 1, 0.1)
    with pytest.raises(ConfigError, match="expected an id of lbforaging"):
        original_settings("Foraging-8x8-v3")


def test_state_of_high_levels_is_restored():
    """A food has up to the sum of three levels."""
    core = make_core("LevelBasedForaging-v0", 64, "cpu", players=4, min_player_level=400, max_player_level=400)
    core.reset()
    assert core.world_state["food"][..., 2].max() > 1000
    core.set_state(core.get_state())


def test_levels_stay_within_the_highest_when_parameters_change():
    core = make_core("LevelBasedForaging-v0", 64, "cpu", seed=0, force_coop=True, min_food_level=50)
    core.set_params(force_coop=0)
    core.reset()
    levels, players = core.world_state["food"][..., 2], core.world_state["player"][..., 2].sum(1)
    assert (levels <= players[:, None]).all()
