"""A folder holds one run of one kind, and one process writes it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from messages import refused
from small_commands import no_curves  # noqa: F401

from gpu_envs.cli import main
from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.storage.run_store import RunStore
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, folder_lock, run_folder
from trainers.storage.folder_lock import LOCK, FolderLock, is_held
from trainers.storage.learning_curves import read_rows

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from trainers.storage.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
TRAIN = """
import sys
from gpu_envs.cli import main
from trainers.runner.trainer import Trainer
def blocked(self):
    print("training", flush=True)
    sys.stdin.read()
Trainer.iterate = blocked
sys.exit(main(sys.argv[1:]))
"""
FEW = ["--device", "cpu", "--eval-episodes", "0", "--no-video"]
FIT = ["--device", "cpu", "--episodes", "2", "--learner.num_epochs", "1"]


def trainer(out: Path, steps: int = 32, resume: Path | None = None) -> Trainer:
    ppo = PPOConfig(rollout_length=4, hidden_sizes=(4,), num_epochs=1, num_minibatches=1)
    config = TrainConfig("CartPole-v1", num_envs=4, total_steps=steps, eval_episodes=0, learner=ppo)
    return Trainer(config, out, resume and checkpoint.load(resume))


def started(code: str, *argv: str) -> subprocess.Popen:
    """Start a Python process and return once it prints its first word; it continues when its input ends."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line in ("held\n", "training\n"):
            return process
    raise AssertionError(process.communicate()[1])


@pytest.fixture
def holder():
    """Function that has another process hold the lock of a folder."""
    processes = []

    def hold(path: Path) -> subprocess.Popen:
        processes.append(started(HOLD, str(path)))
        return processes[-1]

    yield hold
    for process in processes:
        process.kill()
        process.communicate()


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


# ---------------------------------------------------------------- one process writes a run


