"""A list of seeds: each seed is the whole key of its world, whatever its place and the size of the batch."""

import pytest
import rollout_cases
import torch
from played import assert_same, play
from small_environments import SMALL

from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.rollout.policy_rollout import MatchupDraw, PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace

STEPS = 20


def batch(num_envs, env_id="SimpleTag-v0", **settings):
    return make_core(env_id, num_envs, "cpu", seed=99, **SMALL[env_id], **settings)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_equal_seeds_give_equal_worlds(autoreset):
    core = batch(3, autoreset=autoreset)
    history = play(core, STEPS, seed=[7, 7, 8])
    assert_same(history, history_of(history, [1]), rows=slice(0, 1))
    assert any(not torch.equal(step["obs"][0], step["obs"][2]) for step in history)
    assert (core.episode_index > 0).all()


def history_of(history, worlds):
    return [{name: value[worlds] for name, value in step.items()} for step in history]


def test_world_of_a_seed_plays_the_same_in_batches_of_any_size_and_any_order():
    alone = {seed: play(batch(1), STEPS, seed=[seed]) for seed in (0, 5, 11)}
    for size in (4, 6):
        for first in range(0, 12, size):
            seeds = list(range(first, first + size))[::-1]
            history = play(batch(size, env_offset=first, schedule="phased"), STEPS, seed=torch.tensor(seeds))
            for seed in alone.keys() & set(seeds):
                assert_same(history_of(history, [seeds.index(seed)]), alone[seed])


@pytest.mark.parametrize("seed", [7, 2**63 + 5, -3])
def test_world_with_its_own_seed_plays_as_world_0_of_that_int(seed):
    assert_same(play(batch(3), STEPS, seed=[1, 2, seed]), play(batch(1), STEPS, seed=seed), rows=slice(2, 3))


def test_seeds_of_a_partial_reset_are_those_of_its_worlds():
    core, mask = batch(4), torch.tensor([False, True, False, True])
    core.reset(seed=3)
    core.reset(seed=[7, 7, 7, 7], reset_mask=mask)
    obs = core.obs.clone()
    assert torch.equal(obs[1], obs[3])
    assert torch.equal(obs[1:2], batch(1).reset(seed=7)[0])
    assert torch.equal(obs[~mask], batch(4).reset(seed=3)[0][~mask])
    core.reset(seed=3, reset_mask=mask)  # an int again: worlds differ by their index
    assert torch.equal(core.obs, batch(4).reset(seed=3)[0])


def test_state_keeps_the_seeds_of_worlds():
    core, other = batch(2), batch(2)
    core.reset(seed=[4, 4])
    other.set_state(core.get_state())
    assert_same(played(core), played(other))


def played(core):
    steps = [core.step(core.sample_actions()) for _ in range(STEPS)]
    return [{"obs": obs, "reward": reward} for obs, reward, *_ in steps]


def test_sampled_parameters_follow_the_seed():
    core = batch(3, domain_randomization={"good_max_speed": (1.0, 1.6)})
    core.reset(seed=[5, 6, 5])
    speed = core.get_params()["good_max_speed"]
    assert speed[0] == speed[2] != speed[1]


@pytest.mark.parametrize("schedule", ["fused", "phased"])
@pytest.mark.parametrize("case", ["discrete", pytest.param("box", marks=pytest.mark.slow)])
def test_sampled_actions_of_policies_follow_the_seed_of_the_world(case, schedule):
    core = rollout_cases.make_core(case, num_envs=4, schedule=schedule)
    core.reset(seed=[5, 6, 5, 6])
    policies = rollout_cases.make_policies(core)[1]
    action = core.rollout(policies, STEPS).action
    assert torch.equal(action[:, 0], action[:, 2])
    assert torch.equal(action[:, 1], action[:, 3])
    # the same observations, so that only the draws differ
    other = rollout_cases.make_core(case, num_envs=4, schedule=schedule)
    other.reset(seed=[5, 5, 5, 5])
    state = other.get_state()
    state["io.seed"] = torch.tensor([5, 6, 7, 8])
    other.set_state(state)
    action = other.rollout(policies, 1).action[0].flatten(1)
    assert len(action.unique(dim=0)) > 1


def test_drawn_matchups_follow_the_seed_of_the_world():
    core = rollout_cases.make_core("turns", num_envs=64)
    core.reset(seed=[1, *range(1, 63), 1])
    policies = list(rollout_cases.make_policies(core)[1].values())[:1]
    index = torch.zeros((5, core.num_agents), dtype=torch.int64)
    draw = MatchupDraw(torch.linspace(0.2, 1.0, 5, dtype=torch.float64), torch.tensor([9]))
    trace = RolloutTrace.allocate(core, STEPS, STEPS, matchups=True)
    plan = PolicyRollout(core, policies, index, trace, matchup=torch.zeros(64, dtype=torch.int64), draw=draw)
    core.rollout(plan, STEPS)
    drawn = trace.matchup
    assert torch.equal(drawn[:, 0], drawn[:, 1])
    assert torch.equal(drawn[:, 0], drawn[:, 63])
    assert set(drawn[-1].tolist()) == set(range(5))  # not one draw for all seeds


def test_number_of_seeds_is_that_of_the_worlds():
    core = batch(3)
    with pytest.raises(ValueError, match="one int per world, 3 of them, got 2 seeds"):
        core.reset(seed=[1, 2])
    with pytest.raises(ValueError, match=r"seed\[1\]: expected an int, got None"):
        core.reset(seed=[1, None, 2])


def test_seed_of_more_than_64_bits_is_refused():
    core = batch(2)
    for seed in (2**70, 2**64, -(2**63) - 1, [0, 2**64]):
        with pytest.raises(ValueError, match=r"expected an int in \[-2\*\*63, 2\*\*64\)"):
            core.reset(seed=seed)
