"""Small trainings whose results on the pretended GPU are compared with those on the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

DEVICES = ("cuda:0", "cuda:1")
SECOND = DEVICES[1:]
"""The slow tests play on this one only. It is not the default GPU, so that a use of that would show."""
ON_POLICY = {"rollout_length": 8, "hidden_sizes": (8,)}
FEW_STEPS = {"num_epochs": 2, "num_minibatches": 2}
"""Settings of PPO for the quick tests: a quarter of the gradient steps, which take most of the time."""
REPLAY = {"rollout_length": 4, "hidden_sizes": (8,), "learning_starts": 32, "batch_size": 16, "replay_size": 256}
ENV_SETTINGS: dict[str, dict[str, Any]] = {
    "TagContinuous-v0": {"num_taggers": 2, "num_runners": 4, "num_other_agents_observed": 3, "episode_length": 12},
    "SimpleTag-v0": {"max_episode_steps": 6},
    "SimpleSpread-v0": {"max_episode_steps": 6},
    "CartPole-v1": {"max_episode_steps": 9},
    "Pendulum-v1": {"max_episode_steps": 6},
}
"""Settings with which episodes end in the first rollouts."""


class Run(NamedTuple):
    """Result of a training."""

    state: dict[str, Any]
    """State of environments, learners and statistics, on the CPU."""
    row: dict[str, float]
    """Last row of metrics, without times."""


def configuration(env_id: str, algorithm: str, device: str, learner: Mapping[str, Any], **settings: Any) -> TrainConfig:
    """Return the configuration of a small training that learns within four iterations."""
    on_policy = algorithm_specs.find(algorithm).module.startswith("on_policy")
    if algorithm in ("a2c", "impala") and settings.get("cuda_graph", True):
        learner = {"optimizer": "adam", **learner}  # the form of RMSprop that can be captured rounds differently
    defaults = {"num_envs": 8, "total_steps": 10**6, "seed": 3, "num_threads": 1, "eval_episodes": 4, "engine": "torch"}
    settings = {**defaults, **settings}
    return TrainConfig(
        env_id,
        ENV_SETTINGS.get(env_id, {}),
        algorithm=algorithm,
        learner=algorithm_specs.find(algorithm).settings(**{**(ON_POLICY if on_policy else REPLAY), **learner}),
        device=device,
        checkpoint_interval=2,
        **settings,
    )


def train(config: TrainConfig, run_dir: Path, iterations: int = 4) -> Run:
    """Train for some iterations, with an evaluation and a checkpoint after every second one."""
    trainer = Trainer(config, run_dir)
    for _ in range(iterations):
        trainer.iterate()
    trainer.log.close()
    row = {
        name: value for name, value in trainer.row.items() if not name.startswith(("time/", "seconds", "env_steps_"))
    }
    return Run(on_host(trainer.state_dict()), row)


def on_host(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a state on the CPU."""
    return {name: value.cpu().clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def assert_equal_runs(expected: Run, actual: Run) -> None:
    """Compare states and metrics bit for bit."""
    assert_equal_states(expected.state, actual.state)
    rows = [{name: number(value) for name, value in run.row.items()} for run in (expected, actual)]
    assert rows[0] == rows[1], f"metrics differ: {rows}"


def assert_equal_states(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> None:
    """Compare tensors bit for bit and other values exactly."""
    assert expected.keys() == actual.keys()
    different = [name for name, value in expected.items() if not same(value, actual[name])]
    assert not different, f"{len(different)} entries of the state differ: {different[:5]}"


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; tensors bit for bit."""
    if not isinstance(left, Tensor):
        return left == right
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(bits(left), bits(right))


def bits(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor."""
    return tensor.contiguous().flatten().view(torch.uint8)


def number(value: float) -> float | str:
    """Return a number that equals itself, also if it is NaN."""
    return "NaN" if math.isnan(value) else value
