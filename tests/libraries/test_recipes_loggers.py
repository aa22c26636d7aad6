"""Loggers of Weights & Biases and MLflow without a network: files are read with their own clients."""

import struct

import imageio.v3 as imageio
import numpy as np
import pytest
from toy_run import make_corridor, toy_config

from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

wandb = pytest.importorskip("wandb")
mlflow = pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a training with both loggers that was stopped, resumed, and recorded a video."""
    folder = tmp_path_factory.mktemp("loggers")
    video = folder / "video.mp4"
    imageio.imwrite(video, np.zeros((3, 32, 32, 3), np.uint8), fps=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        config = toy_config(6, logger=("wandb", "mlflow"))
        run_dir = folder / "run's"  # MLflow finds a run by its folder, quoted
        part = Trainer(config, run_dir, None, make_corridor)
        for _ in range(3):
            part.iterate()
        part.close()
        resumed = Trainer(config, run_dir, checkpoint.load(run_dir), make_corridor)
        resumed.run(keep_open=True)
        resumed.log.log_video(video, resumed.steps)
        resumed.close()
        yield folder


def test_mlflow_has_rows_parameters_and_video_of_one_run(run):
    client = mlflow.MlflowClient()
    (record,) = client.search_runs([client.get_experiment_by_name("gpu-envs").experiment_id])
    assert record.info.status == "FINISHED"
    assert record.data.params["learner.rollout_length"] == "8"
    history = client.get_metric_history(record.info.run_id, "walker/value_loss")
    rows = read_rows(run / "run's" / "metrics.csv")
    assert [metric.step for metric in history] == [int(row["env_steps"]) for row in rows]
    assert [metric.value for metric in history] == pytest.approx([float(row["walker/value_loss"]) for row in rows])
    assert {file.path for file in client.list_artifacts(record.info.run_id)} == {"config.json", "video.mp4"}


def test_wandb_has_files_of_one_run_with_rows_configuration_and_video(run):
    folders = sorted((run / "run's" / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert len({folder.name.rpartition("-")[2] for folder in folders}) == 1
    rows, configured = [], set()
    for folder in folders:
        for record in records(next(folder.glob("*.wandb"))):
            if record.WhichOneof("record_type") == "history":
                rows.append({item.key or "/".join(item.nested_key): item.value_json for item in record.history.item})
            if record.WhichOneof("record_type") == "config":
                configured |= {item.key or "/".join(item.nested_key) for item in record.config.update}
    expected = read_rows(run / "run's" / "metrics.csv")
    losses = [float(row["walker/value_loss"]) for row in rows if "walker/value_loss" in row]
    assert losses == pytest.approx([float(row["walker/value_loss"]) for row in expected])
    assert [int(row["step"]) for row in rows] == [*(int(row["env_steps"]) for row in expected), 384]
    assert {"learner", "env_id"} <= configured
    assert list(folders[1].glob("files/media/videos/*.mp4"))


def records(file):
    """Yield the records of a file of Weights & Biases, which has LevelDB's log format (Go writes it)."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, parts, block = file.read_bytes(), 7, b"", 32768
    while position + 7 <= len(data):
        size, kind = struct.unpack_from("<HB", data, position + 4)
        parts += data[position + 7 : position + 7 + size]
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""
        position += 7 + size
        if block - position % block < 7:
            position += block - position % block
