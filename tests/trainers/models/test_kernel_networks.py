"""Frozen policies act inside kernels with their present weights."""

import gymnasium
import pytest
import torch

from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.models.kernel_networks import kernel_policies

CPU = torch.device("cpu")
CHANGES = {
    "loaded in place": lambda actor, state: actor.load_state_dict(state),
    "assigned": lambda actor, state: actor.load_state_dict(state, assign=True),
    "converted": lambda actor, state: actor.to(torch.float64).to(torch.float32).load_state_dict(state),
}


def make_policy(space, seed):
    return PPO(PPOConfig(hidden_sizes=(8,)), LearnerSpec(4, space, 1, 1, 100, seed=seed)).policy()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("space", [gymnasium.spaces.Discrete(3), gymnasium.spaces.Box(-1.0, 1.0, (2,))], ids=str)
def test_weights_are_those_after_a_change(space, change):
    policy, other = (make_policy(space, seed) for seed in (0, 1))
    original, expected = kernel_policies([policy, other], CPU)
    assert not torch.equal(original.weights, expected.weights)
    CHANGES[change](policy.actor, {name: value.clone() for name, value in other.actor.state_dict().items()})
    assert torch.equal(kernel_policies([policy], CPU)[0].weights, expected.weights)


def test_weights_without_a_change_are_packed_once():
    policy = make_policy(gymnasium.spaces.Discrete(3), 0)
    first, repeated = kernel_policies([policy], CPU)[0], kernel_policies([policy], CPU, seed=3)[0]
    assert repeated.weights is first.weights
    assert (first.seed, repeated.seed) == (0, 3)


def test_weights_are_those_after_a_change_of_the_normalizer():
    policy = make_policy(gymnasium.spaces.Discrete(3), 0)
    original = kernel_policies([policy], CPU)[0]
    policy.normalizer.mean.add_(1.0)
    assert not torch.equal(kernel_policies([policy], CPU)[0].weights, original.weights)
