"""Hand-worked cases for the reference oracle in tests/parity/references/tag_gridworld.py."""

from dataclasses import replace

import numpy as np
import pytest

from parity.references import tag_gridworld as tg

GRID = tg.Config(num_taggers=2, grid_length=4, episode_length=8)
STAY, EAST, WEST, NORTH, SOUTH = range(5)


def test_gridworld_defaults_and_fixed_start():
    config = tg.Config(grid_length=5)
    state = tg.initial(config)
    assert state["x"].tolist() == state["y"].tolist() == [2] * 10 + [0]
    assert tg.obs_width(config) == 45
    assert tg.obs_width(replace(config, use_full_observation=False)) == 6
    with pytest.raises(ValueError, match="expected shapes"):
        tg.initial(config, x=[0])


def test_gridworld_moves_and_step_costs():
    config = tg.Config(num_taggers=4, grid_length=4)
    state = tg.initial(config, x=[1, 1, 1, 1, 3], y=[2, 2, 2, 2, 3])
    out = tg.step(state, [EAST, WEST, NORTH, SOUTH, STAY], config)
    assert out.state["x"].tolist() == [2, 0, 1, 1, 3]
    assert out.state["y"].tolist() == [2, 2, 3, 1, 3]
    np.testing.assert_allclose(out.reward, [-0.01] * 4 + [0.01], rtol=1e-6)
    assert not any(values.any() for values in out[3:])
    assert state["x"].tolist() == [1, 1, 1, 1, 3], "the input is left alone"


def test_gridworld_walls_clip_and_cost():
    # the far wall is cell grid_length itself: reaching it is free, pushing against it is not
    state = tg.initial(GRID, x=[4, 3, 0], y=[0, 0, 2])
    out = tg.step(state, [EAST, EAST, WEST], GRID)
    assert out.state["x"].tolist() == [4, 4, 0]
    np.testing.assert_allclose(out.reward, [-0.11, -0.01, -0.09], rtol=1e-6)


def test_gridworld_tag_pays_every_tagger_and_ends_the_world():
    state = tg.initial(GRID, x=[0, 4, 1], y=[0, 4, 0])
    out = tg.step(state, [EAST, EAST, STAY], GRID)  # row 1 pushes against the wall, far away
    np.testing.assert_allclose(out.reward, [10.0, 9.9, -2.0], rtol=1e-6)
    assert out.terminated.all()
    assert out.obs[:, -1].tolist() == [0.125] * 3
    after = tg.step(out.state, [WEST, WEST, WEST], GRID)
    assert not any(values.any() for values in after[1:])
    assert after.state["x"].tolist() == out.state["x"].tolist()


def test_gridworld_swap_passes_through_but_meeting_tags():
    swap = tg.step(tg.initial(GRID, x=[1, 4, 2], y=[0, 4, 0]), [EAST, STAY, WEST], GRID)
    assert swap.state["x"].tolist() == [2, 4, 1]
    assert not swap.terminated.any()
    meet = tg.step(tg.initial(GRID, x=[1, 4, 3], y=[0, 4, 0]), [EAST, STAY, WEST], GRID)
    assert meet.terminated.all()
    adjacent = tg.step(tg.initial(GRID, x=[1, 4, 1], y=[0, 2, 2]), [STAY] * 3, GRID)
    assert not adjacent.terminated.any()
    leave = tg.step(tg.initial(GRID, x=[1, 4, 1], y=[0, 4, 0]), [STAY, STAY, EAST], GRID)
    assert not leave.terminated.any()


@pytest.mark.parametrize("time_limit", ["termination", "truncation"])
@pytest.mark.parametrize("tagged", [True, False])
def test_gridworld_end_of_time(time_limit, tagged):
    config = replace(GRID, time_limit=time_limit)
    out = tg.step(tg.initial(config, x=[1, 4, 1 if tagged else 3], y=[0, 4, 0], t=7), [STAY] * 3, config)
    terminates = tagged or time_limit == "termination"
    assert out.terminated.tolist() == [terminates] * 3
    assert out.truncated.tolist() == [not terminates] * 3
    assert not out.state["alive"].any()
    assert out.reward[0] == np.float32(10.0 if tagged else -0.01)


def test_gridworld_full_observation_by_hand():
    obs = tg.observe(tg.initial(GRID, x=[1, 2, 4], y=[0, 3, 1], t=2), GRID)
    common = [0.25, 0.5, 1.0, 0.0, 0.75, 0.25, 0, 0, 1]
    assert obs.tolist() == [[*common, 1, 0, 0, 0.25], [*common, 0, 1, 0, 0.25], [*common, 0, 0, 1, 0.25]]


def test_gridworld_partial_observation_sees_the_runner_or_the_nearest_tagger():
    config = replace(GRID, num_taggers=4, use_full_observation=False)
    # rows 1 and 2 are equally far from the runner (squared distance 2), rows 0 and 3 are farther though in line
    obs = tg.observe(tg.initial(config, x=[4, 1, 3, 2, 2], y=[2, 3, 1, 4, 2], t=4), config)
    assert obs.tolist() == [
        [1.0, 0.5, 0.5, 0.5, 0, 0.5],
        [0.25, 0.75, 0.5, 0.5, 0, 0.5],
        [0.75, 0.25, 0.5, 0.5, 0, 0.5],
        [0.5, 1.0, 0.5, 0.5, 0, 0.5],
        [0.5, 0.5, 0.25, 0.75, 1, 0.5],
    ]
