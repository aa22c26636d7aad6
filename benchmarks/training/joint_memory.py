"""Memory of centralized critics on WarpDrive's Tag with 5 taggers and 100 runners.

    python -m benchmarks.training.joint_memory [ALGORITHM] [DEVICE]

Prints the bytes of replays and the peak while the first rollout is learned from, above what was taken before: of the
process on a CPU, of PyTorch's allocator on a GPU.
"""

from __future__ import annotations

import resource
import sys
from typing import Any

import torch

from trainers.algorithms import registry
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

SETTINGS = {"batch_size": 256, "updates": 2, "replay_size": 2_000, "learning_starts": 0, "rollout_length": 4}


def peak_memory(device: str) -> int:
    """Return the peak memory [bytes]."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(algorithm: str = "maddpg", device: str = "cpu") -> None:
    """Run one rollout and its update."""
    torch.set_num_threads(1)
    learner = registry.find(algorithm).settings(**SETTINGS)
    config = TrainConfig("TagContinuous-v0", algorithm=algorithm, num_envs=8, device=device, learner=learner)
    core = make_train_core(config, config.num_envs, config.seed)
    group = LearnerGroup(config, core)
    collector = Collector(config, core, group)
    learners: list[Any] = [assignment.learner for assignment in group.assignments.values()]
    replays: set[ReplayBuffer] = {learner.experience.replay for learner in learners}
    ring = sum(buffer.nbytes for replay in replays for buffer in replay.buffers.values())
    collector.collect()
    start = peak_memory(device)
    group.update(1, lambda: "")
    print(
        f"{algorithm} on {device}: replays {ring / 1e6:,.0f} MB, learning {(peak_memory(device) - start) / 1e6:,.0f} MB"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
