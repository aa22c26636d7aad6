"""Hand-worked cases for the reference oracle in tests/parity/references/tag_continuous.py."""

from dataclasses import replace

import numpy as np
import pytest

from parity.references import tag_continuous as tc

PI = np.pi
# Numbers chosen so that most sums are exact: margin 0.125 * 8 = 1.
TABLES = dict(
    max_acceleration=0.5, min_acceleration=-0.5, num_acceleration_levels=3, max_turn=PI / 2, min_turn=-PI / 2,
    num_turn_levels=3,
)  # fmt: skip
BASE = tc.Config(num_taggers=1, num_runners=2, grid_length=8.0, episode_length=10, tagging_distance=0.125, **TABLES)
FULL = replace(BASE, use_full_observation=True)
NOOP, BRAKE, FASTER, LEFT, RIGHT = (0, 0), (1, 0), (3, 0), (0, 3), (0, 1)


def at_rest(config, x, y=None, **kwargs):
    """Return agents at rest, heading along +x."""
    n = config.num_taggers + config.num_runners
    return tc.initial(config, x, [0.0] * n if y is None else y, [0.0] * n, **kwargs)


def noop(config):
    return [NOOP] * (config.num_taggers + config.num_runners)


def test_continuous_defaults_are_tutorial_5():
    config = tc.Config()
    assert tc.obs_width(config) == 71
    acc, turn = tc.action_tables(config)
    assert acc.shape == turn.shape == (11,)
    np.testing.assert_array_equal(acc[[0, 1, 10]], np.float32([0, -0.1, 0.1]))
    np.testing.assert_array_equal(turn[[0, 1, 10]], np.float32([0, -2.35, 2.35]))
    np.testing.assert_array_equal(turn[1:], -turn[:0:-1])  # else a turn and its opposite leave 2 pi instead of 0
    assert tc.tag_margin(config) == np.float32(0.4)


def test_continuous_tables_have_a_leading_noop_and_may_be_empty():
    acc, turn = tc.action_tables(BASE)
    np.testing.assert_allclose(acc, [0, -0.5, 0, 0.5])
    np.testing.assert_allclose(turn, [0, -PI / 2, 0, PI / 2], rtol=1e-6)
    assert tc.action_tables(replace(BASE, num_turn_levels=0))[1].tolist() == [0]


def test_continuous_acceleration_adds_up_and_resets_at_the_speed_limits():
    config = replace(BASE, max_speed=2.0)
    state = at_rest(config, [1.0, 4.0, 6.0], [0.0, 4.0, 8.0])
    records = []
    for action in (FASTER, NOOP, NOOP, FASTER, BRAKE, BRAKE, BRAKE):
        state, _ = tc.move(state, [action, NOOP, NOOP], config)
        records.append((float(state["acceleration"][0]), float(state["speed"][0]), float(state["x"][0])))
    assert records == [
        (0.5, 0.5, 1.5),
        (0.5, 1.0, 2.5),  # the acceleration stays without a new one
        (0.5, 1.5, 4.0),
        (0.0, 2.0, 6.0),  # 1.5 + 1.0 is cut at the cap; acceleration back to 0
        (-0.5, 1.5, 7.5),
        (-1.0, 0.5, 8.0),
        (0.0, 0.0, 8.0),  # 0.5 - 1.5 is cut at 0
    ]


def test_continuous_skill_scales_the_cap_by_type_and_not_the_acceleration():
    config = replace(BASE, max_speed=1.0, skill_level_tagger=0.25, skill_level_runner=1.5)
    state, _ = tc.move(at_rest(config, [0.0, 2.0, 4.0]), [FASTER] * 3, config)
    assert state["speed"].tolist() == [0.25, 0.5, 0.5]
    assert state["acceleration"].tolist() == [0.0, 0.5, 0.5]


