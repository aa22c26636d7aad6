"""SAC: soft targets by hand, continuous and discrete, and the temperature."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from trainers.algorithms.off_policy.sac import SAC, SACConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition


def learner_of(space: spaces.Space, **settings) -> SAC:
    settings = {"hidden_sizes": (8,), "replay_size": 64, "batch_size": 16, "rollout_length": 2, **settings}
    return SAC(SACConfig(**settings), LearnerSpec(1, space, 2, 1, 80))


BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values).view(-1, 1)


def constant(*values: float) -> nn.Module:
    """Critic with a constant value."""
    net = nn.Linear(1, len(values))
    nn.init.zeros_(net.weight)
    net.bias.data = torch.tensor(values)
    return net


def steps() -> dict[str, torch.Tensor]:
    """Return three steps of one agent: the second ends the episode, the third is invalid."""
    situation = torch.zeros(3, 1, 1)
    return {
        "obs": situation, "situation": situation, "next_situation": situation,
        "reward": rows(1.0, 3.0, 7.0), "terminated": rows(0, 1, 0).bool(), "valid": rows(1, 1, 0).bool(),
    }  # fmt: skip


def test_continuous_target_matches_hand_computation():
    learner = learner_of(BOX, gamma=0.5, temperature=0.1)
    learner.target_critics = nn.ModuleList([line(4.0), line(2.0)])
    for critic in learner.critics:
        nn.init.zeros_(critic.module.body[-1].weight)
    batch = {**steps(), "code": torch.zeros(3, 1, 1), "next_code": torch.zeros(3, 1, 1)}
    batch["next_entropy"] = rows(3.0, 3.0, 3.0)
    # V(s') = min(4, 2) + 0.1 * 3 = 2.3; targets 1 + 0.5 * 2.3 = 2.15 and 3; both critics return 0
    assert learner._critic_step(batch)["critic_loss"].item() == pytest.approx(2 * (2.15**2 + 3**2) / 2, rel=1e-5)


def line(bias: float) -> nn.Module:
    net = nn.Linear(2, 1)
    nn.init.zeros_(net.weight)
    nn.init.constant_(net.bias, bias)
    return net


def test_discrete_target_is_an_expectation_over_legal_actions():
    learner = learner_of(spaces.Discrete(3), gamma=0.5, temperature=0.1)
    learner.target_critics = nn.ModuleList([constant(4.0, 2.0, 1e6), constant(3.0, 5.0, 1e6)])  # minimum 3, 2
    learner.critics = nn.ModuleList([constant(0.0, 0.5, 9.0), constant(0.0, 1.0, 9.0)])
    nn.init.zeros_(learner.actor.module.body[-1].weight)
    learner.actor.module.body[-1].bias.data = torch.tensor([math.log(3.0), 0.0, 50.0])
    batch = {**steps(), "code": torch.tensor([0.0, 1.0, 0.0]).expand(3, 1, 3)}
    batch |= learner._next(torch.zeros(3, 1, 1), learner.generator, torch.tensor([True, True, False]).expand(3, 1, 3))
    # the policy is (3/4, 1/4) on legal actions
    value = 0.75 * (3 - 0.1 * math.log(0.75)) + 0.25 * (2 - 0.1 * math.log(0.25))
    first, second = 1 + 0.5 * value, 3.0
    loss = ((0.5 - first) ** 2 + (1 - first) ** 2 + (0.5 - second) ** 2 + (1 - second) ** 2) / 2
    assert learner._critic_step(batch)["critic_loss"].item() == pytest.approx(loss, rel=1e-5)


def test_discrete_policy_loss_matches_hand_computation():
    learner = learner_of(spaces.Discrete(3), temperature=0.1, learn_temperature=False)
    learner.critics = nn.ModuleList([constant(4.0, 2.0, 1e6), constant(3.0, 5.0, 1e6)])
    nn.init.zeros_(learner.actor.module.body[-1].weight)
    learner.actor.module.body[-1].bias.data = torch.tensor([math.log(3.0), 0.0, 50.0])
    metrics = learner._actor_step({**steps(), "mask": torch.tensor([True, True, False]).expand(3, 1, 3)})
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert metrics["entropy"].item() == pytest.approx(entropy)
    assert metrics["actor_loss"].item() == pytest.approx(-(0.75 * 3 + 0.25 * 2 + 0.1 * entropy), rel=1e-5)
    assert metrics["temperature"].item() == pytest.approx(0.1)
    assert learner.log_temperature.item() == pytest.approx(math.log(0.1))


def test_continuous_policy_loss_matches_hand_computation():
    learner = learner_of(BOX, temperature=0.1)
    learner.critics = nn.ModuleList([line(4.0), line(2.0)])
    state = learner.generator.get_state()
    batch = steps()
    log_prob = learner.head.relaxed(learner.actor(batch["obs"]), learner.generator)[1][:2].mean().item()
    learner.generator.set_state(state)
    assert learner._actor_step(batch)["actor_loss"].item() == pytest.approx(-(2.0 - 0.1 * log_prob), rel=1e-5)


@pytest.mark.parametrize(("target", "rises"), [(-20.0, False), (20.0, True)])
def test_temperature_follows_the_missing_entropy(target, rises):
    learner = learner_of(BOX, temperature=0.1, target_entropy=target)
    learner._actor_step(steps())
    assert (learner.log_temperature.item() > math.log(0.1)) == rises


def test_default_target_entropies():
    head_width = spaces.Box(-1.0, 1.0, (3,), np.float32)
    assert learner_of(head_width)._target_entropy(torch.zeros(1, 6), None) == -3.0
    discrete = learner_of(spaces.Discrete(4), target_share=0.5)
    mask = torch.tensor([[True, True, True, True], [True, False, True, False], [False, True, False, False]])
    aimed = discrete._target_entropy(torch.zeros(3, 4), mask)
    assert isinstance(aimed, torch.Tensor)
    assert aimed.tolist() == pytest.approx([0.5 * math.log(4), 0.5 * math.log(2), 0.0])
    assert learner_of(BOX, target_entropy=-7.0)._target_entropy(torch.zeros(1, 2), None) == -7.0


PAIR = spaces.MultiDiscrete([2, 3])


def test_multi_discrete_entropies_are_exact_sums_over_components():
    learner = learner_of(PAIR, temperature=0.1, gamma=0.5, learn_temperature=False, target_share=0.5)
    nn.init.zeros_(learner.actor.module.body[-1].weight)
    learner.actor.module.body[-1].bias.data = torch.tensor([math.log(3.0), 0.0, 50.0, 0.0, 0.0])
    mask = torch.tensor([True, True, False, True, True]).expand(3, 1, 5)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) + math.log(2)  # (3/4, 1/4) and (0, 1/2, 1/2)

    class Says(nn.Module):
        """Critic with value 2 where the first component is 0, and 4 for illegal actions."""

        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            return obs[..., 1:] @ torch.tensor([[2.0], [0.0], [4.0], [0.0], [0.0]])

    learner.critics = learner.target_critics = nn.ModuleList([Says(), Says()])
    after = learner._next(torch.zeros(3, 1, 1), learner.generator, mask)
    assert after["next_entropy"].flatten().tolist() == pytest.approx([entropy] * 3)
    assert after["next_code"][..., 2].round().sum() == 0
    aimed = learner._target_entropy(torch.zeros(3, 1, 5), mask)
    assert isinstance(aimed, torch.Tensor)
    assert aimed.flatten().tolist() == pytest.approx([0.5 * 2 * math.log(2)] * 3)
    state = learner.generator.get_state()
    batch = {**steps(), "mask": mask}
    value = 2 * learner.head.relaxed(learner.actor(batch["obs"]), learner.generator, mask)[0][:2, 0, 0].mean().item()
    learner.generator.set_state(state)
    metrics = learner._actor_step(batch)
    assert metrics["entropy"].item() == pytest.approx(entropy)
    assert metrics["actor_loss"].item() == pytest.approx(-(value + 0.1 * entropy), rel=1e-5)


def test_multi_discrete_entropy_has_a_gradient():
    """A sampled log-probability has no gradient in expectation."""
    learner = learner_of(PAIR)
    params = torch.tensor([[1.0, 0.0, 0.0, 2.0, 0.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(learner._draw(params, learner.generator, None)[1].sum(), params)
    assert slope[0, 0] < 0 < slope[0, 1]
    assert slope[0, 3] < 0 < slope[0, 2]


def test_interacting_action_components_are_learned():
    """Reward 1 if the second choice is the first plus one, modulo 3, which no sum over components represents."""
    learner = SAC(
        SACConfig(hidden_sizes=(32,), replay_size=4096, batch_size=64, rollout_length=8, learning_starts=64, updates=8,
                  learning_rate=0.01, tau=0.1, temperature=0.05, target_share=0.1),
        LearnerSpec(1, spaces.MultiDiscrete([3, 3]), 8, 1, 4096),
    )  # fmt: skip
    zero, never = torch.zeros(8, 1, 1), torch.zeros(8, 1, dtype=torch.bool)
    for _ in range(20):
        for _ in range(8):
            action = learner.act(zero)
            right = (action[..., 1] == (action[..., 0] + 1) % 3).float()
            learner.observe(Transition(right, ~never, never, ~never, zero, zero))
        learner.update()
    first, second = learner.policy().act(zero[:1], greedy=True)[0, 0].tolist()
    assert second == (first + 1) % 3
