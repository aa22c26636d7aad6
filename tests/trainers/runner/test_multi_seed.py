"""Several seeds at once: each equals a run of its seed alone, and the folder is complete after every kind of end."""

import csv
import dataclasses
import functools
import json
import math
import shutil
import signal
import threading
import time
from collections import deque
from pathlib import Path

import pytest
from checkpoints import assert_equal_checkpoints, iterations_of
from toy_run import make_corridor, toy_config

import trainers
import warp_kernels
from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.on_policy import kernel_launches
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.runner import multi_seed
from trainers.runner.early_stopping import DivergedError
from trainers.runner.multi_seed import MultiSeedTrainer
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.folder_lock import is_held
from trainers.storage.learning_curves import read_rows

SPREAD = TrainConfig(
    "SimpleSpread-v0",
    {"max_cycles": 9},
    num_envs=5,
    total_steps=320,
    seed=4,
    eval_episodes=2,
    checkpoint_interval=2,
    learner=PPOConfig(hidden_sizes=(8, 8), rollout_length=16, num_epochs=2),
)


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    monkeypatch.setattr(multi_seed, "available_cores", lambda: 2)
    monkeypatch.setattr(multi_seed, "PROGRESS_INTERVAL", 0.0)


def seeds_of(out: Path, iterations: int, count: int = 3, resume: bool = False, **changes):
    return MultiSeedTrainer(toy_config(iterations, **changes), count, out, resume, make_corridor)


def rows_without_times(run: Path) -> list[dict[str, str]]:
    left_out = ("seconds", "env_steps_per_second")
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if k not in left_out and not k.startswith("time/")} for row in rows]


@pytest.mark.variations
@pytest.mark.parametrize("engine", ["torch", "kernel"])
def test_each_run_equals_the_run_alone(tmp_path, engine):
    config = dataclasses.replace(SPREAD, engine=engine)
    results = trainers.train_seeds(config, 3, tmp_path / "all")
    assert [result.config.seed for result in results] == [4, 5, 6]
    for result in results:
        assert result.run_dir == tmp_path / "all" / f"seed-{result.config.seed}"
        assert result.config == dataclasses.replace(config, seed=result.config.seed, num_threads=1)
        alone = trainers.train(result.config, tmp_path / result.run_dir.name)
        assert_equal_checkpoints(alone.checkpoint, result.checkpoint)
        assert rows_without_times(alone.run_dir) == rows_without_times(result.run_dir)
        assert len(rows_without_times(alone.run_dir)) == 4
    returns = {row["agent/episode_return_mean"] for result in results for row in rows_without_times(result.run_dir)}
    assert len(returns) == 12, "the runs have different seeds"


def test_kernels_of_an_update_are_built_by_one_thread_at_a_time(tmp_path, monkeypatch):
    """Warp's modules are not safe for several threads."""
    owned = []

    def checked(build, *args):
        owned.append(warp_kernels.building._is_owned())
        return build(*args)

    for name in ("build_values", "build_advantages", "build_epoch"):
        monkeypatch.setattr(kernel_launches, name, functools.partial(checked, getattr(kernel_launches, name)))
    trainers.train_seeds(dataclasses.replace(SPREAD, engine="kernel", total_steps=80), 2, tmp_path)
    assert len(owned) >= 6
    assert all(owned)


def test_two_threads_take_turns_with_the_runs(tmp_path):
    order, lock, barrier, local = [], threading.Lock(), threading.Barrier(2, timeout=300), threading.local()

    class Noted(deque):
        """The runs that wait, in the order in which two threads take them."""

        def popleft(self):
            if not hasattr(local, "entered"):
                local.entered = barrier.wait()
            with lock:
                order.append(super().popleft())
                return order[-1]

    trainer = seeds_of(tmp_path, 4)
    assert (trainer.num_workers, trainer.cores_per_run) == (2, 1)
    trainer._waiting = Noted(trainer._waiting)
    trainer.run()
    seeds = [run.config.seed for run in order]
    assert sorted(seeds) == sorted([0, 1, 2] * 5)  # four iterations, and the end of the run
    assert seeds[:3] == [0, 1, 2]


@pytest.mark.slow
def test_cores_are_shared_by_the_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(multi_seed, "available_cores", lambda: 6)
    for count, threads, workers, cores in (
        (1, 0, 1, 6),
        (2, 1, 2, 3),
        (4, 1, 4, 1),
        (9, 1, 6, 1),
        (9, 3, 2, 3),
        (9, 9, 1, 6),
    ):
        trainer = seeds_of(tmp_path / f"{count}-{threads}", 2, count, num_threads=threads)
        assert (trainer.num_workers, trainer.cores_per_run) == (workers, cores)
        trainer.run()


