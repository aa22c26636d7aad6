"""Processes that train together exchange values, and stop the threads of their process group before Python exits.

A thread of gloo that still runs then can abort the process: a run that succeeded would look like a failed one.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the threads of a process in /proc")

RANK = """
import atexit
import contextlib
from pathlib import Path


def print_threads():
    names = set()
    for file in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            names.add(file.read_text().strip())
    print(*sorted(names))


atexit.register(print_threads)  # functions are called in reverse order: this one last

import torch
from torch import distributed

from trainers.base.shard import Shard

shard = Shard.from_env(2)
assert shard.sum(torch.ones(3)).tolist() == [2.0] * 3
assert shard.all_reduce_max(shard.rank) == 1
assert [part.tolist() for part in shard.all_gather(torch.full((2,), shard.rank))] == [[0, 0], [1, 1]]
assert shard.broadcast_from_rank0(lambda: {"rank": shard.rank}) == {"rank": 0}
print_threads()
import torch.distributed.nn.functional  # as parts of torch do later
"""


def test_no_thread_of_the_process_group_is_left_at_exit():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env={**shared, "RANK": f"{rank}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in ranks:
        output, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        during, after = output.splitlines()
        assert "gloo" in during
        assert "gloo" not in after
