"""Loggers of trainings: one's own, TensorBoard, names, and missing libraries."""

import math
import sys

import numpy as np
import pytest
import recording_logger
from small_commands import WITHOUT_VIDEO
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_run import make_corridor, toy_config

from gpu_envs.errors import ConfigError, MissingExtraError
from trainers.cli.train import train_command
from trainers.loggers.tensorboard_logger import MAX_FRAMES, TensorBoardLogger
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

OWN = "recording_logger:Recording"


@pytest.fixture
def calls():
    recording_logger.CALLS.clear()
    return recording_logger.CALLS


def test_own_logger_gets_configuration_and_the_rows_of_metrics_csv(tmp_path, calls):
    rows = []
    config = toy_config(3, logger=("csv", OWN))
    Trainer(config, tmp_path, None, make_corridor, callback=rows.append).run()
    assert not list(tmp_path.glob("events.*"))
    assert calls[0] == ("open", tmp_path, 0)
    assert calls[1][1]["learner"]["rollout_length"] == 8
    assert calls[-1] == ("close",)
    logged = calls[2:-1]
    assert [call[2] for call in logged] == [64, 128, 192]
    for (_, row, _), received, written in zip(logged, rows, read_rows(tmp_path / "metrics.csv"), strict=True):
        np.testing.assert_equal(row, received)
        finite = {name: value for name, value in row.items() if math.isfinite(value)}
        assert finite == pytest.approx({name: float(cell) for name, cell in written.items() if cell})


def test_resumed_run_tells_loggers_its_step(tmp_path, calls):
    part = Trainer(toy_config(8, logger=(OWN,)), tmp_path, None, make_corridor)
    for _ in range(4):
        part.iterate()
    part.close()
    part.close()
    assert calls.count(("close",)) == 1
    Trainer(toy_config(8, logger=(OWN,)), tmp_path, checkpoint.load(tmp_path), make_corridor).run()
    assert [call[2] for call in calls if call[0] == "open"] == [0, 192]
    assert [call[2] for call in calls if call[0] == "log"] == [64, 128, 192, 256, 256, 320, 384, 448, 512]


@pytest.mark.parametrize("workers", [[], ["--num-workers", "2"]], ids=["one process", "cluster"])
def test_command_gives_the_video_to_several_loggers(workers, tmp_path, calls, monkeypatch):
    def write(file, frames, fps):
        file.write_bytes(bytes(1))
        return file

    def train_here(config, path, num_workers, address, resume):
        assert num_workers == 2
        return Trainer(config, path, resume).run()

    monkeypatch.setattr("trainers.cluster.connect.ray_library", lambda name: None)
    monkeypatch.setattr("trainers.cluster.ray_train.train_distributed", train_here)
    monkeypatch.setattr("gpu_envs.rendering.video.write_video", write)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert train_command([*WITHOUT_VIDEO, *workers, "--logger", "csv", OWN, "--run-dir", str(tmp_path)]) == 0
    assert len(read_rows(tmp_path / "metrics.csv")) == 7
    assert calls[-2:] == [("video", tmp_path / "video.mp4", 1120), ("close",)]
    assert not list(tmp_path.glob("events.*"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorbord", "got 'tensorbord'; did you mean 'tensorboard'"),
        (
            "recording_logger:Nobody",
            "expected a function of .run_dir, last_step. named Nobody in recording_logger, got None",
        ),
        ("not_imported:Logger", "its module 'not_imported' is not imported"),
    ],
)
def test_unknown_logger_is_one_line_and_leaves_no_folder(name, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        Trainer(toy_config(1, logger=(name,)), tmp_path / "run", None, make_corridor)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_missing_library_is_one_line_and_leaves_no_folder(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"trainers.loggers.{name}_logger", raising=False)
    with pytest.raises(MissingExtraError, match=rf"--logger {name} needs {name}: pip install "):
        Trainer(toy_config(1, logger=(name,)), tmp_path / "run", None, make_corridor)
    assert not list(tmp_path.iterdir())


def test_tensorboard_has_configuration_and_a_video_of_few_frames(tmp_path):
    imageio = pytest.importorskip("imageio.v3")
    frames = np.zeros((2 * MAX_FRAMES + 1, 16, 24, 3), np.uint8)
    frames[:, 4:8] = np.arange(len(frames), dtype=np.uint8)[:, None, None, None]
    imageio.imwrite(tmp_path / "video.gif", frames, loop=0)
    logger = TensorBoardLogger(tmp_path, 0)
    logger.log_config({"seed": 3})
    logger.log_video(tmp_path / "video.gif", 7)
    logger.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert b'"seed": 3' in events.Tensors("config/text_summary")[0].tensor_proto.string_val[0]
    (video,) = events.Images("video")
    assert (video.step, video.width, video.height) == (7, 24, 16)
    assert len(imageio.imread(video.encoded_image_string)) <= MAX_FRAMES
