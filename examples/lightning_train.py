"""Learners of trainers under Lightning on SimpleTag, half a minute on a CPU; DEVICES=2 for two processes."""

import os
from pathlib import Path

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from trainers import PPOConfig, TrainConfig
from trainers.integrations.lightning import LearnerModule


def train(out=Path("out/lightning"), total_steps=150_000, devices=1, resume=None):
    config = TrainConfig(
        "SimpleTag-v0",
        num_envs=64,  # per process
        total_steps=total_steps,
        checkpoint_interval=10,  # rollouts in an epoch
        num_threads=1,
        learner=PPOConfig(rollout_length=25, reward_scale=0.1, gamma=0.95, learning_rate=3e-3, max_grad_norm=0.5),
    )
    best = ModelCheckpoint(out, "best", monitor="adversary/episode_return_mean", mode="max", save_last=True)
    module = LearnerModule(config)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        max_epochs=-1,  # until total_steps
        callbacks=[best],
        logger=CSVLogger(out),
        log_every_n_steps=1,
    )
    trainer.fit(module, ckpt_path=resume)
    return module.policies(), trainer.callback_metrics, best


if __name__ == "__main__":
    policies, metrics, best = train(devices=int(os.environ.get("DEVICES", "1")))
    print(f"return of a chaser: {metrics['adversary/episode_return_mean']:.1f}, best in {best.best_model_path}")
