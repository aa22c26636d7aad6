"""Actor-critics with hidden states."""

import dataclasses

import pytest
import torch
import turns
from actor_critics import KINDS, SMALL, learner_for, trainer_of
from toy import announce
from toy_core import Corridor, Recall

from gpu_envs.errors import CheckpointError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.policy import Policy


@pytest.mark.parametrize(("body", "lower", "upper"), [("gru", 0.95, 1.0), ("mlp", 0.4, 0.6)])
def test_only_recurrent_policies_solve_recall(body, lower, upper, tmp_path):
    config = PPOConfig(
        rollout_length=6, hidden_sizes=(16,), learning_rate=0.03, num_minibatches=2, num_epochs=2, network=body
    )  # episodes last 4
    trainer = trainer_of(Recall(32), config, tmp_path, total_steps=20 * 6 * 32)
    for _ in range(20):
        trainer.iterate()
    trainer.log.close()
    outcome = evaluate_policies(
        Recall(256, seed=5), {"agent": trainer.assignments["agent"].learner.policy()}, seed=3, greedy=True
    )
    assert lower <= outcome.returns["agent"].mean / 2 <= upper


@pytest.mark.parametrize("kind", ["recurrent", "recurrent mappo"])
def test_first_recurrent_update_has_ratio_one(kind, tmp_path):
    """Episodes span rollouts and end within them: hidden states are stored and reset as in acting."""
    algorithm, config = KINDS[kind]
    config = dataclasses.replace(config, num_epochs=1, num_minibatches=1)
    trainer = trainer_of(Corridor(16, limit=11), config, tmp_path, algorithm)
    learner = trainer.assignments["walker"].learner
    learner.actor.module.out[0].weight.data *= 100  # far from uniform, so that hidden states matter
    for _ in range(4):
        trainer.collector.collect()
        assert not learner.rollout.episode_starts[0].all() or trainer.iteration == 0
        metrics = learner.update()
        assert abs(float(metrics["approx_kl"])) < 1e-5
        assert float(metrics["clip_fraction"]) == 0.0
        assert float(metrics["grad_norm"]) > 0
        trainer.iteration += 1
    trainer.log.close()


@pytest.mark.parametrize("critic", ["obs", "state"])
def test_recurrent_critic_values_match_hand_computation(critic, tmp_path):
    """Two rollouts step by step: hidden states reset at episode starts, and final values use the state before."""
    exact = {"gae_lambda": 0.0, "normalize_advantage": False, "normalize_obs": False, "gamma": 0.5}
    config = PPOConfig(
        rollout_length=8, hidden_sizes=(6,), network="gru", critic_input=critic, learning_rate=1e-9, **exact
    )
    trainer = trainer_of(Corridor(6, limit=5), config, tmp_path)
    learner = trainer.assignments["walker"].learner
    hidden_state = torch.zeros(12, 6)
    starts = torch.ones(6, dtype=torch.bool)
    for _ in range(2):
        trainer.collector.collect()
        r = learner.rollout
        assert r.episode_starts[1:].any()
        assert r.truncated.any()
        assert torch.equal(r.episode_starts[0], starts)

        def critic_input(obs, states):
            if critic == "obs":
                return obs.flatten(0, 1)
            return torch.cat([states.repeat_interleave(2, 0), torch.eye(2).repeat(6, 1)], -1)

        values, after = [], []
        for t in range(9):
            hidden_state = hidden_state.masked_fill(r.episode_starts[t].repeat_interleave(2).unsqueeze(-1), 0.0)
            inputs = critic_input(r.all_obs[t], None if r.state is None else r.state[t])
            out, hidden_state = learner.critic.step(inputs, hidden_state)
            values.append(out.view(6, 2))
            after.append(hidden_state)
        hidden_state = after[7]  # the next rollout starts with the ninth step
        batch = learner.batch()
        valid = batch["valid"].view(6, 2, 8)
        for t in range(8):
            final_obs = r.final_obs[r.final_slot[t]]
            final, _ = learner.critic.step(
                critic_input(final_obs, None if r.final_state is None else r.final_state[t]), after[t]
            )
            follows = torch.where(r.truncated[t], final.view(6, 2), values[t + 1]).masked_fill(r.terminated[t], 0.0)
            expected = r.reward[t] + 0.5 * follows
            actual = batch["returns"].view(6, 2, 8)[..., t]
            assert torch.equal(valid[..., t], r.valid[t])
            torch.testing.assert_close(actual[r.valid[t]], expected[r.valid[t]])
        starts = r.episode_starts[-1].clone()
        learner.update()
    trainer.log.close()


def test_hidden_state_updates_on_turns_of_other_agents(tmp_path, monkeypatch):
    announce(monkeypatch, "Nim-v0", turns)
    config = PPOConfig(**SMALL, network="gru", num_epochs=1, num_minibatches=1, normalize_advantage=False)
    trainer = trainer_of("Nim-v0", config, tmp_path, env={"max_steps": 3})
    learner = trainer.assignments["player"].learner
    for _ in range(3):
        trainer.collector.collect()
        r = learner.rollout
        batch = learner.batch()
        assert batch["valid"].any()
        assert not (batch["valid"] & ~r.to_move[:-1].flatten(1).T).any()
        assert torch.equal(batch["obs"].shape[:2].numel() * torch.ones(()), torch.tensor(float(r.valid.numel())))
        metrics = learner.update()
        assert abs(float(metrics["approx_kl"])) < 1e-5
    trainer.log.close()


def test_hidden_state_of_wrong_shape_is_refused():
    small, large = learner_for("recurrent", Corridor(4)), learner_for("recurrent", Corridor(6))
    message = r"learner state hidden_state: actor: expected shape \(6, 2, 16\), got \(4, 2,"
    with pytest.raises(CheckpointError, match=message):
        large.load_state_dict(small.state_dict())


def test_recurrent_policy_is_restored_from_disk(tmp_path):
    learner = learner_for("recurrent", Corridor(4))
    policy = learner.policy()
    policy.save(tmp_path / "one")
    other = Policy.load(tmp_path / "one")
    obs = torch.randn((4, 2, 7), generator=torch.Generator().manual_seed(0))
    hidden_states = policy.initial_hidden_state(4, 2), other.initial_hidden_state(4, 2)
    for _ in range(3):
        actions = [
            player.act(obs, None, True, hidden_state)
            for player, hidden_state in zip((policy, other), hidden_states, strict=True)
        ]
        assert torch.equal(*actions)
    assert torch.equal(*hidden_states)
    assert hidden_states[0].any()
