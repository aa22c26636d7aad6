"""Environments whose observe writes only what has changed, against twins that write every row in full."""

import pytest
import torch
from small_environments import SMALL

from gpu_envs.errors import ActionError
from gpu_envs.runtime.factory import configured_definition, make_core, takes_turns

WORLDS, STEPS = 24, 50
ENVS = ["Hanabi-v0", "Overcooked-v0"]


def twins(env_id, seed=0, **options):
    """Return two equal cores; the second is to forget its observations before every launch."""
    cores = [make_core(env_id, WORLDS, "cpu", seed=seed, **SMALL[env_id], **options) for _ in range(2)]
    for core in cores:
        core.reset()
    return cores


def forget(core):
    """Overwrite observations and let the next ones be written in full."""
    core.obs.fill_(float("nan"))
    core.world_state["is_blank"].fill_(1)


def same(cores):
    first, second = cores
    assert not first.world_state["is_blank"][first.alive].any()
    return torch.equal(first.obs, second.obs) and torch.equal(first.final_obs, second.final_obs)


def actions(core, generator):
    """Return random actions, some of them illegal where agents take turns."""
    action = core.sample_actions()
    if core.to_move is None:
        return action
    strange = torch.randint(0, int(core.num_choices.max()), action.shape, generator=generator)
    return torch.where(torch.rand(action.shape, generator=generator) < 0.03, strange, action)


def test_environments_that_write_changes_are_tested():
    definitions = {env_id: configured_definition(env_id, None, settings)[2] for env_id, settings in SMALL.items()}
    assert {env_id for env_id, definition in definitions.items() if definition.rules.forget is not None} == set(ENVS)


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("schedule", ["fused", pytest.param("phased", marks=pytest.mark.slow)])
@pytest.mark.parametrize("autoreset", ["same_step", pytest.param("next_step", marks=pytest.mark.slow), "disabled"])
def test_steps_resets_rollouts_and_restored_states_equal_full_rows(env_id, schedule, autoreset):
    """Random play with illegal actions; now and then a reset by mask, a random rollout, or an earlier state."""
    options = {"illegal_actions": "loss"} if takes_turns(env_id, SMALL[env_id]) else {}
    first, second = cores = twins(env_id, autoreset=autoreset, schedule=schedule, **options)
    generator = torch.Generator().manual_seed(0)
    ends = 0
    for step in range(STEPS):
        forget(second)
        if step % 10 == 4:
            mask = torch.rand(WORLDS, generator=generator) < 0.5
            mask |= ~first.alive.any(1)
            second.obs[~mask] = first.obs[~mask]  # a reset by mask observes only there
            second.world_state["is_blank"][~mask] = 0
            for core in cores:
                core.reset(reset_mask=mask)
        elif step % 10 == 9:
            if step == 9:
                snapshot = first.get_state()
            for core in cores:
                core.random_rollout(5)
        elif step == 35:
            first.set_state(snapshot)
            second.set_state(snapshot)
        else:
            action = actions(first, generator)
            for core in cores:
                core.step(action)
        assert same(cores), step
        ends += int((first.terminated | first.truncated).any(1).sum())
    assert ends > WORLDS


def test_refused_actions_do_not_change_observations():
    """An illegal action is an error; the world waits, and its observations do not change."""
    first, second = cores = twins("Hanabi-v0")
    for core in cores:
        core.step(core.sample_actions())
    illegal = (~first.action_mask).int().argmax(-1)
    forget(second)
    for core in cores:
        with pytest.raises(ActionError):
            core.step(illegal)
    assert same(cores)
    action = first.sample_actions()
    forget(second)
    for core in cores:
        core.step(action)
    assert same(cores)


@pytest.mark.parametrize("env_id", ENVS)
def test_restored_states_have_their_observations(env_id):
    first, second = twins(env_id)
    for _ in range(3):
        first.step(first.sample_actions())
    second.random_rollout(7)
    second.set_state(first.get_state())
    assert torch.equal(first.obs, second.obs)
    action = first.sample_actions()
    for core in (first, second):
        core.step(action)
    assert torch.equal(first.obs, second.obs)
