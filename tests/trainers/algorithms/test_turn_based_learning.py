"""Turn-based games: PPO learns to win Nim, from ``tests/turns.py``, in self-play."""

import pytest
import torch
import turns
from chance import passes_with_one
from toy import announce

from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer


@pytest.mark.parametrize(
    ("max_steps", "engine"),
    [
        (0, "torch"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(0, "kernel"), (3, "torch"), (3, "kernel")]),
    ],
)
def test_ppo_finds_the_winning_moves_of_nim(max_steps, engine, tmp_path, monkeypatch):
    """One heap of up to 7 stones, of which a move takes 1 to 3: leave a multiple of 4, also in truncated games.

    With either engine more than half of the seeds find all moves after as few steps.
    """
    announce(monkeypatch, "Nim-v0", turns)
    ppo = PPOConfig(
        rollout_length=16, num_epochs=4, learning_rate=0.01, gamma=0.5, gae_lambda=0.5,
        entropy_coef=0.1, entropy_coef_final=0.01, activation="relu", hidden_sizes=(64, 64),
    )  # fmt: skip
    env = {"heaps": 1, "largest": 7, "max_steps": max_steps}
    settings = {"num_envs": 64, "total_steps": 30 * 1024, "num_threads": 1, "eval_episodes": 0}

    def check(seed):
        config = TrainConfig("Nim-v0", env, learner=ppo, engine=engine, seed=seed, **settings)
        trainer = Trainer(config, tmp_path / f"{seed}")
        trainer.run()
        learner = trainer.assignments["player"].learner
        stones = torch.tensor([1, 2, 3, 5, 6, 7])
        obs = torch.stack([stones / 7, torch.ones(6)], 1)
        mask = stones[:, None] > torch.arange(turns.MOST)
        assert (learner.policy().act(obs, mask, greedy=True) + 1).tolist() == (stones % 4).tolist()
        states = torch.stack([torch.arange(1, 8) / 7, torch.ones(7)], 1)
        value = learner.critic(learner.net.normalizer(states)).flatten()
        expected = torch.tensor([1.0, 1.0, 1.0, -1.0, 0.5, 0.5, 0.5])  # with 5 to 7 left the win is one decision later
        torch.testing.assert_close(value, expected, atol=0.2, rtol=0.0)

    passes_with_one(range(6, 14), check)


def test_agents_not_to_move_are_not_valued(tmp_path, monkeypatch):
    """The last entry of an observation is 1 if the agent is to move; the critic returns NaN if it is not."""
    announce(monkeypatch, "Nim-v0", turns)
    ppo = PPOConfig(rollout_length=7, normalize_obs=False, normalize_advantage=False, hidden_sizes=(8,))
    config = TrainConfig("Nim-v0", {"max_steps": 3}, num_envs=16, eval_episodes=0, learner=ppo)
    trainer = Trainer(config, tmp_path)
    trainer.collector.collect()
    trainer.log.close()
    learner = trainer.assignments["player"].learner
    learner.net.critic.forward = lambda obs: torch.where(obs[..., -1:] == 1, 2.0, torch.nan)
    batch = learner.batch()
    assert learner.rollout.truncated.any()
    assert not learner.rollout.to_move[-1].all()
    assert len(batch["returns"]) > 16
    assert batch["returns"].isfinite().all()
