"""Task functions for tests of GPUs on Ray, in a module that workers can import."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from gpu_envs.errors import ConfigError
from trainers.base.shard import Shard


def resources(pools: Any = None, sharded: bool = False) -> dict[str, Any]:
    """Return the share of a GPU of this task, and its number."""
    context = sys.modules["ray"].get_runtime_context()
    return {
        "resources": context.get_assigned_resources(),
        "gpus": context.get_accelerator_ids().get("GPU", []),
    }


def meet(pools: Any, folder: str, name: str, count: int, sharded: bool = False) -> dict[str, Any]:
    """Return the resources of a task after so many tasks have written their names to a folder, this one included.

    Tasks that run one after another raise an error.
    """
    Path(folder, name).touch()
    deadline = time.monotonic() + 300
    while len(list(Path(folder).iterdir())) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name}: expected {count} tasks to begin, got {sorted(os.listdir(folder))}")
        time.sleep(0.02)
    return resources()


def relay(pools: Any, folder: str, trainings: int, num_others: int, sharded: bool = False) -> dict[str, Any]:
    """Return the resources of a task; a training ends only when `num_others` others have begun after it.

    Of `trainings` the last ones end when all have begun, and two payoffs as well; payoffs, for which `trainings` is 0,
    end at once. Where fewer than `num_others + 1` trainings run at the same time, the first one raises an error.
    """

    def count_started(word: str) -> int:
        return sum(file.name.startswith(word) for file in Path(folder).iterdir())

    deadline, number = time.monotonic() + 300, _next_number(folder, "training" if trainings else "payoffs")
    enough = number + 1 + num_others
    while trainings and (
        count_started("training") < min(enough, trainings) or (enough > trainings and count_started("payoffs") < 2)
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"training {number}: expected others to begin, got {sorted(os.listdir(folder))}")
        time.sleep(0.02)
    return resources()


def _next_number(folder: str, word: str) -> int:
    """Return 0 for the first caller, 1 for the second one, and so on."""
    for number in itertools.count():
        with contextlib.suppress(FileExistsError):
            Path(folder, f"{word}-{number}").touch(exist_ok=False)
            return number
    raise AssertionError


def ranks(pools: Any, worlds: int, sharded: bool = False) -> list[list[Any]]:
    """Return number, process and GPU of every rank; a task of one process returns one entry."""
    shard = Shard.from_env(worlds)
    assert sharded == (shard.ranks > 1)
    gpus = sys.modules["ray"].get_runtime_context().get_accelerator_ids().get("GPU", [])
    return shard.all_gather_json([shard.rank, shard.num_envs, os.getpid(), *gpus])


def sum_of_ranks(pools: Any, worlds: int, marker: str, how: str, sharded: bool = False) -> float:
    """Return a sum over worlds; once, the second rank dies before it adds its part, or always raises an error."""
    shard = Shard.from_env(worlds)
    first = not Path(marker).exists()
    distributed.barrier()  # all ranks have looked
    if shard.rank == 1 and (first or how != "dies once"):
        Path(marker).write_text(f"{os.getpid()}")
        if how.startswith("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        raise ConfigError("rank 1: expected a fish, got a bird")
    values = torch.arange(float(worlds))[shard.offset : shard.offset + shard.num_envs]
    return float(shard.sum(values.sum()))


def wait(pools: Any, folder: str, sharded: bool = False) -> None:
    """Write the process of each rank to a folder, and wait to be killed."""
    shard = Shard.from_env(8)
    Path(folder, f"{shard.rank}").write_text(f"{os.getpid()}")
    time.sleep(600)


def nodes(pools: Any, folder: str, sharded: bool = False) -> int:
    """Write the node of each rank to a folder and wait for a lost node; return 1 if the process is alone."""
    shard = Shard.from_env(8)
    if shard.ranks == 1:
        return 1
    Path(folder, f"{shard.rank}").write_text(sys.modules["ray"].get_runtime_context().get_node_id())
    time.sleep(600)
    return shard.ranks
