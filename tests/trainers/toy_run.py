"""Trains on the Corridor in a process of its own: `python toy_run.py OUT ITERATIONS [--resume]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from toy_core import Corridor

from trainers import checkpoint
from trainers.config import TrainConfig
from trainers.loop import Trainer
from trainers.ppo import PPOConfig


def make_corridor(config: TrainConfig, num_envs: int, seed: int, **settings: Any) -> Corridor:
    return Corridor(num_envs, seed=seed, **config.env, **settings)


def toy_config(iterations: int, **changes: Any) -> TrainConfig:
    ppo = PPOConfig(rollout_length=8, epochs=2, minibatches=2, learning_rate=0.01, hidden=(16,))
    settings = {"num_envs": 8, "checkpoint_every": 3, "eval_episodes": 8, "threads": 1, "learner": ppo, **changes}
    return TrainConfig(env_id="Corridor", total_steps=iterations * 64, **settings)


if __name__ == "__main__":
    torch.set_num_threads(1)
    out, iterations = Path(sys.argv[1]), int(sys.argv[2])
    resume = checkpoint.load(out) if "--resume" in sys.argv else None
    trainer = Trainer(toy_config(iterations), out, resume, make_corridor)
    last = trainer.run()
    print(f"stopped by {trainer.stopped_by} at {trainer.iteration}, saved {last.name}")
