"""MAT's learner: joint advantages, loss and acting against numbers computed by hand, deaths, and what it refuses."""

import math

import pytest
import torch
from actor_critics import trainer_of
from torch.distributions import Categorical
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.advantages import minibatch
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.algorithms.on_policy.sequential.mat import MATConfig
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.policy_set import PolicyRunner

SMALL = {"rollout_length": 16, "hidden_sizes": (8,), "num_minibatches": 2, "learning_rate": 3e-3}


def trainer_for(core, out, sharing="all", engine="auto", **settings):
    config = MATConfig(**{**SMALL, **settings})
    return trainer_of(core, config, out, "mat", sharing=sharing, total_steps=10_000, engine=engine)


def collected(core, out, updates=1, **settings):
    """Return a learner that has learned, with its next rollout."""
    trainer = trainer_for(core, out, **settings)
    for _ in range(updates):
        trainer.iterate()
    trainer.collector.collect()
    trainer.log.close()
    (assignment,) = trainer.assignments.values()
    return assignment.learner


@torch.no_grad()
def shake(learner):
    """Move the weights, so that agents depend on each other: the initial attention is almost 0."""
    generator = torch.Generator().manual_seed(0)
    for parameter in learner.net.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.5)


@torch.no_grad()
def team_estimates(learner):
    """Return advantages and returns (T, E) of the joint actions, world by world and step by step."""
    r, c = learner.rollout, learner.config
    value = learner._values(learner._inputs(r.obs).flatten(0, 1)).view_as(r.reward)
    following, done = r.next_obs(), r.terminated | r.truncated
    advantage = torch.zeros(r.length, r.reward.shape[1])
    returns = torch.zeros_like(advantage)
    for world in range(advantage.shape[1]):
        accumulated = 0.0
        for t in reversed(range(r.length)):
            alive = r.valid[t, world]
            if not alive.any():
                accumulated = 0.0
                continue
            goes_on = alive & ~done[t, world]
            ends = not goes_on.any()
            survivors = alive & ~r.terminated[t, world]
            obs = torch.where(survivors.unsqueeze(-1), following[t, world], 0.0)
            next_value = (
                float(learner._values(learner._inputs(obs)[None])[0][survivors].mean()) if survivors.any() else 0.0
            )
            now, reward = float(value[t, world][alive].mean()), float(r.reward[t, world][alive].sum()) / len(alive)
            accumulated = reward + c.gamma * next_value - now + c.gamma * c.gae_lambda * accumulated * (not ends)
            advantage[t, world], returns[t, world] = accumulated, accumulated + now
    return advantage, returns


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_all_agents_have_the_advantage_of_the_joint_action(fixed_shapes, tmp_path):
    """Walkers die before their world ends, and are cut."""
    learner = collected(Corridor(6, limit=7), tmp_path, normalize_advantage=False)
    shake(learner)
    r = learner.rollout
    one_left = r.valid.any(-1) & ~r.valid.all(-1)
    assert bool(one_left.any())
    assert bool((r.truncated & one_left.unsqueeze(-1)).any())
    assert bool(r.terminated.all(-1).any() | (r.terminated.any(-1) & one_left).any())
    advantage, returns = team_estimates(learner)
    batch, decides = learner.batch(fixed_shapes=fixed_shapes), r.valid.any(-1).flatten()
    keep = torch.ones_like(decides) if fixed_shapes else decides
    assert torch.equal(batch["valid"], r.valid.flatten(0, 1)[keep])
    for name, expected in (("advantage", advantage), ("returns", returns)):
        rows = expected.flatten()[keep].unsqueeze(-1).expand(-1, 2)
        torch.testing.assert_close(batch[name][batch["valid"]], rows[batch["valid"]], rtol=1e-4, atol=1e-5)
    rows = torch.arange(len(keep))[keep] * 2
    assert torch.equal(batch["rows"], rows)


def test_dead_agents_observe_zeros_at_once(tmp_path):
    """The core shows them their last observation for one more step."""
    learner = collected(Corridor(6, limit=7), tmp_path)
    r = learner.rollout
    just_died = r.terminated[:-1] & ~r.valid[1:]
    assert bool(just_died.any())
    assert not r.obs[~r.valid].any()
    assert bool(r.obs[r.valid].any(-1).all())


