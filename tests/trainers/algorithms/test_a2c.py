"""Advantage actor-critic (A2C): games that it solves, its learning rate and its gradient step."""

import pytest
import torch
from actor_critics import learner_for
from test_ppo import drive, mean_reward
from toy_core import Corridor, Identity

from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.torch_engine import TorchEngine
from trainers.base.transition import Transition


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_a2c_solves_identity(optimizer):
    core = Identity(32, "multi_discrete", limit=4)
    learner = learner_for("a2c", core, learning_rate=0.02, optimizer=optimizer, gamma=0.5)
    initial = mean_reward(core, learner.policy())
    drive(core, learner, 60)
    assert mean_reward(core, learner.policy()) >= 0.99 > initial + 0.05


def test_a2c_solves_corridor_with_agents_that_die_one_by_one():
    core = Corridor(32)
    learner = learner_for("a2c", core)
    drive(core, learner, 60)
    assert learner.policy().act(torch.eye(7)[:6], greedy=True).tolist() == [1] * 6


def test_a2c_learning_rate_falls_linearly():
    core = Corridor(8)
    learner = learner_for("a2c", core, learning_rate=0.01, learning_rate_final=0.002)
    learner.total_steps = 256  # 64 steps each: progress 0, 1/4, ..., 1, 1
    history = drive(core, learner, 6)
    assert [round(m["learning_rate"], 6) for m in history] == [0.01, 0.008, 0.006, 0.004, 0.002, 0.002]
    assert learner.optimizer.param_groups[0]["lr"] == 0.002


@pytest.mark.parametrize(
    "make_engine",
    [
        lambda x: TorchEngine(x.batch, x.optimizer, x.config.max_grad_norm),
        lambda x: KernelEngine(x.config, x.net, x.rollout, x.optimizer, x.objective, threads=1),
    ],
    ids=["torch", "kernel"],
)
def test_a2c_gradient_step_matches_hand_computation(make_engine):
    """One plain gradient step: log-probability times advantage, value error and entropy, each once."""
    core = Corridor(4)
    core.reset()
    plain = {"normalize_obs": False, "gae_lambda": 1.0, "entropy_coef": 0.1, "max_grad_norm": 1e9}
    learner = learner_for("a2c", core, **plain)
    learner.optimizer = torch.optim.SGD(learner.net.parameters(), lr=0.01)
    learner.optimizers = {"sgd": learner.optimizer}
    learner.engine = make_engine(learner)
    for _ in range(8):
        core.step(learner.act(core.obs))
        learner.observe(Transition(core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs))
    batch = learner.batch()
    logits = learner.actor(batch["obs"]).log_softmax(-1)
    chosen = logits.gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
    error = batch["returns"] - learner.critic(batch["obs"]).squeeze(-1)
    loss = -(chosen * batch["advantage"]).mean() + 0.25 * error.square().mean()
    loss = loss + 0.1 * (logits.exp() * logits).sum(-1).mean()
    parameters = list(learner.net.parameters())
    expected = [p.detach() - 0.01 * g for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True)]
    learner.update()
    for parameter, value in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value)
