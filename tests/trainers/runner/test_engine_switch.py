"""Rollouts in kernels and rollouts step by step follow each other in the same buffers."""

import pytest
import torch

from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.buffers.rollout_buffer import BatchedRolloutBuffer, RolloutOverflowError
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

STEPS = 6


def make_trainer(folder, limit, capacity, **settings):
    """Return a training with a learner per agent; all act in one batch."""
    ppo = PPOConfig(rollout_length=STEPS, hidden_sizes=(8, 8), num_epochs=1, truncation_capacity=capacity)
    config = TrainConfig(
        "SimpleSpread-v0",
        {"max_episode_steps": limit},
        num_envs=4,
        learner=ppo,
        sharing="agent",
        eval_episodes=0,
        engine="kernel",
        **settings,
    )
    trainer = Trainer(config, folder)
    trainer.log.close()
    return trainer


def final_observations(trainer):
    """Collect a rollout step by step, and return the truncated steps (T, E, A) and their last observations."""
    core, step, records = trainer.core, trainer.core.step, []

    def recorded(action):
        result = step(action)
        records.append((core.truncated.clone(), core.final_obs.clone()))
        return result

    core.step = recorded
    kernels, trainer.collector.kernels = trainer.collector.kernels, None
    trainer.collector.collect()
    core.step, trainer.collector.kernels = step, kernels
    return [torch.stack(tensors) for tensors in zip(*records, strict=True)]


@pytest.mark.parametrize("capacity", [0.5, 1.5, None])
def test_final_observations_are_kept_where_engines_change(capacity, tmp_path):
    # every agent is cut once in six of seven rollouts
    trainer = make_trainer(tmp_path, limit=STEPS + 1, capacity=capacity)
    learners = [assignment.learner for assignment in trainer.assignments.values()]
    assert len(learners) == 3
    assert isinstance(trainer.collector.groups[0].actor.rollout, BatchedRolloutBuffer)
    count = 0
    for _ in range(3):
        trainer.collector.collect()
        assert trainer.collector._uses_kernels
        trainer.learners.update(1, str)
        truncated, final = final_observations(trainer)
        count += int(truncated.sum())
        for agent, learner in enumerate(learners):
            cut = truncated[:, :, agent]
            assert torch.equal(learner.rollout.truncated[:, :, 0], cut)
            assert torch.equal(learner.rollout.next_obs()[:, :, 0][cut], final[:, :, agent][cut])
        trainer.learners.update(1, str)
    assert count >= 24


def test_overflow_step_by_step_after_a_rollout_in_kernels_is_reported(tmp_path):
    trainer = make_trainer(tmp_path, limit=STEPS - 1, capacity=0.5)
    trainer.collector.collect()
    trainer.learners.update(1, str)
    trainer.core.reset(elapsed_steps=torch.full((4,), STEPS - 2))  # cut at the first and at the last step
    assert int(final_observations(trainer)[0].sum()) == 4 * 3 * 2
    with pytest.raises(RolloutOverflowError, match="8 truncated agents, its buffer of final observations holds 4"):
        trainer.learners.update(2, str)


def test_unused_rows_of_final_observations_are_not_valued(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, limit=2 * STEPS, capacity=None)
    engines = [assignment.learner.engine for assignment in trainer.assignments.values()]
    valued = []
    for engine in engines:
        value = engine.launches.value
        monkeypatch.setattr(engine.launches, "value", lambda slots, value=value: (valued.append(slots), value(slots)))
    for _ in range(2):
        trainer.collector.collect()
        trainer.learners.update(1, str)
    assert valued == [0, 0, 0, 8, 8, 8]  # four worlds, two rows for the agent
