"""Trains under Lightning in two processes: `python lightning_run.py OUT ALGORITHM [CHECKPOINT]`.

Each process writes what it holds in the end to OUT/rank<r>.pt.
"""

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig
from trainers.integrations.lightning import LearnerModule

LEARNERS = {
    "ppo": {"num_epochs": 2, "num_minibatches": 2, "target_kl": 1e-4, "learning_rate": 0.01},
    "dqn": {"learning_starts": 64, "replay_size": 128, "batch_size": 16, "updates": 2, "prioritized": True},
    "sac": {"learning_starts": 64, "replay_size": 128, "batch_size": 16, "updates": 2},
}


def config(algorithm):
    """Return a configuration; for PPO, agents leave early, so the number of valid rows differs between processes."""
    env_id, env = "SimpleTag-v0", {"max_cycles": 10}
    if algorithm == "ppo":
        env_id = "TagContinuous-v0"
        env = {"num_taggers": 2, "num_runners": 3, "grid_length": 3.0, "episode_length": 10}
    learner = algorithm_specs.find(algorithm).settings(rollout_length=8, hidden_sizes=(16,), **LEARNERS[algorithm])
    settings = {"env": env, "num_envs": 4, "total_steps": 8 * 4 * 2 * 6, "checkpoint_interval": 3, "num_threads": 1}
    return TrainConfig(env_id, algorithm=algorithm, eval_episodes=4, learner=learner, **settings)


class Valid(lightning.Callback):
    """Rows of a policy that it learned from, by rollout."""

    def __init__(self):
        self.rows = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        seat = module.assignments["runner" if "runner" in module.assignments else "agent"]
        self.rows.append(int(seat.learner.rollout.valid.sum()))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    resume = sys.argv[3] if len(sys.argv) > 3 else None
    module, valid = LearnerModule(config(sys.argv[2])), Valid()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        default_root_dir=out,
        logger=False,
        callbacks=[valid, ModelCheckpoint(out, "{epoch}", save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, ckpt_path=resume)
    facts = {"state": module.training_state(), "rows": valid.rows, "gradient_steps": trainer.global_step}
    facts |= {"env_offset": module.collector.core.env_offset, "iteration": module.iteration}
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items() if "time" not in name}
    metrics.pop("env_steps_per_second")
    torch.save({**facts, "metrics": metrics}, out / f"rank{trainer.global_rank}.pt")
