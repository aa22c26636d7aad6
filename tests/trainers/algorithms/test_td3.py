"""TD3: targets by hand, policy delay and noise."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy.td3 import TD3
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)


def learner_of(name: str = "td3", **settings) -> TD3:
    settings = {"hidden_sizes": (8,), "replay_size": 64, "batch_size": 16, "rollout_length": 2, **settings}
    return TD3(algorithm_specs.find(name).settings(**settings), LearnerSpec(1, BOX, 2, 1, 80))


def line(*weights: float) -> nn.Linear:
    """Critic: weighted sum of observation and action."""
    critic = nn.Linear(2, 1, bias=False)
    critic.weight.data = torch.tensor([weights])
    return critic


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values).view(-1, 1, 1)


def make_batch() -> dict[str, torch.Tensor]:
    """Return three steps of one agent: the second ends the episode, the third is invalid."""
    return {
        "situation": rows(0.0, 0.0, 0.0), "code": rows(0.0, 0.0, 0.0),
        "next_situation": rows(2.0, 5.0, 9.0), "next_code": rows(0.5, 0.5, 0.5),
        "reward": rows(1.0, 3.0, 7.0)[..., 0],
        "terminated": rows(0, 1, 0)[..., 0].bool(), "valid": rows(1, 1, 0)[..., 0].bool(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "critics", "loss"),
    [
        # V(s') = min(2 + 0.5, 2 - 2 * 0.5) = 1, target 1 + 0.5 * 1 = 1.5; the other ended: target 3. Both critics say 0
        ("td3", [(1.0, 1.0), (1.0, -2.0)], 2 * (1.5**2 + 3**2) / 2),
        # one critic: target 1 + 0.5 * 2.5 = 2.25
        ("ddpg", [(1.0, 1.0)], (2.25**2 + 3**2) / 2),
    ],
)
def test_targets_match_hand_computation(name, critics, loss):
    learner = learner_of(name, gamma=0.5)
    assert len(learner.critics) == len(critics)
    learner.target_critics = nn.ModuleList([line(*weights) for weights in critics])
    for critic in learner.critics:
        nn.init.zeros_(critic.module.body[-1].weight)
    assert learner._critic_step(make_batch())["critic_loss"].item() == pytest.approx(loss)


def test_target_actions_have_bounded_noise_inside_the_box():
    obs = torch.zeros(4000, 1, 1)
    learner = learner_of(target_noise=5.0, target_noise_clip=0.3)
    nn.init.constant_(learner.target_actor.module.body[-1].bias, 0.2)
    middle = float(np.tanh(0.2))
    code = learner.target_actions(obs, learner.generator)[0]
    assert code.min().item() == pytest.approx(middle - 0.3)
    assert code.max().item() == pytest.approx(middle + 0.3)
    nn.init.constant_(learner.target_actor.module.body[-1].bias, 4.0)
    assert learner.target_actions(obs, learner.generator)[0].max().item() == 1.0
    quiet = learner_of("ddpg")
    torch.testing.assert_close(
        quiet.target_actions(obs, quiet.generator)[0], quiet.target_actor(torch.zeros(4000, 1, 1)).tanh()
    )


def step(learner: TD3) -> dict[str, torch.Tensor]:
    """Store a rollout of zeros and update."""
    zero, never = torch.zeros(2, 1), torch.zeros(2, 1, dtype=torch.bool)
    for _ in range(2):
        action = learner.act(zero.unsqueeze(-1) + 0.5)
        learner.observe(Transition(action[..., 0], never, never, ~never, zero.unsqueeze(-1), zero.unsqueeze(-1)))
    return learner.update()


def test_policy_and_target_networks_follow_the_delay():
    learner = learner_of(policy_delay=2, updates=1, learning_starts=0, tau=0.5)
    slow = {
        name: tensor.clone() for name, tensor in learner.net.state_dict().items()
        if name.startswith(("actor", "target"))
    }  # fmt: skip
    moved = lambda: [not torch.equal(tensor, learner.net.state_dict()[name]) for name, tensor in slow.items()]  # noqa: E731
    first = step(learner)
    assert not any(moved())
    assert "actor_loss" not in first
    second = step(learner)
    assert {"actor_loss", "actor_grad_norm", "critic_loss", "value", "noise"} <= second.keys()
    assert any(moved())
    expected = slow["target_actor.body.2.bias"].lerp(learner.actor.module.body[2].bias, 0.5)
    torch.testing.assert_close(learner.target_actor.module.body[2].bias, expected)


def test_policy_follows_the_first_critic_only():
    learner = learner_of()
    learner.critics = nn.ModuleList([line(0.0, 1.0), line(0.0, -1.0)])
    initial = learner.actor(torch.zeros(1, 1)).item()
    batch = {**make_batch(), "obs": rows(0.0, 0.0, float("inf"))}
    batch["obs"] = learner.normalizer(batch["obs"])
    assert learner._actor_step(batch)["actor_loss"].item() == pytest.approx(-np.tanh(initial), abs=1e-6)
    assert learner.actor(torch.zeros(1, 1)).item() > initial
    assert all(parameter.requires_grad for parameter in learner.critics.parameters())


def test_exploration_noise_is_linear_in_steps_and_clipped_to_the_box():
    learner = learner_of(learning_starts=0, updates=1, noise=1.0, noise_final=0.0)  # 4 of 80 steps per rollout
    scales = [step(learner)["noise"].item() for _ in range(3)]
    assert scales == pytest.approx([1.0, 0.95, 0.9])
    learner.noise.fill_(0.5)
    nn.init.zeros_(learner.actor.module.body[-1].weight)
    nn.init.zeros_(learner.actor.module.body[-1].bias)
    noisy = torch.cat([(step_act(learner)) for _ in range(2000)]).flatten()
    assert noisy.abs().max().item() == 1.0
    assert noisy.abs().median().item() == pytest.approx(0.5 * 0.6745, rel=0.1)
    learner.noise.fill_(0.0)
    assert step_act(learner).abs().max().item() == 0.0


def step_act(learner: TD3) -> torch.Tensor:
    learner.rollout.t = 0
    return learner.act(torch.zeros(2, 1, 1))
