"""Declared entries of info and final global states describe the step before autoreset.

Agents that leave keep the values of their end. Critics value episodes that were cut by the final state.
"""

import climbers
import pytest
import torch
from small_environments import SMALL
from toy import announce

import gpu_envs
from gpu_envs.errors import ConfigError
from gpu_envs.testing import check_env

# Agent 0 climbs 2 a step and leaves at height 6 in step 3; agent 1 climbs 1 and is cut in step 5.
EPISODE = [[2, 1], [4, 2], [6, 3], [6, 4], [6, 5]]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)


def climb(core, choices=(2, 1)):
    """Step with the same choices in all worlds."""
    return core.step(torch.tensor([choices] * core.num_envs))


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_info_has_the_values_of_an_agents_end_until_its_world_starts_an_episode(schedule, autoreset):
    core = gpu_envs.make("Climbers-v0", 3, "cpu", schedule=schedule, autoreset=autoreset, max_steps=5).core
    _, info = core.reset(seed=0)
    assert info["height"].tolist() == [[0, 0]] * 3
    for _ in range(3):
        for heights in EPISODE:
            *_, info = climb(core)
            assert info["height"].tolist() == [heights] * 3
            assert info["score"].tolist() == [[0.5 * height for height in heights]] * 3
            assert info["point"].tolist() == [[[height, -height] for height in heights]] * 3
            assert info["is_high"].tolist() == [[height > 3 for height in heights]] * 3
            assert info["log"][0, :, 0].tolist() == heights
        assert info["log"][0, :, 1].tolist() == [3, 5]
        assert core.episode_results.tolist() == [[[6.0, 1.0], [5.0, 1.0]]] * 3
        if autoreset == "next_step":
            assert climb(core)[4]["height"].tolist() == [[0, 0]] * 3
        if autoreset == "disabled":
            mask = torch.tensor([True, False, True])
            _, info = core.reset(reset_mask=mask)
            assert info["height"].tolist() == [[0, 0], [6, 5], [0, 0]]
            _, info = core.reset()
            assert info["height"].tolist() == [[0, 0]] * 3
            assert info["is_high"].tolist() == [[False, False]] * 3


def test_restored_state_shows_the_values_of_agents_that_have_left():
    first, second = (gpu_envs.make("Climbers-v0", 2, "cpu", autoreset="disabled").core for _ in range(2))
    first.reset(seed=0)
    for _ in range(3):
        climb(first)
    second.set_state(first.get_state())
    assert climb(second)[4]["height"].tolist() == climb(first)[4]["height"].tolist() == [[6, 4]] * 2
    earlier = {name: tensor for name, tensor in first.get_state().items() if name not in first._buffers.shows_results}
    second.set_state(earlier)  # a state of a version without these entries


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


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize("leaves", [True, False])
def test_runners_of_tag_have_survived_unless_they_were_tagged(leaves, schedule):
    settings = {**SMALL["TagContinuous-v0"], "runner_exits_game_after_tagged": leaves}
    core = gpu_envs.make("TagContinuous-v0", 16, "cpu", schedule=schedule, **settings).core
    core.reset(seed=0)
    expected, lengths, shares = torch.ones(16, 7), [], set()
    for _ in range(30):
        _, reward, *_, info = core.step(core.sample_actions())
        expected[reward < -5.0] = 0.0  # a tag is -10
        assert torch.equal(info["survived"].float(), expected)
        over = core.elapsed_steps == 0
        assert torch.equal(core.episode_results[over][..., 0], expected[over])
        lengths += info["episode_length"][over].amax(1).tolist()
        shares |= set(expected[over][:, 2:].mean(1).tolist())
        expected[over] = 1.0
    assert 9 in lengths, "the time limit ends an episode"
    assert len(shares) > 2


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_runner_of_gridworld_has_survived_if_the_time_is_up(schedule):
    core = gpu_envs.make("TagGridworld-v0", 16, "cpu", schedule=schedule, **SMALL["TagGridworld-v0"]).core
    core.reset(seed=0)
    ends = set()
    for _ in range(24):
        _, reward, *_, info = core.step(core.sample_actions())
        tagged = reward[:, -1] < -1.0  # a tag is -2
        assert torch.equal(info["survived"][:, -1], ~tagged)
        assert bool(info["survived"][:, :-1].all())
        over = core.elapsed_steps == 0
        assert torch.equal(core.episode_results[over, -1, 0], (~tagged[over]).float())
        ends |= set(zip(tagged[over].tolist(), (info["episode_length"][over, 0] == 8).tolist(), strict=True))
    assert {(False, True), (True, False)} <= ends <= {(False, True), (True, False), (True, True)}


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize(("reward_type", "inactivity"), [("individual", None), ("global", None), ("individual", 25)])
def test_deliveries_of_robots_are_those_that_rewards_tell(reward_type, inactivity, schedule):
    settings = {"layout": "xx.|.g.|x.x", "n_agents": 3, "request_queue_size": 3, "max_steps": 60}
    settings |= {"reward_type": reward_type, "max_inactivity_steps": inactivity}
    core = gpu_envs.make("RobotWarehouse-v0", 16, "cpu", schedule=schedule, **settings).core
    core.reset(seed=0)
    expected, lengths, totals = torch.zeros(16, 3), set(), set()
    for _ in range(130):
        _, reward, *_, info = core.step(core.sample_actions())
        expected += reward
        over = core.elapsed_steps == 0
        counts, results = info["deliveries"].float(), core.episode_results[over][..., 0]
        if reward_type == "global":  # every robot is rewarded for the deliveries of all
            counts, results = (values.sum(1, keepdim=True).expand(-1, 3) for values in (counts, results))
        assert torch.equal(counts, expected)
        assert torch.equal(results, expected[over])
        lengths |= set(info["episode_length"][over, 0].tolist())
        totals |= set(results.sum(1).tolist())
        expected[over] = 0.0
    assert 60 in lengths
    assert (len(lengths) > 1) == (inactivity is not None)
    assert len(totals) > 1


