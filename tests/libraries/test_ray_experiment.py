"""Experiments on a Ray cluster: their table equals that of this process, also after an interruption."""

import csv
import signal
import subprocess
import sys
import time

import pytest
import ray
from ray.cluster_utils import Cluster

from trainers.experiments import Experiment
from trainers.storage.config_yaml import format_config

FILE = {
    "seeds": 1,
    "settings": {"total_steps": 30_000, "num_envs": 8, "device": "cpu", "learner": {"hidden_sizes": [8]}},
    "evaluation": {"every": 5_000, "episodes": 4},
    "tasks": {"pole": {"settings": {"env_id": "CartPole-v1"}}},
    "algorithms": {"ppo": None, "a2c": None},
}


@pytest.fixture(scope="module")
def cluster(workers_find_tests):
    ray_cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield ray_cluster
    ray.shutdown()
    ray_cluster.shutdown()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The file, and the folder of the experiment as this process runs it."""
    folder = tmp_path_factory.mktemp("experiment")
    path = folder / "paper.yaml"
    path.write_text(format_config(FILE))
    assert Experiment(path, folder / "local").run() == {}
    return path, folder / "local"


def evaluations(folder):
    with (folder / "evaluations.csv").open() as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


def test_table_equals_that_of_this_process(cluster, local, tmp_path):
    path, expected = local
    assert Experiment(path, tmp_path / "ray").run("ray", ray_address=cluster.address) == {}
    assert evaluations(tmp_path / "ray") == evaluations(expected)


def test_interrupted_cells_save_and_continue(cluster, local, tmp_path):
    path, expected = local
    words = ["experiment", "run", str(path), "--run-dir", str(tmp_path / "ray"), "--executor", "ray"]
    command = [sys.executable, "-m", "gpu_envs", *words, "--ray-address", cluster.address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not list((tmp_path / "ray").glob("runs/*/*/seed-*/checkpoints/*/manifest.json")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 130, output
    again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert evaluations(tmp_path / "ray") == evaluations(expected)