@pytest.mark.usefixtures("no_curves")
def test_second_process_on_a_training_is_refused_in_one_line(tmp_path, holder, capsys, monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    trainer(tmp_path / "run").run()
    original, path = contents(tmp_path / "run"), tmp_path / "run"
    other = holder(path)
    line = f"{path}: process {other.pid} is writing this run; wait for it, or stop it"
    assert refused(capsys, "train", "--resume", str(path), "--total-steps", "64", *FEW).endswith(line)
    with pytest.raises(GpuEnvsError, match=line):
        trainer(path, 64, resume=path)
    changed = {file for file, data in contents(path).items() if original.get(file) != data}
    assert changed <= {path / LOCK}
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert main(["train", "--resume", str(path), "--total-steps", "64", *FEW]) == 0
    assert [int(row["iteration"]) for row in read_rows(path / "metrics.csv")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "argv",
    [
        ["train", "CartPole-v1", *FEW, "--run-dir"],
        ["clone", "scripted", "--env-id", "SimpleTag-v0", *FIT, "--run-dir"],
        ["league", "train", "KuhnPoker-v0", "--oracle", "exact", "--run-dir"],
        ["tune", "--allow-pickle", "--resume"],
    ],
    ids=lambda argv: argv[0],
)
def test_every_command_that_writes_a_run_takes_the_lock(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("trainers.cli.tune.ray_library", lambda name: None)
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    if argv[0] == "tune":
        plan = {"format": "gpu-envs search 2", "config": {"env_id": "CartPole-v1"}, "search": {}, "trials": 1}
        plan["plan"] = {"scheduler": "none", "num_samples": 1, "metric": "x", "mode": "max", "reduction_factor": 3}
        plan["plan"] |= dict.fromkeys(("eval_interval", "grace_period", "perturbation_interval", "cpus", "gpus"))
        (tmp_path / run_folder.SEARCH).write_text(json.dumps(plan))
    with FolderLock(tmp_path):
        line = refused(capsys, *argv, str(tmp_path))
    assert f"{tmp_path}: process {os.getpid()} is writing this run; wait for it, or" in line


def test_trainer_holds_the_lock_until_its_run_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    first = trainer(tmp_path)
    first.iterate()
    assert is_held(tmp_path)
    with pytest.raises(GpuEnvsError, match=f"{tmp_path}: process {os.getpid()} is writing this run"):
        FolderLock(tmp_path)
    first.run()
    assert not is_held(tmp_path)


def test_abandoned_training_can_be_resumed_in_the_same_process(tmp_path):
    """In a notebook, the object of an interrupted cell still exists."""
    first = trainer(tmp_path)
    first.run()
    given_up = trainer(tmp_path, 64, resume=tmp_path)
    resumed = trainer(tmp_path, 64, resume=tmp_path)
    assert given_up.lock is not None
    given_up.lock.release()
    assert is_held(tmp_path)
    resumed.run()
    assert not is_held(tmp_path)


def test_released_lock_of_this_process_does_not_hide_the_one_of_another(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    lock = FolderLock(tmp_path, take_over=True)
    folder_lock.check_free(tmp_path)
    lock.release()
    other = holder(tmp_path)
    with pytest.raises(GpuEnvsError, match=f"process {other.pid} is writing this run"):
        folder_lock.check_free(tmp_path)


def test_run_started_by_another_process_in_the_meantime_is_refused(tmp_path):
    out = run_folder.resolve_run_dir(tmp_path / "run", None)
    trainer(tmp_path / "run").run()
    with pytest.raises(ConfigError, match=r"there is a run already; continue it with --resume"):
        run_folder.open_folder(out, "CartPole-v1")
    assert not is_held(tmp_path / "run")


def test_lock_that_is_a_link_is_refused_and_its_target_is_left_alone(tmp_path, capsys):
    trainer(tmp_path / "run").run()
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "run" / LOCK).unlink()
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "mine")
    line = refused(capsys, "train", "--resume", str(tmp_path / "run"), "--total-steps", "64", *FEW)
    assert f"{LOCK}: expected a file, got a symbolic link; delete it" in line
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.slow
def test_two_processes_that_resume_one_training_do_not_corrupt_it(tmp_path):
    path = tmp_path / "run"
    trainer(path).run()
    argv = ["train", "--resume", str(path), "--total-steps", "64", *FEW]
    first = started(TRAIN, *argv)
    code = "import sys; from gpu_envs.cli import main; sys.exit(main(sys.argv[1:]))"
    second = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
    line = f"gpu-envs: error: {path}: process {first.pid} is writing this run; wait for it, or stop it\n"
    assert (second.returncode, second.stderr) == (2, line)
    first.kill()
    first.communicate()
    third = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
    assert third.returncode == 0, third.stderr
    assert [int(row["iteration"]) for row in read_rows(path / "metrics.csv")] == [1, 2, 3, 4]


# ---------------------------------------------------------------- one kind of run

MADE = {"training": "metrics.csv", "league": "league.db", "tune": "search.json"}
STARTS = {
    "training": [
        ["train", "CartPole-v1", *FEW, "--run-dir"],
        ["clone", "scripted", "--env-id", "SimpleTag-v0", *FIT, "--run-dir"],
    ],
    "league": [["league", "train", "KuhnPoker-v0", "--oracle", "exact", "--run-dir"]],
    "tune": [["tune", "CartPole-v1", "--search", "learner.gamma=uniform(0.9,0.99)", "--device", "cpu", "--run-dir"]],
}
CASES = [
    (argv, kind, other) for kind, commands in STARTS.items() for argv in commands for other in MADE if other != kind
]


@pytest.mark.parametrize(("argv", "kind", "other"), CASES, ids=str)
def test_run_in_a_folder_that_holds_another_kind_is_refused(argv, kind, other, tmp_path, capsys):
    (tmp_path / MADE[other]).touch()
    line = refused(capsys, *argv, str(tmp_path))
    assert f"{tmp_path}: a {kind} run needs a folder of its own, this one holds a {other} run; choose another" in line
    assert [file.name for file in tmp_path.iterdir()] == [MADE[other]]


def test_kind_of_a_folder(tmp_path):
    assert run_folder.run_kind(tmp_path / "nowhere") is None
    assert run_folder.run_kind(tmp_path) is None
    trainer(tmp_path / "training").run()
    RunStore.create(tmp_path / "league", Game.of("KuhnPoker-v0"), {}).close()
    assert [run_folder.run_kind(tmp_path / name) for name in ("training", "league")] == ["training", "league"]


def test_rewound_run_has_no_lock_of_its_own(tmp_path):
    trainer(tmp_path).run()
    first = trainer(tmp_path, 64, resume=tmp_path)
    first.run()
    trainer(tmp_path, 96, resume=tmp_path / "checkpoints" / "000000002").run()
    assert (tmp_path / "rewound" / "metrics.csv").exists()
    assert not (tmp_path / "rewound" / LOCK).exists()


@pytest.mark.parametrize("below", ["checkpoints", "checkpoints/other", "checkpoints/000000001"])
@pytest.mark.parametrize("kind", ["training", "league", "tune"])
def test_run_among_the_checkpoints_of_another_is_refused(below, kind, tmp_path):
    for name in ("metrics.csv", "config.json"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=f"a {kind} run needs a folder of its own, .* among the checkpoints of"):
        run_folder.check_kind(tmp_path / below, kind)


def test_run_in_a_folder_named_checkpoints_is_allowed(tmp_path):
    run_folder.check_kind(tmp_path / "checkpoints" / "mine", "training")


def test_lock_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / LOCK)
    with pytest.raises(ConfigError, match=f"{LOCK}: expected a file, got a pipe or a device; delete it"):
        FolderLock(tmp_path)