@pytest.mark.parametrize("kind", ["discrete", "masked", "multi_discrete", "continuous"])
def test_first_ratios_are_one(kind, tmp_path):
    """Rollouts decode agent by agent with a cache, the loss all at once."""
    core = Identity(6, "discrete", masked=True) if kind == "masked" else Identity(6, kind)
    learner = collected(core, tmp_path)
    part = minibatch(learner.batch(), None, None)
    params, _ = learner._outputs(part)
    log_prob = learner.head.evaluate(params, part["action"], part.get("mask"))[0]
    torch.testing.assert_close(log_prob, part["log_prob"], rtol=1e-4, atol=1e-5)
    assert float(part["log_prob"].std()) > 1e-3
    assert ("mask" in part) == (kind == "masked")


def test_loss_is_the_clipped_one_of_each_agent(tmp_path):
    """Dead agents do not count."""
    learner = collected(Corridor(6, limit=7), tmp_path)
    batch, c = learner.batch(), learner.config
    shake(learner)
    loss, metrics = learner._loss(batch, None, None)
    net, x = learner.transformer, batch["obs"]
    encoded = net.encode(x)
    code = torch.nn.functional.one_hot(batch["action"], 2).float()
    chance = Categorical(logits=net.decode(x, encoded, code))
    ratio = (chance.log_prob(batch["action"]) - batch["log_prob"]).exp()
    gain = torch.minimum(ratio * batch["advantage"], ratio.clamp(0.8, 1.2) * batch["advantage"])
    error = (learner.critic(encoded).squeeze(-1) - batch["returns"]).square()
    valid, count = batch["valid"], float(batch["valid"].sum())
    assert count < valid.numel()
    policy_loss, value_loss, entropy = (
        float(values[valid].sum().detach()) / count for values in (-gain, 0.5 * error, chance.entropy())
    )
    coefficient = float(learner.entropy_coef)
    expected = policy_loss + c.value_coef * value_loss - coefficient * entropy
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["clip_fraction"]) > 0.01


def test_policy_of_several_groups_acts_as_one_team_in_evaluation(tmp_path):
    core = Identity(6)
    learner = collected(core, tmp_path)
    policy = learner.policy()
    assert policy.ids == 3
    core.reset()
    runner, rows = PolicyRunner(core, {"even": policy, "odd": policy}), [0, 2, 1]
    policy.seed(5)
    expected = policy.act(core.obs[:, rows])
    policy.seed(5)
    assert torch.equal(runner.act(core.obs, core.info)[:, rows], expected)
    assert evaluate_policies(core, {"even": policy, "odd": policy}, seed=1).episodes == 6


def test_evaluation_hides_agents_that_have_just_died(tmp_path, monkeypatch):
    core = Corridor(6, limit=7)
    policy = collected(core, tmp_path).policy()
    seen, act = [], policy.act
    monkeypatch.setattr(
        policy, "act", lambda obs, *more: (seen.append((obs.clone(), core.alive.clone())), act(obs, *more))[1]
    )
    evaluate_policies(core, {"walker": policy}, seed=1)
    assert any(not bool(alive.all()) for _, alive in seen)
    for obs, alive in seen:
        assert torch.equal(obs.any(-1), alive)


@pytest.mark.parametrize(
    ("env_id", "changes", "line"),
    [
        ("TicTacToe-v0", {}, "mat: expected agents that all act at every step, got turns or decide_every; use ppo"),
        ("SimpleSpread-v0", {"engine": "kernel"}, "network: expected 'mlp', got 'transformer'; use engine = 'auto'"),
        ("SimpleSpread-v0", {"network": "gru"}, "learner.network: expected 'transformer', got 'gru'"),
        ("SimpleSpread-v0", {"critic_input": "state"}, "learner.critic_input: expected 'obs', which mat fixes"),
        (
            "SimpleSpread-v0",
            {"num_heads": 3},
            "learner.hidden_sizes: expected equal widths, multiples of num_heads = 3",
        ),
        ("SimpleSpeakerListener-v0", {}, "expected one action space per policy"),
    ],
)
def test_invalid_setups_are_refused_in_one_line(env_id, changes, line, tmp_path):
    with pytest.raises(ConfigError, match=line) as caught:
        trainer_for(env_id, tmp_path, **changes)
    assert "\n" not in str(caught.value)


def test_other_algorithms_refuse_the_network():
    with pytest.raises(ConfigError, match=r"learner.network: expected one of 'mlp', .*, got 'transformer'"):
        PPOConfig(network="transformer")


def test_single_agent_learns_from_its_own_advantages(tmp_path):
    """A team of one is PPO with another network."""
    learner = collected("CartPole-v1", tmp_path, normalize_advantage=False)
    advantage, _ = team_estimates(learner)
    torch.testing.assert_close(learner.batch()["advantage"].flatten(), advantage.flatten(), rtol=1e-3, atol=1e-4)
    assert math.isfinite(float(learner.update()["policy_loss"]))