def test_continuous_turn_is_a_floored_modulo_before_the_move():
    state = tc.initial(BASE, [4.0, 4.0, 4.0], [4.0, 4.0, 4.0], [0.0, 0.0, 3 * PI / 2], speed=[1.0, 1.0, 1.0])
    state, _ = tc.move(state, [RIGHT, LEFT, LEFT], BASE)
    np.testing.assert_allclose(state["direction"][:2], [3 * PI / 2, PI / 2], rtol=1e-6)
    assert min(state["direction"][2], 2 * PI - state["direction"][2]) < 1e-6
    np.testing.assert_allclose(state["x"], [4, 4, 5], atol=1e-6)
    np.testing.assert_allclose(state["y"], [3, 5, 4], atol=1e-6)


def test_continuous_wall_clips_and_costs_once_and_changes_nothing_else():
    config = replace(
        BASE, num_taggers=2, edge_hit_penalty=-0.5, step_penalty_for_tagger=-0.25, step_reward_for_runner=0.125
    )
    # row 0 leaves through a corner, row 1 stops exactly on the wall, row 2 runs into x = 0, row 3 stays inside
    x, y, d = [7.5, 7.0, 0.5, 4.0], [7.5, 0.0, 4.0, 4.0], [PI / 4, 0.0, PI, 0.0]
    state = tc.initial(config, x, y, d, speed=[0.75, 0.75, 0.75, 0.0], acceleration=[0.125, 0.25, 0.125, 0.0])
    moved, hit = tc.move(state, noop(config), config)
    assert hit.tolist() == [True, False, True, False]
    assert moved["x"].tolist() == [8.0, 8.0, 0.0, 4.0]
    assert moved["y"][0] == 8.0
    assert moved["speed"].tolist() == [0.875, 1.0, 0.875, 0.0]
    assert moved["acceleration"].tolist() == [0.125, 0.0, 0.125, 0.0]
    np.testing.assert_allclose(moved["direction"], d, rtol=1e-6)
    assert tc.step(state, noop(config), config).reward.tolist() == [-0.75, -0.25, -0.375, 0.125]
    assert tc.near_wall(state, noop(config), config) == 1  # row 1


@pytest.mark.parametrize(
    ("x", "y", "direction", "expected"),
    [
        (7.5, 4.0, 0.0, True),
        (0.5, 4.0, PI, True),
        (4.0, 7.5, PI / 2, True),
        (4.0, 0.5, 3 * PI / 2, True),
        (7.0, 4.0, 0.0, False),
        (1.0, 4.0, PI, False),
        (4.0, 7.0, PI / 2, False),
        (4.0, 1.0, 3 * PI / 2, False),
    ],
)
def test_continuous_each_wall_is_hit_beyond_and_not_on_it(x, y, direction, expected):
    state = tc.initial(BASE, [x, 4, 4], [y, 4, 4], [direction, 0, 0], speed=[1, 0, 0])
    moved, hit = tc.move(state, noop(BASE), BASE)
    assert hit.tolist() == [expected, False, False]
    assert float(moved["x"][0]) in (0.0, 4.0, 8.0)
    assert float(moved["y"][0]) in (0.0, 4.0, 8.0)


def test_continuous_one_tagger_tags_several_in_one_step():
    config = replace(FULL, num_runners=4)
    state = at_rest(config, [4.0, 4.5, 3.5, 4.0, 7.0], [4.0, 4.0, 4.0, 4.75, 4.0])
    out = tc.step(state, noop(config), config)
    assert out.reward.tolist() == [30.0, -10.0, -10.0, -10.0, 0.0]
    assert out.terminated.tolist() == [False, True, True, True, False]
    assert not out.truncated.any()
    assert out.state["alive"].tolist() == [True, False, False, False, True]
    # observed before the tags: all agents alive, the victims' own rows ordinary
    blocks = out.obs[:, :-1].reshape(5, 7, 4)
    assert (blocks[:, 6] == 1).all()
    assert np.float32(out.obs[:, -1]).tolist() == [np.float32(0.1)] * 5
    assert blocks[1, 0, 0] == np.float32(-0.5) / np.float32(8 * np.sqrt(2))

    after = tc.step(out.state, [FASTER] * 5, config)
    assert after.reward.tolist() == [0.0] * 5
    assert not after.terminated.any()
    assert not after.obs[1:4].any(), "rows of dead agents are zero, type and alive flags too"
    assert after.obs[0, :-1].reshape(7, 4)[6].tolist() == [0, 0, 0, 1]
    assert after.state["x"][1:4].tolist() == [4.5, 3.5, 4.0]
    assert after.state["speed"].tolist() == [0.5, 0.0, 0.0, 0.0, 0.5]


