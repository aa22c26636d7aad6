"""Replay learners store the true last observations of a rollout, and mark steps that have no target."""

import numpy as np
import torch
from gymnasium import spaces

from trainers.algorithms.off_policy.replay_learner import ReplayConfig, ReplayStore
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.models.action_heads import make_head


def test_truncated_steps_keep_their_true_last_observation():
    problem = LearnerSpec(1, spaces.Box(-1.0, 1.0, (1,), np.float32), 2, 1, 100)
    config = ReplayConfig(rollout_length=3, replay_size=100, reward_scale=0.5)
    experience = ReplayStore(config, problem, make_head({"kind": "tanh", "low": [-1.0], "high": [1.0]}))
    zero = torch.zeros(2, 1)
    for t in range(3):
        cut = torch.tensor([[t == 1], [False]])
        over = torch.tensor([[False], [t == 2]])
        experience.rollout.begin_step(torch.full((2, 1, 1), float(t)))
        final = torch.full((2, 1, 1), 50.0).masked_fill(~cut.unsqueeze(-1), torch.nan)
        experience.rollout.end_step(Transition(zero + 4, over, cut, zero == 0, torch.full((2, 1, 1), t + 1.0), final))
    experience.store_rollout()
    buffers = experience.replay.buffers
    assert buffers["next_obs"][:3, :, 0, 0].tolist() == [[1, 1], [50, 2], [3, 0]]
    assert buffers["terminated"][:3, :, 0].tolist() == [[False, False], [False, False], [False, True]]
    assert buffers["reward"][:3].unique().tolist() == [2.0]
    assert bool(buffers["valid"][:3].all())


def test_cut_step_with_unknown_legal_actions_has_no_target():
    problem = LearnerSpec(1, spaces.Discrete(2), 1, 1, 100, has_action_mask=True)
    experience = ReplayStore(ReplayConfig(rollout_length=2), problem, make_head({"kind": "discrete", "sizes": [2]}))
    obs, ones, never = torch.zeros(1, 1, 1), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool)
    masks = torch.tensor([[True, False], [False, True], [True, True]]).view(3, 1, 1, 2)
    for t in range(2):
        experience.rollout.begin_step(obs, masks[t])
        cut = torch.full((1, 1), t == 1)
        experience.rollout.end_step(Transition(ones, never, cut, ~never, obs, obs, next_mask=masks[t + 1]))
    experience.store_rollout()
    buffers = experience.replay.buffers
    assert buffers["valid"][:2].flatten().tolist() == [True, False]
    assert torch.equal(buffers["mask"][:2], masks[:2])
    assert torch.equal(buffers["next_mask"][:2], masks[1:])
