"""Declared entries of info are those of the step, before autoreset; agents that leave keep those of their end."""

import climbers
import pytest
import torch
from toy import announce

import gpu_envs
from gpu_envs.errors import ConfigError
from gpu_envs.testing import check_env

# Agent 0 climbs 2 a step and leaves at height 6 in step 3; agent 1 climbs 1 and is cut in step 5.
EPISODE = [[2, 1], [4, 2], [6, 3], [6, 4], [6, 5]]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)


def climb(core):
    """Step with the choices 2 and 1; return info."""
    return core.step(torch.tensor([[2, 1]] * core.num_envs))[4]


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_info_has_the_values_of_an_agents_end_until_its_world_starts_an_episode(schedule, autoreset):
    core = gpu_envs.make("Climbers-v0", 3, "cpu", schedule=schedule, autoreset=autoreset, max_steps=5).core
    _, info = core.reset(seed=0)
    assert info["height"].tolist() == [[0, 0]] * 3
    for _ in range(3):
        for heights in EPISODE:
            info = climb(core)
            assert info["height"].tolist() == [heights] * 3
            assert info["score"].tolist() == [[0.5 * height for height in heights]] * 3
            assert info["point"].tolist() == [[[height, -height] for height in heights]] * 3
            assert info["is_high"].tolist() == [[height > 3 for height in heights]] * 3
            assert info["log"][0, :, 0].tolist() == heights
        assert info["log"][0, :, 1].tolist() == [3, 5]
        assert core.episode_results.tolist() == [[[6.0, 1.0], [5.0, 1.0]]] * 3
        if autoreset == "next_step":
            assert climb(core)["height"].tolist() == [[0, 0]] * 3
        if autoreset == "disabled":
            mask = torch.tensor([True, False, True])
            _, info = core.reset(reset_mask=mask)
            assert info["height"].tolist() == [[0, 0], [6, 5], [0, 0]]
            _, info = core.reset()
            assert info["height"].tolist() == [[0, 0]] * 3
            assert info["is_high"].tolist() == [[False, False]] * 3


def test_restored_state_shows_the_values_of_agents_that_have_left():
    one, two = (gpu_envs.make("Climbers-v0", 2, "cpu", autoreset="disabled").core for _ in range(2))
    one.reset(seed=0)
    for _ in range(3):
        climb(one)
    two.set_state(one.get_state())
    assert climb(two)["height"].tolist() == climb(one)["height"].tolist() == [[6, 4]] * 2
    earlier = {name: each for name, each in one.get_state().items() if name not in one._buffers.shows_results}
    two.set_state(earlier)  # a state of a version without these entries


def test_worlds_of_several_devices_show_equal_values():
    core = gpu_envs.make("Climbers-v0", 5, devices=["cpu", "cpu"]).core
    core.reset(seed=0)
    for heights in EPISODE:
        assert climb(core)["height"].tolist() == [heights] * 5
    assert core.episode_results.tolist() == [[[6.0, 1.0], [5.0, 1.0]]] * 5


def test_random_rollout_shows_the_values_of_ordinary_steps():
    stepped, played = (gpu_envs.make("Climbers-v0", 4, "cpu", max_steps=4).core for _ in range(2))
    stepped.reset(seed=0)
    played.reset(seed=0)
    for _ in range(3):
        for _ in range(4):
            *_, info = stepped.step(stepped.sample_actions())
        *_, other = played.random_rollout(4)
        for name in ("height", "score", "point", "is_high", "log"):
            assert torch.equal(info[name], other[name])
        assert torch.equal(stepped.episode_results, played.episode_results)


@pytest.mark.slow
def test_environment_with_accumulators_passes_check_env():
    check_env("Climbers-v0")


def test_results_that_are_no_entries_of_info_or_no_numbers_are_refused():
    from dataclasses import replace

    definition = climbers.build(climbers.Config())
    with pytest.raises(ConfigError, match=r"results: expected names of info, got 'wins'"):
        replace(definition, results=("wins",))
    with pytest.raises(ConfigError, match=r"results: expected a number per agent \(2,\), got 'log' \(2, 2\)"):
        replace(definition, results=("log",))
