"""Runs that are resumed, evaluated, recorded and imitated on the pretended GPU equal those on the CPU."""

import dataclasses
import json
from pathlib import Path

import pytest
from checkpoints import assert_equal_checkpoints
from small_commands import SMALL

from pretended_gpu.runs import DEVICES, SECOND, assert_equal_states, configuration
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.cli.clone import clone_command
from trainers.cli.evaluate import eval_command
from trainers.cli.train import train_command
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, recording_files

ALL_DEVICES = ("cpu", *DEVICES)
CONTINUOUS = ("td3", "ddpg")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("gpu")]


def config_of(name, device, env_id=None, **learner):
    """Return the configuration of a run of six iterations."""
    settings = {"num_envs": 8, "keep_last_checkpoints": 9}
    config = configuration(env_id or ("Pendulum-v1" if name in CONTINUOUS else "SimpleTag-v0"), name, device, learner)
    steps = 6 * config.learner.rollout_length * config.num_envs
    return dataclasses.replace(config, total_steps=steps, **settings)


GRU = {"network": "gru"}
RESUMED = {
    **{name: (config_of(name, "cpu"), SECOND) for name in ALGORITHMS},
    "ppo-gru": (config_of("ppo", "cpu", "TagContinuous-v0", **GRU), SECOND),
    "qmix-gru": (config_of("qmix", "cpu", "SimpleSpread-v0", window=4, **GRU), SECOND),
    "ppo-gru from a GPU": (config_of("ppo", "cuda:0", **GRU), ("cpu", *SECOND)),
}
"""Configurations of runs, and the devices on which they go on."""


@pytest.mark.parametrize("case", RESUMED)
def test_run_is_resumed_on_another_device_bit_for_bit(case, tmp_path):
    """From its middle; the last checkpoints of the continued runs are equal."""
    config, devices = RESUMED[case]
    reference = Trainer(config, tmp_path / "whole")
    for _ in range(4):
        reference.iterate()
    middle = checkpoint.load(tmp_path / "whole")
    assert middle.iteration == 4
    last = reference.run()
    for device in devices:
        moved = dataclasses.replace(config, device=device)
        assert_equal_checkpoints(last, Trainer(moved, tmp_path / device, middle).run())


def outputs(run: Path, folder: Path, device: str) -> dict[str, object]:
    """Evaluate a run and return what the command writes."""
    file = folder / f"{device}.json"
    words = [str(run), "--device", device, "--episodes", "6", "--opponents", str(run), "--output", str(file)]
    assert eval_command(words) == 0
    return json.loads(file.read_text())


@pytest.mark.parametrize("name", ["ppo", "dqn", "masac"])
def test_evaluation_and_cross_play_equal_the_cpu(name, tmp_path):
    Trainer(config_of(name, "cpu"), tmp_path / "run").run()
    expected = outputs(tmp_path / "run", tmp_path, "cpu")
    for device in DEVICES:
        assert outputs(tmp_path / "run", tmp_path, device) == expected


@pytest.mark.parametrize("source", ["scripted", "run"])
def test_recordings_and_clones_equal_the_cpu(source, tmp_path):
    """Episodes are recorded on the device, written, read again and imitated."""
    words = ["scripted", "--env-id", "SimpleTag-v0", "--env-arg", "max_episode_steps=6"]
    if source == "run":
        Trainer(config_of("ppo", "cpu"), tmp_path / "trained").run()
        words = [str(tmp_path / "trained")]
    words += ["--episodes", "6", "--learner.num-epochs", "2", "--learner.hidden-sizes", "8"]
    for device in ALL_DEVICES:
        assert clone_command([*words, "--device", device, "--run-dir", str(tmp_path / device)]) == 0
    expected = recording_files.load(tmp_path / "cpu" / "episodes").episodes
    for device in DEVICES:
        actual = recording_files.load(tmp_path / device / "episodes").episodes
        assert len(actual) == len(expected) == 6
        for left, right in zip(expected, actual, strict=True):
            assert_equal_states(left.tensors(), right.tensors())
        assert_equal_checkpoints(checkpoint.find(tmp_path / "cpu"), checkpoint.find(tmp_path / device))


def test_train_command_equals_the_cpu(tmp_path):
    for device in ALL_DEVICES:
        words = ["SimplePush-v0", "--device", device, *SMALL[3:]]  # without a preset for each device
        words = [word for word in words if word not in ("--env-arg", "num_good=2")]
        assert train_command([*words, "--run-dir", str(tmp_path / device)]) == 0
    expected = json.loads((tmp_path / "cpu" / "cross_play.json").read_text())
    for device in DEVICES:
        assert json.loads((tmp_path / device / "cross_play.json").read_text()) == expected
        assert_equal_checkpoints(checkpoint.find(tmp_path / "cpu"), checkpoint.find(tmp_path / device))
