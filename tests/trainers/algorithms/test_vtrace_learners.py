"""Learners of IMPALA, APPO and REINFORCE: the weighting of older steps, the target policy, and whole episodes."""

import dataclasses

import pytest
import torch
from test_ppo import drive, mean_reward, transition
from toy_core import Corridor

from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.base.learner_spec import LearnerSpec
from trainers.buffers.vtrace import Correction, vtrace

SMALL = {"rollout_length": 12, "hidden_sizes": (16,), "normalize_advantage": False, "learning_rate": 0.01}


def learner_of(name: str, core, engine: str = "torch", **settings):
    spec = algorithm_specs.find(name)
    space = core.action_spaces[core.possible_agents[0]]
    problem = LearnerSpec(core.obs_width, space, core.num_envs, core.num_agents, 100_000, "cpu", 0, engine=engine)
    return spec.learner_type(spec.settings(**{**SMALL, **settings}), problem)


def collect(learner, core):
    core.reset(seed=5)
    for _ in range(learner.rollout.length):
        core.step(learner.act(core.obs, core.info.get("action_mask")))
        learner.observe(dataclasses.replace(transition(core), restarted=torch.zeros(core.num_envs, dtype=torch.bool)))


def change(module, scale: float = 0.3) -> None:
    """Add noise to the weights of a network."""
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=draw)


@pytest.mark.parametrize("name", ["impala", "appo"])
def test_steps_of_older_weights_are_weighted_by_the_ratio(name):
    core = Corridor(6)
    learner = learner_of(name, core, rho_max=1.1, c_max=0.9, gae_lambda=0.8, gamma=0.9)
    collect(learner, core)
    change(learner.valued.actor)
    r, net = learner.rollout, learner.net
    actor = learner.valued.actor
    obs = net.normalizer(r.obs)
    with torch.no_grad():
        log_prob = net.head.evaluate(actor(obs), r.action, None if r.mask is None else r.mask[:-1])[0]
        value, last = net.critic(obs).squeeze(-1), net.critic(net.normalizer(r.last_obs)).squeeze(-1)
        final = net.critic(net.normalizer(r.next_obs())).squeeze(-1)
    ratio = (log_prob - r.log_prob)[r.valid].exp()
    assert ratio.min() < 0.8
    assert ratio.max() > 1.2
    correction = Correction(log_prob - r.log_prob, 1.1, 0.9)
    advantage, returns = vtrace(r.reward, value, last, r.terminated, r.truncated, final, r.valid, correction, 0.9, 0.8)
    batch = learner.batch()
    torch.testing.assert_close(batch["returns"], returns[r.valid])
    torch.testing.assert_close(batch["advantage"], advantage[r.valid])
    least = (r.log_prob - torch.tensor(2.0).log())[r.valid]
    torch.testing.assert_close(batch["log_prob"], torch.maximum(log_prob[r.valid], least))


def test_recurrent_policies_are_valued_along_their_sequences():
    core = Corridor(6)
    learner = learner_of("impala", core, network="gru")
    collect(learner, core)
    same = learner.batch()
    valid = same["valid"]
    sampled = learner.rollout.log_prob.flatten(1, 2).T
    torch.testing.assert_close(same["log_prob"][valid], sampled[valid], atol=1e-5, rtol=1e-5)
    change(learner.actor)
    later = learner.batch()
    assert not torch.isclose(later["log_prob"][valid], sampled[valid], atol=1e-3).all()
    assert not torch.isclose(later["returns"][valid], same["returns"][valid], atol=1e-3).all()


@pytest.mark.parametrize("name", ["impala", "appo"])
def test_present_weights_have_ratios_of_one(name):
    core = Corridor(6)
    learner = learner_of(name, core)
    collect(learner, core)
    batch = learner.batch()
    torch.testing.assert_close(batch["log_prob"], learner.rollout.log_prob[learner.rollout.valid])


def test_target_policy_moves_at_its_interval():
    core = Corridor(6)
    learner = learner_of("appo", core, target_interval=2, target_tau=0.5)
    initial = [parameter.clone() for parameter in learner.valued.actor.parameters()]
    drive(core, learner, 1)
    assert all(map(torch.equal, initial, learner.valued.actor.parameters()))
    drive(core, learner, 1)
    for old, target, present in zip(
        initial, learner.valued.actor.parameters(), learner.actor.parameters(), strict=True
    ):
        torch.testing.assert_close(target, old.lerp(present, 0.5))
    assert not any(parameter.requires_grad for parameter in learner.net.target.parameters())


def test_returns_without_baseline_are_sums_of_rewards_until_the_end():
    core = Corridor(6)
    learner = learner_of("pg", core, baseline=False, gamma=0.5, rollout_length=24)
    collect(learner, core)
    r = learner.rollout
    expected, is_known = [], torch.zeros_like(r.valid)
    for t, world, agent in r.valid.nonzero().tolist():
        ends = [s for s in range(t, r.length) if bool((r.terminated | r.truncated)[s, world, agent])]
        if ends:
            is_known[t, world, agent] = True
            rewards = r.reward[t : ends[0] + 1, world, agent]
            expected.append(float((rewards * 0.5 ** torch.arange(len(rewards))).sum()))
    assert 0 < is_known.sum() < r.valid.sum(), "some episodes go on after the rollout"
    batch = learner.batch()
    torch.testing.assert_close(batch["returns"], torch.tensor(expected))
    torch.testing.assert_close(batch["advantage"], batch["returns"])
    critic = [parameter.clone() for parameter in learner.critic.parameters()]
    learner.update()
    assert all(map(torch.equal, critic, learner.critic.parameters())), "the critic is not trained"


def test_baseline_is_subtracted():
    core = Corridor(6)
    learner = learner_of("pg", core)
    collect(learner, core)
    batch = learner.batch()
    torch.testing.assert_close(batch["advantage"], batch["returns"] - batch["value"])
    critic = [parameter.clone() for parameter in learner.critic.parameters()]
    learner.update()
    assert not any(map(torch.equal, critic, learner.critic.parameters()))


@pytest.mark.parametrize(("name", "iterations"), [("impala", 10), ("appo", 10), ("pg", 25)])
def test_learns_to_walk_to_the_end(name, iterations):
    """The mean reward of random play is near the cost of a step, -0.05."""
    core = Corridor(32)
    learner = learner_of(name, core, normalize_advantage=True, learning_rate=0.02)
    initial = mean_reward(core, learner.policy())
    drive(core, learner, iterations)
    assert initial < 0.05
    assert mean_reward(core, learner.policy()) > 0.1


@pytest.mark.parametrize("name", ["impala", "appo", "pg"])
def test_kernels_are_refused(name):
    with pytest.raises(ConfigError, match="algorithm: expected advantages by GAE"):
        _ = learner_of(name, Corridor(6), engine="kernel").reason_for_torch


def test_decay_of_monte_carlo_returns_is_fixed():
    with pytest.raises(ConfigError, match=r"learner\.gae_lambda: expected 1\.0, which pg fixes, got 0\.9"):
        learner_of("pg", Corridor(6), gae_lambda=0.9)
