"""Speed of trainings with a replay whose policies act in kernels, over those in which PyTorch acts.

    python -m benchmarks.training.acting

Two trainings with equal settings take turns with whole iterations: a rollout of eight steps and eight gradient steps.
Prints the milliseconds of both, and their ratio, the median of adjacent pairs. Both use one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.training.ppo import ENDLESS, few_cores
from trainers.algorithms import registry
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

CASES = (
    ("CartPole-v1", "dqn", 64, 16),
    ("CartPole-v1", "dqn", 128, 16),
    ("CartPole-v1", "dqn", 64, 256),
    ("CartPole-v1", "dqn", 64, 4096),
    ("SimpleTag-v0", "iql", 64, 64),
    ("SimpleTag-v0", "iql", 64, 2048),
    ("KuhnPoker-v0", "dqn", 64, 256),
    ("Pendulum-v1", "sac", 64, 16),
    ("Pendulum-v1", "sac", 64, 2048),
    ("Pendulum-v1", "td3", 128, 16),
)
"""Environment, algorithm, width of two hidden layers, number of worlds."""
ENGINES = ("torch", "kernel")
LENGTH = 8
"""Steps of a rollout, and gradient steps after it."""


@dataclass(frozen=True)
class MeasuredActing:
    """Median milliseconds of both engines, PyTorch first, and the median ratio of adjacent pairs."""

    rollout: tuple[float, float]
    """Milliseconds of a rollout."""
    rollout_ratio: float
    """Time of PyTorch's rollout over the kernels' time."""
    iteration_ratio: float
    """The same for a rollout with its gradient steps, which PyTorch computes in both."""


class ReplayTraining:
    """An endless training of a learner with a replay."""

    def __init__(self, env_id: str, algorithm: str, width: int, num_envs: int, engine: str) -> None:
        """Create environments and learners."""
        settings = {"hidden_sizes": (width, width), "rollout_length": LENGTH, "updates": LENGTH, "learning_starts": 0}
        learner = registry.find(algorithm).settings(**settings, replay_size=max(20_000, 4 * LENGTH * num_envs))
        config = TrainConfig(
            env_id, num_envs=num_envs, total_steps=ENDLESS, algorithm=algorithm, engine=engine, learner=learner
        )
        core = make_train_core(config, num_envs, seed=0)
        self.learners = LearnerGroup(config, core)
        self.collector, self.iterations = Collector(config, core, self.learners), 0

    def iterate(self) -> tuple[float, float]:
        """Return the seconds of a rollout and of the whole iteration."""
        begin = time.perf_counter()
        self.collector.collect()
        rollout = time.perf_counter() - begin
        self.iterations += 1
        self.learners.update(self.iterations, str)
        return rollout, time.perf_counter() - begin


def measure(env_id: str, algorithm: str, width: int, num_envs: int, repeats: int) -> MeasuredActing:
    """Let both engines take turns with iterations."""
    with few_cores(1):
        trainings = [ReplayTraining(env_id, algorithm, width, num_envs, engine) for engine in ENGINES]
        for training in trainings:  # the first iteration compiles
            training.iterate()
        pairs = []
        for number in range(repeats):
            order = trainings if number % 2 else trainings[::-1]
            seconds = {id(training): training.iterate() for training in order}
            pairs.append([seconds[id(training)] for training in trainings])
    rollout = [1e3 * statistics.median(pair[index][0] for pair in pairs) for index in range(2)]
    ratios = [statistics.median(pair[0][part] / pair[1][part] for pair in pairs) for part in range(2)]
    return MeasuredActing((rollout[0], rollout[1]), *ratios)


def main(argv: Sequence[str]) -> int:
    """Measure all cases and print them; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=51, help="pairs of iterations per case (default: 51)")
    args = parser.parse_args(argv)
    print("| training | torch, kernel [ms per rollout] | rollout | iteration |\n| --- | --- | --- | --- |")
    for env_id, algorithm, width, num_envs in CASES:
        result = measure(env_id, algorithm, width, num_envs, args.repeats)
        times = ", ".join(f"{milliseconds:.2f}" for milliseconds in result.rollout)
        print(
            f"| {algorithm} on {env_id}, {num_envs:,} worlds, {width} {width} | {times} | {result.rollout_ratio:.2f} "
            f"| {result.iteration_ratio:.2f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
