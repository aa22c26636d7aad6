"""SMAX-v0 against recorded steps of JaxMARL 0.2.0; ``make test-parity`` plays JaxMARL itself."""

import math

import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.smax import smax_replay

NORTH, EAST, SOUTH, WEST, STOP, FIRST, SECOND = range(7)
DUEL = {"num_allies": 2, "num_enemies": 2, "enemy": "self_play", "unit_types": ("marine", "zealot") * 2}


@pytest.mark.variations
@pytest.mark.parametrize("index", range(len(smax_replay.TRACES)))
def test_recorded_steps_equal_the_original(index):
    rewards = smax_replay.replay(index)
    assert len(rewards) >= 30
    assert (rewards != 0).any(1).sum() >= 3


def duel(pos, **settings):
    """Return a core of one world with these positions: a marine and a zealot against a marine and a zealot."""
    core = make_core("SMAX-v0", 1, "cpu", seed=0, autoreset="disabled", **{**DUEL, **settings})
    core.reset()
    core.world_state["pos"].copy_(torch.tensor([pos]))
    return core


def play(core, *actions):
    return core.step(torch.tensor([actions]))


FAR = ((4.0, 4.0), (4.0, 8.0), (28.0, 4.0), (28.0, 8.0))


def test_units_move_by_their_velocity():
    core = duel(FAR)
    play(core, NORTH, EAST, WEST, SOUTH)
    way = 3.15 * 8 / 16
    expected = [(4.0, 4.0 + way), (4.0 + way, 8.0), (28.0 - way, 4.0), (28.0, 8.0 - way)]
    torch.testing.assert_close(core.world_state["pos"][0], torch.tensor(expected))


def test_attacks_wait_for_their_weapons_and_enemies_count_allies_from_the_last():
    core = duel(((4.0, 4.0), (4.0, 8.0), (8.0, 4.0), (28.0, 8.0)))
    reward = play(core, FIRST, STOP, SECOND, STOP)[1][0]
    assert core.world_state["health"][0].tolist() == [36.0, 150.0, 36.0, 150.0]  # one attack in half a second
    torch.testing.assert_close(reward, torch.full((4,), 9.0 / 45.0 / 2.0))
    assert (core.world_state["cooldown"][0, [0, 2]] > 0.0).all()
    play(core, FIRST, STOP, STOP, STOP)
    assert core.world_state["health"][0].tolist() == [36.0, 150.0, 27.0, 150.0]


def test_dead_units_stay_as_agents_that_can_only_stop_and_share_the_reward():
    core = duel(((4.0, 4.0), (4.0, 8.0), (8.0, 4.0), (28.0, 8.0)))
    core.world_state["health"][0, 0] = 9.0
    obs, reward, terminated, _, info = play(core, FIRST, STOP, SECOND, STOP)
    assert info["unit_alive"][0].tolist() == [0, 1, 1, 1]
    assert not terminated.any()
    assert (obs[0, 0] == 0.0).all()
    assert info["action_mask"][0, 0].tolist() == [False] * 4 + [True] + [False] * 2
    assert reward[0, 0] == reward[0, 1] > 0.0


@pytest.mark.parametrize(("self_play_reward", "expected"), [(False, (1.0 + 9.0 / 90.0, 0.0)), (True, (1.0, -1.0))])
def test_last_death_ends_the_battle(self_play_reward, expected):
    core = duel(((4.0, 4.0), (4.0, 8.0), (8.0, 4.0), (28.0, 8.0)), use_self_play_reward=self_play_reward)
    core.world_state["health"][0, 2:] = torch.tensor([9.0, 0.0])
    _, reward, terminated, truncated, info = play(core, FIRST, STOP, STOP, STOP)
    assert terminated.all()
    assert not truncated.any()
    torch.testing.assert_close(reward[0], torch.tensor([expected[0]] * 2 + [expected[1]] * 2))
    assert info["won_battle"][0].tolist() == [1, 1, 0, 0]


def test_winner_is_known_when_the_world_resets_in_the_same_step():
    core = make_core("SMAX-v0", 2, "cpu", seed=0, autoreset="same_step", **DUEL)
    core.reset()
    core.world_state["health"][0, 2:] = 0.0  # the enemies of world 0
    stop = torch.full((2, 4), STOP)
    terminated, info = core.step(stop)[2::2]
    assert terminated.all(1).tolist() == [True, False]
    assert core.elapsed_steps.tolist() == [0, 1]
    assert info["won_battle"].tolist() == [[1, 1, 0, 0], [0] * 4]
    assert not core.step(stop)[4]["won_battle"].any()


def test_battle_in_which_all_die_has_no_winner():
    core = duel(((4.0, 4.0), (4.0, 8.0), (8.0, 4.0), (28.0, 8.0)), use_self_play_reward=True)
    core.world_state["health"][0] = torch.tensor([9.0, 0.0, 9.0, 0.0])
    _, reward, terminated, _, info = play(core, FIRST, STOP, SECOND, STOP)
    assert terminated.all()
    assert reward.tolist() == [[0.0] * 4]
    assert not info["won_battle"].any()


