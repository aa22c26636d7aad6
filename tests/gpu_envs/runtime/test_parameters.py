"""Parameters are read and changed by world; wrong ones are refused in one line."""

import pytest
import torch
from messages import one_line

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core


@pytest.fixture
def core():
    core = make_core("SimpleTag-v0", 3, "cpu", seed=0)
    core.reset()
    return core


def test_constants_can_change_by_world(core):
    """Domain randomisation: per-world constants change that world only."""
    plain = make_core("SimpleTag-v0", 3, "cpu", seed=0)
    plain.reset()
    core.set_params(good_max_speed=torch.tensor([1.3, 0.0, 1.3]))
    for _ in range(3):
        action = core.sample_actions()
        left, right = core.step(action)[0], plain.step(action)[0]
    assert torch.equal(left[[0, 2]], right[[0, 2]])
    assert not core.world_state["vel"][1, 3].any()
    assert plain.world_state["vel"][1, 3].any()
    core.set_params(good_max_speed=1.3)
    assert core.get_params()["good_max_speed"].tolist() == pytest.approx([1.3] * 3)
    with pytest.raises(errors.ConfigError) as info:
        core.set_params(speed=1.0)
    one_line(info, "speed", "did you mean good_max_speed?")
    with pytest.raises(errors.ConfigError) as info:
        core.set_params(good_size=torch.ones(2))
    one_line(info, "good_size", "(3,)")


@pytest.mark.parametrize(
    ("env_id", "name", "lowest"),
    [
        *(("CollectTreasure-v0", name, 0.0) for name in ("collector_size", "deposit_size", "treasure_size")),
        ("CollectTreasure-v0", "max_speed", 0.0),
        ("CollectTreasure-v0", "deposit_mass", 0.001),
        *(("SimpleLine-v0", name, 0.0) for name in ("agent_size", "capture_radius", "line_length")),
        *(("SimpleFormation-v0", name, 0.0) for name in ("agent_size", "capture_radius", "formation_radius")),
    ],
)
def test_lengths_speeds_and_masses_have_bounds(env_id, name, lowest):
    """The lowest values give finite results; a mass of 0 gave NaN, negative lengths were accepted."""
    core = make_core(env_id, 2, "cpu", seed=0)
    for low in (lowest - 0.001, -1.0):
        with pytest.raises(errors.ConfigError) as info:
            core.set_params(**{name: low})
        one_line(info, env_id, f"{name}: expected values in [{lowest}, 1000000.0]")
    core.set_params(**{name: lowest})
    core.reset()
    for _ in range(5):
        obs, reward, *_ = core.step(core.sample_actions())
        assert obs.isfinite().all()
        assert reward.isfinite().all()


def test_parameters_of_time_limits_are_fixed():
    for env_id in ("TagContinuous-v0", "TagGridworld-v0"):
        core = make_core(env_id, 2, "cpu")
        with pytest.raises(errors.ConfigError) as info:
            core.set_params(episode_length=7)
        one_line(info, "episode_length", "make(..., episode_length=...)")


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("RobotWarehouse-v0", "rows"),
        ("RobotWarehouse-v0", "unrequested"),
        ("LevelBasedForaging-v0", "levels_of_players"),
        ("Overcooked-v0", "num_floor"),
    ],
)
def test_fixed_parameter_that_is_no_setting_recommends_no_call_of_make(env_id, name):
    core = make_core(env_id, 2, "cpu")
    with pytest.raises(errors.ConfigError) as info:
        core.set_params(**{name: 1})
    one_line(info, f"{name} is fixed when the environment is made; it follows from other settings")
    with pytest.raises(errors.ConfigError, match=f"unexpected keyword argument '{name}'"):
        make_core(env_id, 2, "cpu", **{name: 1})


def test_constants_of_some_worlds(core):
    core.set_params(good_size=torch.tensor([0.1, 0.2, 0.3]))
    params = core.get_params(torch.tensor([2, 0]))
    assert params["good_size"].tolist() == pytest.approx([0.3, 0.1])
    assert params["tag_reward"].tolist() == [10.0, 10.0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("max_speed", float("nan"), "a finite number"),
        ("grid_length", -5.0, r"in \[1e-06, inf\]"),
        ("exits", 0.7, "an int"),
        ("tag_reward_for_tagger", "x", "a finite number"),
        ("tag_penalty_for_runner", torch.tensor([-1.0, 1.0]), r"in \[-inf, 0.0\]"),
        ("max_turn", torch.tensor([0.0, float("inf")]), "a finite number"),
    ],
)
def test_constants_are_checked(name, value, words):
    core = make_core("TagContinuous-v0", 2, "cpu", num_taggers=1, num_runners=1)
    params = core.get_params()
    with pytest.raises(errors.ConfigError, match=f"{name}: expected (values )?{words}") as info:
        core.set_params(**{name: value})
    one_line(info)
    assert all(torch.equal(params[key], current) for key, current in core.get_params().items())