@pytest.mark.slow
def test_environment_with_accumulators_passes_check_env():
    check_env("Climbers-v0")


def test_results_that_are_no_entries_of_info_or_no_numbers_are_refused():
    from dataclasses import replace

    definition = climbers.build(climbers.Config())
    with pytest.raises(ConfigError, match=r"results: expected names of info or fields of State, got 'wins'"):
        replace(definition, results=("wins",))
    with pytest.raises(ConfigError, match=r"results: expected a number per agent \(2,\), got 'log' \(2, 2\)"):
        replace(definition, results=("log",))


def keeping(**settings):
    """Return a core that keeps final states."""
    core = gpu_envs.make("Climbers-v0", settings.pop("num_envs", 3), "cpu", **settings).core
    core.keep_final_state()
    core.reset(seed=0)
    return core


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_final_state_is_that_of_the_last_step_and_never_aliased(schedule, autoreset):
    core = keeping(schedule=schedule, autoreset=autoreset)
    for _ in range(2):
        for _ in range(4):
            climb(core)
        *_, truncated, _ = climb(core)
        assert truncated.tolist() == [[False, True]] * 3
        # agent 0 has left in step 3, after which its height is GONE; agent 1 was cut at 5, and is valued as alive
        final = core.final_state()
        assert final.tolist() == [[climbers.GONE, 5, 0, 1]] * 3
        assert core.alive.all() == (autoreset == "same_step")
        if autoreset == "same_step":
            assert core.state().tolist() == [[0, 0, 1, 1]] * 3
        if autoreset == "next_step":
            climb(core)
        if autoreset == "disabled":
            core.reset()
        core.random_rollout(2)
        assert final.tolist() == [[climbers.GONE, 5, 0, 1]] * 3
        assert core.final_state().tolist() == final.tolist()  # until the next end
        core.reset()


def test_agents_that_the_rules_end_are_not_alive_in_the_final_state():
    core = keeping(top=2)
    assert climb(core, (2, 2))[2].all()
    assert core.final_state().tolist() == [[2, 2, 0, 0]] * 3


def test_random_rollouts_keep_equal_final_states():
    stepped, played = keeping(num_envs=5), keeping(num_envs=5)
    for _ in range(10):
        stepped.step(stepped.sample_actions())
    played.random_rollout(10)
    assert stepped.final_state().any()
    assert torch.equal(stepped.final_state(), played.final_state())


def test_joined_observations_have_their_final_state_without_being_asked():
    core = gpu_envs.make("Climbers-v0", 2, "cpu", has_state=False).core
    core.reset(seed=0)
    for _ in range(5):
        climb(core)
    assert core.final_state().tolist() == [[0, 5]] * 2  # agent 0 has left before: it observes 0
    assert core.state().tolist() == [[0, 0]] * 2


def test_final_state_that_was_not_kept_is_an_error_and_costs_no_step():
    core = gpu_envs.make("Climbers-v0", 2, "cpu").core
    core.reset(seed=0)
    with pytest.raises(ConfigError, match=r"final global states are not kept; call keep_final_state\(\) first"):
        core.final_state()
    steps = core._launcher.program.step
    core.keep_final_state()
    assert core._launcher.program.step != steps
    assert "io.final_state" not in core.get_state()
