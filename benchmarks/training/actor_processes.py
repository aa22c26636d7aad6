"""Actors as threads of the learner's process, or as processes of a Ray cluster on this machine.

It is a part of `python -m benchmarks.league.executor_scaling --actors`, which needs the extra `ray`.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from trainers.cluster.connect import connect
from trainers.cluster.ray_actors import ray_actors
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

__all__ = ["PAIRS", "measure"]

PAIRS = 3
"""Number of runs of each kind, in turn."""
ACTORS = 2
"""Number of actors."""
ITERATIONS = {"CartPole-v1": 60, "SimpleSpread-v0": 40}
"""Number of updates of a run by environment; the first `WARM_UP` are not measured."""
WARM_UP = 10
"""Number of updates in which actors start and kernels are compiled."""


def steps_per_second(config: TrainConfig, processes: bool) -> float:
    """Return the environment steps that a training learns from per second.

    Args:
        config: Settings of the training.
        processes: Whether actors are processes.
    """
    with tempfile.TemporaryDirectory() as folder:
        times: list[float] = []
        Trainer(
            config,
            Path(folder) / "run",
            progress=lambda done, text: times.append(time.perf_counter()),
            actors=ray_actors() if processes else None,
        ).run()
    measured = times[WARM_UP:]
    return config.rollout_steps * (len(measured) - 1) / (measured[-1] - measured[0])


def measure() -> dict[str, Any]:
    """Measure both kinds of actors in turn, and return the medians by environment."""
    ray = connect("benchmarks.training.actor_processes", "local", num_cpus=ACTORS)
    rows = []
    try:
        for env_id, iterations in ITERATIONS.items():
            config = preset(env_id, "cpu", "appo")
            config = dataclasses.replace(
                config,
                num_actors=ACTORS,
                total_steps=iterations * config.rollout_steps,
                until_return=None,
                eval_episodes=0,
                patience=0,
            )
            pairs = [[steps_per_second(config, processes) for processes in (False, True)] for _ in range(PAIRS)]
            threads, processes = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
            ratio = statistics.median(threaded / other for threaded, other in pairs)
            rows.append({"env_id": env_id, "threads": threads, "processes": processes, "ratio": ratio})
    finally:
        ray.shutdown()
    return {"actors": ACTORS, "pairs": PAIRS, "rows": rows}