def test_signal_saves_all_runs_and_resume_equals_uninterrupted_runs(tmp_path):
    seeds_of(tmp_path / "whole", 5).run()
    handler = signal.getsignal(signal.SIGINT)
    part = seeds_of(tmp_path / "part", 5)
    reported: list[int] = []

    def interrupt(steps: int, _: str) -> None:
        if all(count < 3 * 64 for count in reported) and steps >= 3 * 64:
            signal.raise_signal(signal.SIGINT)
            while part._stopped_by is None:  # until the main thread has taken the signal
                time.sleep(0.001)
        reported.append(steps)

    part.progress = interrupt
    results = part.run()
    assert max(reported[:-1], default=0) < 3 * 64 <= reported[-1]  # nothing is shown after the signal
    assert reported[-1] <= sum(result.steps for result in results) < part.total_steps
    assert signal.getsignal(signal.SIGINT) is handler
    assert [result.stopped_by for result in results] == [signal.SIGINT] * 3
    assert all(1 <= result.steps // 64 < 5 for result in results)
    for result in results:
        assert checkpoint.load(result.run_dir).steps == result.steps
    for result in seeds_of(tmp_path / "part", 5, resume=True).run():
        assert result.stopped_by is None
        assert_equal_checkpoints(tmp_path / "whole" / result.run_dir.name, result.run_dir)
        assert iterations_of(result.run_dir) == list(range(1, 6))


def test_resume_starts_new_runs_and_those_without_a_checkpoint(tmp_path):
    seeds_of(tmp_path, 4, 2).run()
    shutil.rmtree(tmp_path / "seed-1" / "checkpoints")
    content = (tmp_path / "seed-0" / "metrics.csv").read_bytes()
    results = seeds_of(tmp_path, 4, 3, resume=True).run()
    assert [(result.config.seed, result.steps) for result in results] == [(0, 256), (1, 256), (2, 256)]
    assert (tmp_path / "seed-0" / "metrics.csv").read_bytes() == content
    assert iterations_of(tmp_path / "seed-1") == [1, 2, 3, 4]
    assert json.loads((tmp_path / "seeds.json").read_text())["num_seeds"] == 3
    assert [result.steps for result in seeds_of(tmp_path, 5, 3, resume=True).run()] == [320, 320, 320]


def test_resume_refuses_other_settings(tmp_path):
    seeds_of(tmp_path, 4, 2).run()
    for error, message, iterations, count, changes in (
        (ConfigError, r"num_seeds: expected at least the 2 runs in .*, got 1", 5, 1, {}),
        (ConfigError, r"total_steps: expected more than the 256 of all runs in .*, got 256; raise it", 4, 2, {}),
        (CheckpointError, r"seeds\.json: num_envs: expected 4, got 8", 5, 2, {"num_envs": 4}),
    ):
        with pytest.raises(error, match=message):
            seeds_of(tmp_path, iterations, count, resume=True, **changes)
    assert not is_held(tmp_path)


def test_single_run_of_the_folder_resumes_alone(tmp_path):
    seeds_of(tmp_path, 4, 2).run()
    resumed = Trainer(toy_config(6, seed=1), None, checkpoint.load(tmp_path / "seed-1"), make_corridor)
    resumed.run()
    assert iterations_of(tmp_path / "seed-1") == list(range(1, 7))


def test_runs_stop_early_one_by_one(tmp_path, monkeypatch):
    goals = {0: 2, 1: 3}
    monkeypatch.setattr(Trainer, "reached", property(lambda self: self.iteration >= goals.get(self.config.seed, 99)))
    results = seeds_of(tmp_path, 6).run()
    assert [result.steps // 64 for result in results] == [2, 3, 6]
    rows = read_rows(tmp_path / "mean_metrics.csv")
    assert [row["num_seeds"] for row in rows] == ["3", "3", "2", "1", "1", "1"]
    assert rows[-1]["walker/entropy/ci_half_width"] == ""


def test_diverged_run_does_not_end_the_others(tmp_path, monkeypatch):
    iterate = Trainer.iterate

    def fail(self):
        iterate(self)
        if self.config.seed == 1 and self.iteration == 2:
            raise DivergedError("iteration 2: policy_loss is nan")

    monkeypatch.setattr(Trainer, "iterate", fail)
    with pytest.raises(DivergedError, match=r"^seed 1: iteration 2: policy_loss is nan; the other runs are complete$"):
        seeds_of(tmp_path, 4).run()
    runs = json.loads((tmp_path / "summary.json").read_text())["runs"]
    assert [run["seed"] for run in runs] == [0, 2]
    assert [run["reached_goal"] for run in runs] == [None, None]  # none has a goal
    assert not is_held(tmp_path / "seed-1")


def test_error_of_one_run_ends_all(tmp_path, monkeypatch):
    iterate, done = Trainer.iterate, []

    def fail(self):
        if self.config.seed == 1:
            raise OSError("the disk is full")
        iterate(self)
        done.append(self.config.seed)

    monkeypatch.setattr(Trainer, "iterate", fail)
    with pytest.raises(OSError, match="the disk is full"):
        seeds_of(tmp_path, 1000).run()
    assert len(done) < 1000, "no run has gone on to its end"
    assert not is_held(tmp_path)


def test_second_signal_ends_the_threads_at_once(tmp_path, monkeypatch):
    iterate = Trainer.iterate

    def interrupt(self):
        if self.iteration == 1:
            raise KeyboardInterrupt
        iterate(self)

    monkeypatch.setattr(Trainer, "iterate", interrupt)
    monkeypatch.setattr(multi_seed, "available_cores", lambda: 1)  # this thread only
    with pytest.raises(KeyboardInterrupt):
        seeds_of(tmp_path, 1000).run()
    assert not is_held(tmp_path)


def test_folder_and_its_runs_are_locked_until_the_end(tmp_path):
    trainer = seeds_of(tmp_path, 2, 2)
    assert is_held(tmp_path)
    assert is_held(tmp_path / "seed-1")
    trainer.run()
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "seed-1")


def test_folder_of_another_kind_is_refused(tmp_path):
    seeds_of(tmp_path / "seeds", 2, 1).run()
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=r"seeds\.json: there are runs already; continue them with --resume"):
        seeds_of(tmp_path / "seeds", 2, 1)
    with pytest.raises(ConfigError, match="a multi-seed run needs a folder of its own, this one holds a training run"):
        seeds_of(tmp_path / "seeds" / "seed-0", 2, 1)
    with pytest.raises(ConfigError, match="a training run needs a folder of its own, this one holds a multi-seed run"):
        Trainer(toy_config(2), tmp_path / "seeds", None, make_corridor)
    with pytest.raises(CheckpointError, match=r"got runs of several seeds; name one of them, such as .*seed-0$"):
        checkpoint.find(tmp_path / "seeds")
    with pytest.raises(ConfigError, match="num_seeds: expected an int >= 1, got 0"):
        seeds_of(tmp_path / "none", 2, 0)
    assert sorted(tmp_path.rglob("*")) == files


