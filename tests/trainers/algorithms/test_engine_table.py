"""The table of measurements that `engine = "auto"` follows."""

import json

import pytest
from gymnasium import spaces

from trainers.algorithms.on_policy import engine_table
from trainers.algorithms.on_policy.engine_table import (
    MIN_RATIO,
    MeasuredUpdate,
    expected_ratio,
    kernels_are_faster,
    read_table,
)
from trainers.algorithms.on_policy.engines import TorchEngine
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.serialization import CheckpointError
from trainers.base.shard import Shard


@pytest.fixture
def table(monkeypatch):
    """Replace the table by four updates on a CPU."""
    entries = (
        MeasuredUpdate(4, 2, 16, 64, 8.0),
        MeasuredUpdate(4, 2, 64, 64, 4.0),
        MeasuredUpdate(4, 2, 64, 4096, 2.0),
        MeasuredUpdate(512, 2, 64, 4096, 1.05),
    )
    monkeypatch.setattr(engine_table, "_table", lambda: {"cpu": entries})


@pytest.mark.parametrize(
    ("inputs", "hidden_sizes", "rows", "ratio"),
    [
        (4, (16, 16), 64, 8.0),
        (4, (31, 31), 64, 8.0),  # the middle of 16 and 64 is 32
        (4, (33, 33), 64, 4.0),
        (4, (16, 64), 64, 8.0),  # in doubt, the first one
        (4, (64, 64), 510, 4.0),
        (4, (64, 64), 520, 2.0),
        (46, (64, 64), 4096, 1.05),  # the middle of 4 and 512 is 45
        (44, (64, 64), 4096, 2.0),
        (1, (200,), 10**6, 2.0),
    ],
)
def test_ratio_is_that_of_the_nearest_update(table, inputs, hidden_sizes, rows, ratio):
    assert expected_ratio("cpu", inputs, hidden_sizes, rows) == ratio
    assert kernels_are_faster("cpu", inputs, hidden_sizes, rows) == (ratio >= MIN_RATIO)


def test_device_without_measurements_uses_pytorch(table):
    assert expected_ratio("cuda", 4, (64, 64), 512) is None
    assert not kernels_are_faster("cuda", 4, (64, 64), 512)


@pytest.mark.parametrize(("obs_width", "engine"), [(4, KernelEngine), (512, TorchEngine)])
def test_auto_follows_the_table(table, obs_width, engine):
    """Trainings of equal length and networks differ in the width of their observations only."""
    config = PPOConfig(rollout_length=256, num_minibatches=4, hidden_sizes=(64, 64))
    learner = PPO(config, LearnerSpec(obs_width, spaces.Discrete(2), 64, 1, total_steps=10**7))
    assert isinstance(learner.engine, engine)


def test_committed_table_has_the_grid_of_a_cpu():
    """The corners are there, so that no network is compared with a much smaller one; no GPU was measured."""
    table = read_table()
    assert set(table) == {"cpu"}
    assert all(0.1 < entry.ratio < 100 for entry in table["cpu"])
    grid = {(entry.inputs, entry.layers, entry.width, entry.rows) for entry in table["cpu"]}
    assert len(grid) == len(table["cpu"])
    corners = {
        (inputs, layers, width, rows)
        for inputs in (4, 512)
        for layers in (1, 2, 3)
        for width in (16, 64, 128)
        for rows in (64, 4096)
    }
    assert corners <= grid


def test_table_with_other_fields_is_an_error(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"devices": {"cpu": [{"inputs": 4, "width": 64, "rows": 64, "ratio": 2.0}]}}))
    with pytest.raises(CheckpointError, match=r"table\.json: cpu: expected a field 'layers'"):
        read_table(path)


def test_auto_chooses_by_the_worlds_of_all_processes(monkeypatch):
    """So that all ranks, and a single process, act with the noise of one engine."""
    entries = (MeasuredUpdate(4, 2, 64, 512, 0.5), MeasuredUpdate(4, 2, 64, 4096, 2.0))
    monkeypatch.setattr(engine_table, "_table", lambda: {"cpu": entries})
    settings = PPOConfig(rollout_length=64, num_minibatches=1)
    engines = []
    for num_envs, shard in ((64, None), (8, Shard.split(1, 8, 64)), (8, None)):
        spec = LearnerSpec(4, spaces.Discrete(2), num_envs, 1, 10**9, shard=shard)
        engines.append(type(PPO(settings, spec).engine))
    assert engines == [KernelEngine, KernelEngine, TorchEngine]