def test_continuous_dead_agents_lose_speed_acceleration_and_direction():
    state = tc.initial(
        BASE, [1, 3, 7], [1, 3, 7], [1, 1, 1], speed=[0.5, 0.5, 0.5], acceleration=[0.1] * 3, alive=[True, False, True]
    )
    config = replace(BASE, edge_hit_penalty=-1.0, step_reward_for_runner=1.0)
    out = tc.step(state, [FASTER] * 3, config)
    dead = {k: float(out.state[k][1]) for k in ("x", "y", "speed", "acceleration", "direction")}
    assert dead == {"x": 3.0, "y": 3.0, "speed": 0.0, "acceleration": 0.0, "direction": 0.0}
    assert out.reward[1] == 0


@pytest.mark.parametrize(("gap", "tagged"), [(1.0, False), (float(np.nextafter(np.float32(1), np.float32(0))), True)])
def test_continuous_tag_needs_less_than_the_margin(gap, tagged):
    state = at_rest(BASE, [0.0, gap, 8.0])
    out = tc.step(state, noop(BASE), BASE)
    assert out.terminated.tolist() == [False, tagged, False]
    assert tc.near_threshold(tc.move(state, noop(BASE), BASE)[0], BASE).tag == 1


def test_continuous_exact_tie_goes_to_the_lowest_tagger():
    config = replace(BASE, num_taggers=3)
    # rows 1 and 2 are both 0.5 from runner 3, row 0 is 0.75 away
    out = tc.step(at_rest(config, [4.75, 3.5, 4.5, 4.0, 8.0]), noop(config), config)
    assert out.reward.tolist() == [0.0, 10.0, 0.0, -10.0, 0.0]
    assert (
        tc.near_threshold(tc.move(at_rest(config, [4.75, 3.5, 4.5, 4.0, 8.0]), noop(config), config)[0], config)[1] == 1
    )


def test_continuous_nearest_tagger_is_by_distance_not_by_row():
    config = replace(BASE, num_taggers=2)
    out = tc.step(at_rest(config, [4.75, 3.5, 4.0, 8.0]), noop(config), config)
    assert out.reward.tolist() == [0.0, 10.0, -10.0, 0.0]


@pytest.mark.parametrize(
    ("exits", "time_limit", "reward", "terminated"),
    [
        (True, "termination", [10.0, -10.0, 1.0], [True, True, True]),
        (False, "termination", [10.0, -9.0, 1.0], [True, True, True]),
        (True, "truncation", [10.0, -10.0, 1.0], [False, True, False]),
        (False, "truncation", [10.0, -9.0, 1.0], [False, False, False]),
    ],
)
def test_continuous_tag_on_the_last_step(exits, time_limit, reward, terminated):
    config = replace(BASE, runner_exits_game_after_tagged=exits, time_limit=time_limit)
    out = tc.step(at_rest(config, [0.0, 0.5, 8.0], t=9), noop(config), config)
    assert out.reward.tolist() == reward
    assert out.terminated.tolist() == terminated
    assert out.truncated.tolist() == [not v for v in terminated]
    assert (out.obs[:, -1] == 1).all()
    assert not out.state["alive"].any()

    after = tc.step(out.state, noop(config), config)  # events are True once
    assert not any(values.any() for values in after[1:])


@pytest.mark.parametrize("time_limit", ["termination", "truncation"])
def test_continuous_all_runners_gone_ends_the_game_for_the_taggers(time_limit):
    config = replace(BASE, num_taggers=2, time_limit=time_limit)
    for t in (3, 9):  # also at t = T this is a termination, and no agent is left to earn the bonus
        out = tc.step(at_rest(config, [0.0, 8.0, 0.5, 7.5], t=t), noop(config), config)
        assert out.reward.tolist() == [10.0, 10.0, -10.0, -10.0]
        assert out.terminated.all()
        assert not out.truncated.any()