def test_failed_environment_leaves_no_folder(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ConfigError("no such walker")

    monkeypatch.chdir(tmp_path)
    for out in (None, tmp_path / "a"):
        with pytest.raises(ConfigError, match="no such walker"):
            MultiSeedTrainer(toy_config(3), 2, out, False, refuse)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.name == "a"]


def test_summary_has_means_over_runs(tmp_path):
    reported = []
    trainer = seeds_of(tmp_path, 3, 2)
    trainer.progress = lambda steps, text: reported.append((steps, text))
    results = trainer.run()
    assert reported[-1][0] == trainer.total_steps == 2 * 3 * 64
    assert reported[-1][1].startswith("2 of 2 runs complete  return per agent: walker ")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [(run["seed"], run["run_dir"], run["env_steps"]) for run in summary["runs"]] == [
        (0, "seed-0", 192),
        (1, "seed-1", 192),
    ]
    for run, result in zip(summary["runs"], results, strict=True):
        assert tmp_path / run["run_dir"] / run["checkpoint"] == result.checkpoint
    losses = [float(read_rows(result.run_dir / "metrics.csv")[-1]["walker/value_loss"]) for result in results]
    last = summary["last_metrics"]["walker/value_loss"]
    assert last["mean"] == pytest.approx(sum(losses) / 2)
    assert last["ci_half_width"] == pytest.approx(12.7062 * abs(losses[0] - losses[1]) / 2, rel=1e-4)
    assert evaluate_policies(make_corridor(toy_config(3), 4, 0), results[0].policies, seed=1).episodes == 4
    assert math.isfinite(results[0].seconds)
