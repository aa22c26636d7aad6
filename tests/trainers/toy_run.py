"""Train on the Corridor in a separate process: `python toy_run.py OUT ITERATIONS [--resume] [--progress]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from toy_core import Corridor

from gpu_envs.utils.progress import ProgressBar
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint


def make_corridor(config: TrainConfig, num_envs: int, seed: int, **settings: Any) -> Corridor:
    return Corridor(num_envs, seed=seed, **config.env, **settings)


def toy_config(iterations: int, **changes: Any) -> TrainConfig:
    ppo = PPOConfig(rollout_length=8, num_epochs=2, num_minibatches=2, learning_rate=0.01, hidden_sizes=(16,))
    settings = {
        "num_envs": 8,
        "checkpoint_interval": 3,
        "eval_episodes": 8,
        "num_threads": 1,
        "learner": ppo,
        **changes,
    }
    return TrainConfig(env_id="Corridor", total_steps=iterations * 64, **settings)


if __name__ == "__main__":
    torch.set_num_threads(1)
    out, iterations = Path(sys.argv[1]), int(sys.argv[2])
    resume = checkpoint.load(out) if "--resume" in sys.argv else None
    progress = ProgressBar(iterations * 64, interval=0.0, file=sys.stderr) if "--progress" in sys.argv else None
    trainer = Trainer(toy_config(iterations), out, resume, make_corridor, progress)
    last = trainer.run()
    print(f"stopped by {trainer.stopped_by} at {trainer.iteration}, saved {last.name}")
    if progress is not None:
        sys.exit(128 + (trainer.stopped_by or 0))
