"""Training with the workers of Ray, without Ray: placement, errors, and the command."""

import dataclasses
import json
import sys

import pytest
import torch
from shard_run import config
from small_commands import SMALL, run  # noqa: F401

from gpu_envs.errors import ConfigError, DeviceError, MissingExtraError
from trainers.base.shard import Shard
from trainers.cli.train import train_command
from trainers.cluster import connect, ray_train
from trainers.cluster.ray_train import _workers_per_node
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint


def test_workers_with_different_gpus_are_not_restarted(monkeypatch, tmp_path):
    def refuse(*_):
        raise ConfigError("unlike")

    monkeypatch.setattr(Shard, "from_env", refuse)
    arguments = {"config": json.dumps(dataclasses.asdict(config("pole"))), "out": str(tmp_path), "resume": None}
    assert ray_train._work(arguments) == ("ConfigError", "unlike")


def test_missing_ray_names_the_packages(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        MissingExtraError, match=r"gpu-envs train --num-workers needs ray: pip install .*('ray\[|\[ray\])"
    ):
        train_command(["CartPole-v1", "--device", "cpu", "--num-workers", "2"])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("demand", "room"),
    [({"CPU": 1.0}, [8, 2]), ({"CPU": 1.0, "GPU": 1.0}, [4, 0]), ({"CPU": 1.0, "GPU": 0.5}, [8, 0])],
)
def test_workers_are_placed_where_resources_are_free(demand, room):
    assert _workers_per_node([{"CPU": 8.0, "GPU": 4.0, "memory": 1e9}, {"CPU": 2.0}], demand) == room


@pytest.mark.slow
def test_command_without_gpu_trains_on_gpus_of_a_cluster(run, tmp_path, monkeypatch, capsys):
    """The evaluation at the end runs on this machine."""
    calls = []

    def elsewhere(config, out, num_workers, address, *, resume=None):
        calls.append((config.device, num_workers, address, resume is not None))
        cpu_config = dataclasses.replace(config, device="cpu")
        return Trainer(cpu_config, out, resume and checkpoint.load(resume.path)).run()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(connect, "ray_library", lambda name: None)
    monkeypatch.setattr(ray_train, "train_distributed", elsewhere)
    argv = ["cuda" if word == "cpu" else word for word in SMALL]
    assert train_command([*argv, "--ray-address", "there:6379", "--run-dir", str(tmp_path / "a")]) == 0
    going_on = ["--resume", str(run), "--total-steps", "1700", "--device", "cuda", "--num-workers", "2", "--no-video"]
    assert train_command([*going_on, "--run-dir", str(tmp_path / "b")]) == 0
    assert calls == [("cuda", None, "there:6379", False), ("cuda", 2, None, True)]
    assert (tmp_path / "a" / "cross_play.json").exists()
    with pytest.raises(DeviceError, match="torch finds no CUDA GPU here"):
        train_command(argv)
