"""Rollouts of PPO with truncated episodes: values of final observations, and the room for them."""

import pytest
import torch
from toy_core import Corridor, Identity

from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.buffers.rollout_buffer import RolloutBuffer, RolloutOverflowError
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer


def test_truncated_final_observations_are_valued_at_their_step():
    # V(obs) = obs and rewards 0, gamma = lambda = 1: the target of every step is the value at its trajectory's end
    config = PPOConfig(rollout_length=4, gamma=1.0, gae_lambda=1.0, normalize_obs=False, normalize_advantage=False)
    learner = PPO(config, LearnerSpec(1, Corridor(1).action_spaces["walker_0"], 2, 1, 100))
    learner.net.critic = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(learner.net.critic.weight)
    for t in range(4):
        learner.act(torch.zeros(2, 1, 1))
        cut = torch.tensor([[t == 1], [t == 2]])
        # world 0 ends at step 1 showing 5, world 1 at step 2 showing 7; rows that are not done show NaN
        final = torch.tensor([5.0, 7.0]).view(2, 1, 1).masked_fill(~cut.unsqueeze(-1), torch.nan)
        zero = torch.zeros(2, 1)
        learner.observe(Transition(zero, zero.bool(), cut, zero == 0, torch.full((2, 1, 1), 3.0), final))
    returns = learner.batch()["returns"].view(4, 2)
    assert returns.tolist() == [[5, 7], [5, 7], [3, 7], [3, 3]]


def test_too_many_truncations_raise_an_error():
    rollout = RolloutBuffer(4, (3, 2), 1, (), torch.int64, capacity=7, device=torch.device("cpu"))
    always, never = torch.ones(3, 2, dtype=torch.bool), torch.zeros(3, 2, dtype=torch.bool)
    zero, obs = torch.zeros(3, 2), torch.zeros(3, 2, 1)
    rollout.end_step(Transition(zero, never, always, always, obs, obs))
    assert rollout.check() == 6
    rollout.end_step(Transition(zero, always, always, always, obs, obs))  # terminated too: needs no final value
    rollout.end_step(Transition(zero, never, always, never, obs, obs))  # invalid
    assert rollout.check() == 6
    rollout.end_step(Transition(zero, never, always, always, obs, obs))
    with pytest.raises(RolloutOverflowError, match=r"12 truncated agents.*holds 7.*truncation_capacity"):
        rollout.check()


@pytest.mark.parametrize(
    ("length", "limit", "capacity", "per_agent"),
    [
        (25, 4, None, 8),  # at most 7 cuts by the limit in 25 steps, and one more
        (25, 25, None, 2), (25, 0, None, 2), (25, 100, None, 2),
        (4, 1, None, 4),  # never more than one per step
        (25, 4, 0.5, 1), (25, 4, 1.5, 2), (4, 4, 9.0, 4),
    ],
)  # fmt: skip
def test_final_obs_capacity_follows_from_the_time_limit(length, limit, capacity, per_agent):
    config = PPOConfig(rollout_length=length, truncation_capacity=capacity)
    learner = PPO(config, LearnerSpec(1, Corridor(1).action_spaces["walker_0"], 6, 2, 100, time_limit=limit))
    assert learner.rollout.capacity == per_agent * 12


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_short_episodes_fit_into_a_rollout(limit, tmp_path):
    core = Identity(4, limit=limit)
    config = TrainConfig("Identity", num_envs=4, learner=PPOConfig(rollout_length=25, num_epochs=1))
    trainer = Trainer(config, tmp_path, None, lambda *_: core)
    for _ in range(3):
        trainer.iterate()
    trainer.log.close()
