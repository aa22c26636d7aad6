"""Memory that critics of joint actions take on WarpDrive's Tag, 5 taggers and 100 runners.

    python -m benchmarks.joint_memory [ALGORITHM] [DEVICE]

Prints the bytes of replays and the peak while the first rollout is learned from, above what was taken before: of the
process on a CPU, of PyTorch's allocator on a GPU.
"""

from __future__ import annotations

import resource
import sys
from typing import Any

import torch

from trainers import algorithms
from trainers.collector import Collector
from trainers.config import TrainConfig, make_core
from trainers.replay import Replay

SETTINGS = {"batch_size": 256, "updates": 2, "replay_size": 2_000, "learning_starts": 0, "rollout_length": 4}


def taken(device: str) -> int:
    """Bytes at the peak so far."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(algorithm: str = "maddpg", device: str = "cpu") -> None:
    """Plays one rollout and learns from it."""
    torch.set_num_threads(1)
    learner = algorithms.find(algorithm).settings(**SETTINGS)
    config = TrainConfig("TagContinuous-v0", algorithm=algorithm, num_envs=8, device=device, learner=learner)
    collector = Collector(config, make_core(config, config.num_envs, config.seed))
    learners: list[Any] = [seat.learner for seat in collector.seats.values()]
    replays: set[Replay] = {each.experience.replay for each in learners}
    ring = sum(buffer.nbytes for replay in replays for buffer in replay.buffers.values())
    collector.collect()
    before = taken(device)
    collector.update(1, lambda: "")
    print(f"{algorithm} on {device}: replays {ring / 1e6:,.0f} MB, learning {(taken(device) - before) / 1e6:,.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
