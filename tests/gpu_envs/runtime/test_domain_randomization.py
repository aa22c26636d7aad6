"""Domain randomization: parameters sampled per episode and world from the world's own stream."""

import pytest
import torch
from played import assert_same, play

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core

RANGES = {"good_max_speed": (0.5, 1.5), "tag_reward": (10.0, 10.0)}


def make(num_envs=16, **settings):
    return make_core(
        "SimpleTag-v0", num_envs, "cpu", **{"seed": 0, "max_cycles": 7, "domain_randomization": RANGES, **settings}
    )


def test_parameters_are_sampled_per_episode():
    core = make(512)
    core.reset()
    first = core.get_params()
    speed = first["good_max_speed"]
    assert speed.shape == (512,)
    assert 0.5 <= speed.min() < 0.52
    assert 1.48 < speed.max() < 1.5
    assert abs(speed.mean() - 1.0) < 0.05
    assert first["tag_reward"].eq(10.0).all()
    assert first["good_size"].eq(torch.tensor(0.05)).all()
    for _ in range(6):
        core.step(core.sample_actions())
        assert torch.equal(core.get_params()["good_max_speed"], speed)
    core.step(core.sample_actions())
    resampled = core.get_params()["good_max_speed"]
    assert (resampled != speed).all()
    assert abs(torch.corrcoef(torch.stack([resampled, speed]))[0, 1]) < 0.15
    core.reset(0)
    assert torch.equal(core.get_params()["good_max_speed"], speed)


def test_sampled_parameters_affect_their_world():
    """Same starts and actions, another cap on the good agent's speed."""
    plain, drawn = make(64, domain_randomization=None), make(64)
    assert torch.equal(plain.reset()[0], drawn.reset()[0])
    fastest = torch.zeros(64)
    for _ in range(6):
        action = plain.sample_actions()
        action[:, 3] = 2  # to the right, all the time
        drawn.step(action)
        fastest = torch.maximum(fastest, drawn.world_state["vel"][:, 3].norm(dim=1))
    cap = drawn.get_params()["good_max_speed"]
    assert (fastest <= cap + 1e-5).all()
    assert (fastest[cap < 0.8] > cap[cap < 0.8] - 1e-4).all()


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_schedules_agree_on_sampled_parameters(autoreset):
    fused, phased = (make(33, schedule=schedule, autoreset=autoreset, threads=2) for schedule in ("fused", "phased"))
    assert_same(play(fused, 30), play(phased, 30))
    assert torch.equal(fused.get_params()["good_max_speed"], phased.get_params()["good_max_speed"])


def test_world_alone_equals_world_among_many():
    many = play(make(9), 20)
    assert_same(many, play(make(1, env_offset=5), 20), rows=slice(5, 6))


@pytest.mark.parametrize("schedule", ["fused", pytest.param("phased", marks=pytest.mark.slow)])
def test_reset_uses_its_sampled_parameters(toys, schedule):
    """Integers include both ends; the toy starts its agents below the sampled length."""
    settings = {
        "seed": 0,
        "length": 9,
        "schedule": schedule,
        "domain_randomization": {"length": (1, 4)},
        "max_steps": 2,
    }
    core = make_core("Toy-v0", 400, "cpu", masked=False, **settings)
    core.reset()
    for _ in range(5):
        length = core.get_params()["length"]
        assert length.unique().tolist() == [1, 2, 3, 4]
        assert (core.world_state["cell"] <= length[:, None]).all()
        start = core.elapsed_steps == 0
        assert (core.world_state["cell"] < length[:, None])[start].all()
        assert (core.obs <= 1).all()
        core.step(core.sample_actions())


def test_saved_state_includes_sampled_parameters():
    first, second = make(), make(seed=5)
    play(first, 9)
    second.set_state(first.get_state())
    for _ in range(20):
        for a, b in zip(first.step(first.sample_actions())[:4], second.step(second.sample_actions())[:4], strict=True):
            assert torch.equal(a, b)
    assert torch.equal(first.get_params()["good_max_speed"], second.get_params()["good_max_speed"])


def test_randomized_parameters_cannot_be_set():
    core = make()
    core.reset()
    core.set_params(good_accel=torch.linspace(1, 2, 16))
    play(core, 10)
    assert torch.equal(core.get_params()["good_accel"], torch.linspace(1, 2, 16))
    with pytest.raises(errors.ConfigError, match="good_max_speed is sampled in every episode"):
        core.set_params(good_max_speed=1.0)


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ({"god_max_speed": (0, 1)}, "no parameter named 'god_max_speed'; did you mean good_max_speed"),
        ({"good_max_speed": (2, 1)}, "lowest <= highest"),
        ({"good_max_speed": (0, float("nan"))}, "two numbers"),
        ({"good_max_speed": 1.0}, "two numbers"),
        ({"good_max_speed": ("a", "b")}, "two numbers"),
        ([("good_max_speed", (0, 1))], r"expected a dict"),
    ],
)
def test_invalid_ranges_raise(ranges, words):
    with pytest.raises(errors.ConfigError, match=words):
        make(domain_randomization=ranges)


def test_ranges_keep_to_the_limits_of_settings():
    with pytest.raises(errors.ConfigError, match=r"grid_length: expected values in \[1e-06, inf\], got -3.0 to -1.0"):
        make_core("TagContinuous-v0", 2, "cpu", domain_randomization={"grid_length": (-3, -1)})


def test_invalid_integer_ranges_raise(toys):
    for bounds in ((0.5, 2), (0, 2**40), (True, "x")):
        with pytest.raises(errors.ConfigError, match="two ints"):
            make_core("Toy-v0", 2, "cpu", domain_randomization={"length": bounds})
    with pytest.raises(errors.ConfigError, match="no parameter named 'episode_length'"):
        make_core("TagGridworld-v0", 2, "cpu", domain_randomization={"episode_length": (5, 9)})