@pytest.mark.parametrize("deadly", [True, False])
def test_walls_kill_unless_they_are_harmless(deadly):
    core = duel(((0.5, 4.0), (4.0, 8.0), (28.0, 4.0), (28.0, 8.0)), walls_cause_death=deadly)
    play(core, WEST, STOP, STOP, STOP)
    assert (core.world_state["health"][0, 0] == 0.0) == deadly
    assert core.world_state["pos"][0, 0, 0] == 0.0


def test_overlapping_units_are_pushed_apart():
    core = duel(((4.0, 4.0), (4.5, 4.0), (28.0, 4.0), (28.0, 8.0)), world_steps_per_env_step=1)
    play(core, STOP, STOP, STOP, STOP)
    pos = core.world_state["pos"][0]
    assert float(pos[1, 0] - pos[0, 0]) == pytest.approx(0.875, abs=1e-4)  # the sum of their radii
    assert float(pos[:2, 0].mean()) == pytest.approx(4.25)


def test_heuristic_attacks_in_range_chases_in_sight_and_otherwise_crosses_the_map():
    core = make_core("SMAX-v0", 1, "cpu", seed=0, autoreset="disabled", num_allies=2, num_enemies=3)
    core.reset()
    core.world_state["pos"].copy_(torch.tensor([[(4.0, 16.0), (4.0, 20.0), (8.0, 17.0), (11.0, 14.0), (28.0, 10.0)]]))
    play(core, STOP, STOP)
    state = {name: values[0].tolist() for name, values in core.world_state.items()}
    assert state["attack"][2] == SECOND  # the closest: allies are counted from the last one
    assert state["victim"] == [1, -1, -1]
    assert state["move"][3:] == [[-1.0, 0.0], [-1.0, 0.0]]
    assert state["goal"] == [[24.0, 15.0], [21.0, 18.0], [4.0, 22.0]]


@pytest.mark.parametrize(("limit", "index"), [("truncation", 3), ("termination", 2)])
def test_episodes_last_one_step_longer_than_max_steps(limit, index):
    core = duel(FAR, max_steps=2, time_limit=limit)
    for last in (False, False, True):
        outcome = play(core, STOP, STOP, STOP, STOP)
        assert outcome[index].all() == last


def test_continuous_actions_move_or_attack():
    settings = dict(DUEL, action_type="continuous")
    core = make_core("SMAX-v0", 1, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    core.world_state["pos"].copy_(torch.tensor([((4.0, 4.0), (4.0, 8.0), (8.0, 4.0), (28.0, 8.0))]))
    core.step(torch.tensor([[(1.0, 1.0, 0.5, 0.25), (1.0, 0.0, 0.5, 0.0), (1.0, 0.0, 0.5, 0.5), (0.0, 0.0, 1.0, 0.0)]]))
    state = core.world_state
    torch.testing.assert_close(state["move"][0, 0], torch.tensor([0.0, 0.5]), atol=1e-5, rtol=0.0)
    assert state["attack"][0].tolist() == [0, FIRST, SECOND, 0]  # the last one repeats its last attack: none


def test_conic_observations_have_two_units_per_section():
    settings = {"num_allies": 4, "num_enemies": 1, "enemy": "self_play", "observation_type": "conic"}
    core = make_core("SMAX-v0", 1, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    core.world_state["pos"].copy_(
        torch.tensor([[(16.0, 16.0), (18.0, 16.2), (20.0, 16.3), (22.0, 16.4), (16.1, 20.0)]])
    )
    obs = core.step(torch.full((1, 5), STOP))[0][0, 0]
    sections = obs[: 64 * 13].view(32, 2, 13)
    filled = [index for index in range(32) if sections[index].any()]
    right, up = (math.floor((angle + math.pi) / math.tau * 32) for angle in (0.05, 1.546))
    assert filled == [right, up]
    torch.testing.assert_close(sections[right, :, 1], torch.tensor([2.0, 4.0]) / 9.0)
    assert not sections[up, 1].any()


def test_smacv2_starts_mirror_or_surround():
    core = make_core("SMAX-v0", 400, "cpu", seed=0, scenario="smacv2_5_units")
    core.reset()
    pos, kind = core.world_state["pos"], core.world_state["kind"]
    assert (kind[:, :5] == kind[:, 5:]).all()
    assert len(kind.unique()) == 6
    mirrored = ((pos[:, :5, 0] + pos[:, 5:, 0] - 32.0).abs().amax(1) < 4.0) & (
        (pos[:, :5, 1] - pos[:, 5:, 1]).abs().amax(1) < 4.0
    )
    center = ((pos - 16.0).abs() < 3.5).all(-1)
    inside = center[:, :5].all(1) | center[:, 5:].all(1)
    assert 120 < int(mirrored.sum()) < 280
    assert 120 < int(inside.sum()) < 280


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit_types": ("marine",)}, r"unit_types: expected a list with a type per ally and enemy, 10 \(num_allies"),
        ({"unit_types": ("medic",) * 10}, "unit_types: expected 'marine', .* or an int in .0, 5., got 'medic'"),
        ({"unit_type_attacks": (1.0,)}, "unit_type_attacks: expected a value per name of unit_type_names, 6, got 1"),
        (
            {"scenario": "3m", "num_allies": 3},
            "num_allies = 3: has no effect with scenario = '3m'; set",
        ),
        ({"enemy": "self_play", "attack_mode": "random"}, "attack_mode = 'random': has no effect with enemy"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("SMAX-v0", 1, "cpu", **settings)