def test_continuous_without_exits_runners_stay_and_are_tagged_again():
    config = replace(BASE, runner_exits_game_after_tagged=False)
    state = at_rest(config, [0.0, 0.5, 0.5])
    for _ in range(3):
        out = tc.step(state, noop(config), config)
        state = out.state
        assert out.reward.tolist() == [20.0, -10.0, -10.0]
        assert not out.terminated.any()
        assert state["alive"].all()


def test_continuous_full_observation_by_hand():
    config = replace(FULL, max_speed=2.0)
    state = tc.initial(
        config, [1, 3, 5], [0, 4, 8], [0, PI, 3 * PI / 2], [0, 1, 2], [0, 0.5, 0], alive=[True, True, False], t=5
    )
    obs = tc.observe(state, config)
    diagonal = 8 * np.sqrt(2)
    expected_1 = [-2 / diagonal, 2 / diagonal, -4 / diagonal, 4 / diagonal, -0.5, 0.5, -0.25, -0.25, -0.5, 0.25]
    expected_1 += [1, 0, 1, 0, 0.5]  # types (tagger = 1), alive, t / T; the dead agent is still shown
    np.testing.assert_allclose(obs[1], expected_1, atol=1e-7)
    expected_0 = [2 / diagonal, 4 / diagonal, 4 / diagonal, 8 / diagonal, 0.5, 1, 0.25, 0, 0.5, 0.75, 0, 0, 1, 0, 0.5]
    np.testing.assert_allclose(obs[0], expected_0, atol=1e-7)
    assert not obs[2].any()
    assert obs.dtype == np.float32


def test_continuous_partial_observation_orders_by_distance_then_id_and_pads():
    config = replace(BASE, num_taggers=2, num_runners=4, num_other_agents_observed=4)
    # seen from row 2 at x = 4: rows 5 and 0 at distance 1 and 2, rows 1 and 3 both at 3, row 4 dead though nearest
    x = [6.0, 7.0, 4.0, 1.0, 4.25, 3.0]
    state = at_rest(config, x, alive=[True, True, True, True, False, True], t=5)
    blocks = tc.observe(state, config)[2, :-1].reshape(7, 4) * np.float32(8 * np.sqrt(2))
    np.testing.assert_allclose(blocks[0], [-1, 2, 3, -3], atol=1e-6)
    types = tc.observe(state, config)[2, :-1].reshape(7, 4)[5]
    assert types.tolist() == [0, 1, 1, 0]
    # the gap of rows 1 and 3 is 0 for row 2; for row 3 no two others are equally far
    assert tc.near_threshold(state, config).rank == 1

    config = replace(config, num_other_agents_observed=6)
    blocks = tc.observe(state, config)[2, :-1].reshape(7, 6)
    assert blocks[6].tolist() == [1, 1, 1, 1, 0, 0]
    assert not blocks[:, 4:].any()
    assert not tc.observe(state, config)[4].any()


def test_continuous_near_ties_are_counted_only_where_they_decide():
    config = replace(BASE, num_taggers=1, num_runners=3, num_other_agents_observed=1)
    far = at_rest(config, [0.0, 3.0, 4.0, 6.0])
    assert tc.near_threshold(far, config) == (0, 0, 0)
    # ranks 1 and 2 of row 1 are equal: with K = 1 that decides; with K = 3 so do no others
    tied = at_rest(config, [0.0, 3.0, 6.0, 8.0])
    assert tc.near_threshold(tied, config).rank == 1
    # ... and nothing is undecided between two neighbors on one spot
    same = at_rest(config, [0.0, 8.0, 8.0, 8.0])
    assert tc.near_threshold(same, config).rank == 0


def test_continuous_step_leaves_its_input_alone():
    state = tc.initial(BASE, [0, 0.5, 4], [0, 0, 4], [0, 0, 0])
    copies = {k: np.copy(v) for k, v in state.items()}
    tc.step(state, [FASTER] * 3, BASE)
    assert all(np.array_equal(copies[k], state[k]) for k in copies)
    with pytest.raises(ValueError, match="expected shape"):
        tc.initial(BASE, [0.0], [0.0], [0.0])
