"""Several threads make and play environments at once, from a cold cache of kernels."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from warp_kernels import HEADERS_VARIABLE, OPTIMIZATION_VARIABLE

ROOT = Path(__file__).parents[3]
SCRIPT = """
import hashlib, json, sys, threading
import torch
import gpu_envs

torch.set_num_threads(1)
ids = json.loads(sys.argv[1])
gate = threading.Barrier(len(ids))

def play(id):
    core = gpu_envs.make(id, 3, device="cpu", seed=0, illegal_actions="error").core
    digest = hashlib.sha256(core.reset()[0].numpy().tobytes())
    for _ in range(5):
        obs, reward, *_ = core.step(core.sample_actions())
        digest.update(obs.numpy().tobytes() + reward.numpy().tobytes())
    core.random_rollout(3)
    digest.update(core.obs.numpy().tobytes())
    return digest.hexdigest()

def work(row, id):
    gate.wait()
    try:
        found[row] = play(id)
    except BaseException as error:
        found[row] = repr(error)

found = [None] * len(ids)
threads = [threading.Thread(target=work, args=pair) for pair in enumerate(ids)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps([found, [play(id) for id in ids]]))
"""


def played(ids, folder):
    """Return hashes of the results of threads with one environment each, and of one thread afterwards."""
    compiling = {name: os.environ[name] for name in (HEADERS_VARIABLE, OPTIMIZATION_VARIABLE) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), json.dumps(ids)],
        env={"PATH": "", "PYTHONPATH": str(ROOT), "WARP_CACHE_PATH": str(folder), "OMP_NUM_THREADS": "1", **compiling},
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert any(folder.iterdir()), "the cache was elsewhere"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_threads_that_make_the_same_environment_at_once(tmp_path):
    at_once, alone = played(["ClimbingGame-v0"] * 8, tmp_path / "cache")
    assert at_once == alone


@pytest.mark.slow  # compiles eight environments
def test_threads_that_make_different_environments_at_once(tmp_path):
    ids = [
        "ClimbingGame-v0", "TwoStepGame-v0", "RockPaperScissors-v0", "DiscGame-v0",
        "CartPole-v1", "Pendulum-v1", "MountainCar-v0", "TicTacToe-v0",
    ]  # fmt: skip
    at_once, alone = played(ids, tmp_path / "cache")
    assert at_once == alone
