"""The global state before an autoreset is kept, for critics that value episodes that were cut."""

import climbers
import pytest
import torch
from toy import announce

import gpu_envs
from gpu_envs.errors import ConfigError


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Climbers-v0", climbers)


def make_core(**settings):
    core = gpu_envs.make("Climbers-v0", settings.pop("num_envs", 3), "cpu", **settings).core
    core.keep_final_state()
    core.reset(seed=0)
    return core


def climb(core, choices=(2, 1)):
    return core.step(torch.tensor([choices] * core.num_envs))


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_final_state_is_that_of_the_last_step_and_never_aliased(schedule, autoreset):
    core = make_core(schedule=schedule, autoreset=autoreset)
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
    core = make_core(top=2)
    assert climb(core, (2, 2))[2].all()
    assert core.final_state().tolist() == [[2, 2, 0, 0]] * 3


def test_random_rollouts_keep_equal_final_states():
    stepped, played = make_core(num_envs=5), make_core(num_envs=5)
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
