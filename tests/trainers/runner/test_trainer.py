"""The loop: the files of a run, and continuing it as if nothing had happened."""

import csv
import os
import shutil
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from checkpoints import assert_equal_checkpoints, iterations_of
from toy_core import Identity
from toy_run import make_corridor, toy_config

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base import phase_timer
from trainers.config.train_config import TrainConfig
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.runner.agent_assignment import assign_policies
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows


def test_run_writes_its_files(tmp_path):
    reported = []
    trainer = Trainer(toy_config(7), tmp_path, None, make_corridor, lambda steps, text: reported.append((steps, text)))
    last = trainer.run()
    assert last == tmp_path / "checkpoints" / "000000007"
    iterations = sorted(int(path.name) for path in (tmp_path / "checkpoints").iterdir())
    assert iterations == [3, 6, 7]
    assert iterations_of(tmp_path) == list(range(1, 8))
    assert [steps for steps, _ in reported] == [64 * i for i in range(1, 8)]
    assert list(tmp_path.glob("events.out.tfevents.*"))
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"walker/episode_return_mean", "walker/approx_kl", "time/inference", "time/update"} <= rows[0].keys()
    assert [bool(row["eval/walker/return"]) for row in rows] == [False, False, True, False, False, True, True]
    recorded = checkpoint.load(tmp_path).config
    assert TrainConfig.from_json(recorded) == toy_config(7)


def test_resume_equals_an_uninterrupted_run(tmp_path):
    Trainer(toy_config(8), tmp_path / "whole", None, make_corridor).run()
    part = Trainer(toy_config(8), tmp_path / "parts", None, make_corridor)
    for _ in range(5):  # the checkpoint is at 3: the rows and work of 4 and 5 are lost
        part.iterate()
    part.log.close()
    resumed = Trainer(toy_config(8), tmp_path / "parts", checkpoint.load(tmp_path / "parts"), make_corridor)
    assert resumed.iteration == 3
    resumed.run()
    assert_equal_checkpoints(tmp_path / "whole", tmp_path / "parts")
    assert iterations_of(tmp_path / "parts") == list(range(1, 9))


@pytest.mark.parametrize("changed", [True, False])
def test_resumed_run_says_that_the_rules_have_changed(tmp_path, changed):
    Trainer(toy_config(4), tmp_path, None, make_corridor).run()

    def make_changed(*args, **settings):
        core = make_corridor(*args, **settings)
        core.definition.fingerprint = "toy of today" if changed else "toy"
        return core

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Trainer(toy_config(8), tmp_path, checkpoint.load(tmp_path), make_changed).log.close()
    messages = [str(warning.message) for warning in caught if "rules" in str(warning.message)]
    assert len(messages) == changed
    assert all(f"have changed since {tmp_path / 'checkpoints' / '000000004'} was saved" in line for line in messages)


def test_resuming_from_an_earlier_checkpoint_rewinds_the_run(tmp_path):
    Trainer(toy_config(9), tmp_path, None, make_corridor).run()
    contents = files_of(tmp_path)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    for aside in ("rewound", "rewound-2"):
        earlier = checkpoint.load(tmp_path / "checkpoints" / "000000003")
        trainer = Trainer(toy_config(9), None, earlier, make_corridor)
        assert trainer.run_dir == tmp_path
        assert trainer.archived == tmp_path / aside
        assert checkpoint.load(tmp_path).iteration == 3  # a run that is killed now resumes from here
        assert iterations_of(tmp_path) == [1, 2, 3]
        assert iterations_of(tmp_path / aside) == list(range(1, 10))
        assert {path.name for path in (tmp_path / aside / "checkpoints").iterdir()} == names - {"000000003"}
        assert checkpoint.load(tmp_path / aside).iteration == 9
        trainer.run()
    first = files_of(tmp_path / "rewound")
    assert all(
        content == contents[tmp_path / file.relative_to(tmp_path / "rewound")] for file, content in first.items()
    )


def test_completed_run_is_refused_and_unchanged(tmp_path):
    Trainer(toy_config(6), tmp_path, None, make_corridor).run()
    contents = files_of(tmp_path)
    for iterations, name in ((6, "000000006"), (5, "000000006"), (3, "000000003"), (2, "000000003")):
        saved = checkpoint.load(tmp_path / "checkpoints" / name)
        with pytest.raises(ConfigError, match=rf"total_steps: expected more than the .*/{name}, got {64 * iterations}"):
            Trainer(toy_config(iterations), tmp_path, saved, make_corridor)
    assert files_of(tmp_path) == contents


def test_new_run_does_not_overwrite_another(tmp_path):
    Trainer(toy_config(3), tmp_path, None, make_corridor).run()
    contents = files_of(tmp_path)
    with pytest.raises(ConfigError, match=rf"checkpoints: there is a run already; continue it .* {tmp_path}, or"):
        Trainer(toy_config(3), tmp_path, None, make_corridor)
    assert files_of(tmp_path) == contents
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(ConfigError, match=r"metrics\.csv: there is a run already; it has no checkpoint yet; choose"):
        Trainer(toy_config(3), tmp_path, None, make_corridor)


def test_runs_of_one_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda *_: "now")
    trainers = [Trainer(toy_config(3), None, None, make_corridor) for _ in range(3)]
    for trainer in trainers:
        trainer.log.close()
    assert [trainer.run_dir.name for trainer in trainers] == ["Corridor-now", "Corridor-now-2", "Corridor-now-3"]


def test_failed_environment_leaves_no_folder(tmp_path, monkeypatch):
    def refuse(*_):
        raise ConfigError("no such walker")

    monkeypatch.chdir(tmp_path)
    for out in (None, tmp_path / "a" / "b"):
        with pytest.raises(ConfigError, match="no such walker"):
            Trainer(toy_config(3), out, None, refuse)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("checkpoint_interval", [3, 9])
def test_losses_that_are_not_finite_end_the_run(tmp_path, checkpoint_interval):
    trainer = Trainer(toy_config(9, checkpoint_interval=checkpoint_interval), tmp_path, None, make_corridor)
    for _ in range(4):
        trainer.iterate()
    play = trainer.core._play
    trainer.core._play = lambda action: (play(action)[0] * torch.nan, play(action)[1])
    message = (
        r"the last checkpoint before is .*000000003\." if checkpoint_interval == 3 else "there is no checkpoint yet"
    )
    first = r"\(the first parameter that is not finite: walker/actor\.body"
    with pytest.raises(GpuEnvsError, match=rf"iteration 5: walker/policy_loss is nan: .*{first}.*{message}") as caught:
        trainer.run()
    assert "\n" not in str(caught.value)
    assert iterations_of(tmp_path) == [1, 2, 3, 4]
    assert len(checkpoint.every(tmp_path / "checkpoints")) == (checkpoint_interval == 3)


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_resuming_into_another_run_is_refused_and_leaves_it_alone(tmp_path):
    first, second = tmp_path / "one", tmp_path / "two"
    Trainer(toy_config(3), first, None, make_corridor).run()
    Trainer(toy_config(6), second, None, make_corridor).run()
    contents = files_of(second)
    with pytest.raises(
        ConfigError, match=rf"{second}/checkpoints: expected the run of {first}/.*3, got another; resume"
    ):
        Trainer(toy_config(6), second, checkpoint.load(first), make_corridor)
    assert files_of(second) == contents
    shutil.rmtree(second / "checkpoints")  # what is left shows a run all the same
    with pytest.raises(ConfigError, match=r"metrics\.csv: expected the run of"):
        Trainer(toy_config(6), second, checkpoint.load(first), make_corridor)


def test_resuming_into_a_new_folder_continues_there(tmp_path):
    first, second = tmp_path / "one", tmp_path / "two"
    Trainer(toy_config(3), first, None, make_corridor).run()
    contents = files_of(first)
    last = Trainer(toy_config(5), second, checkpoint.load(first), make_corridor).run()
    assert last == second / "checkpoints" / "000000005"
    assert checkpoint.load(second / "checkpoints" / "000000003").score == checkpoint.load(first).score
    assert iterations_of(second) == [4, 5]
    assert files_of(first) == contents
    Trainer(toy_config(5), first, checkpoint.load(first), make_corridor).run()
    assert_equal_checkpoints(first, second)


@pytest.mark.parametrize("value", [None, "long"])
def test_state_without_seconds_is_refused(tmp_path, value):
    Trainer(toy_config(3), tmp_path, None, make_corridor).run()
    saved = checkpoint.load(tmp_path)
    saved.state.pop("trainer.seconds")
    if value is not None:
        saved.state["trainer.seconds"] = value
    with pytest.raises(CheckpointError, match=f"trainer.seconds: expected a number, got {value!r}"):
        Trainer(toy_config(4), tmp_path, saved, make_corridor)


def test_resume_into_another_configuration_is_refused(tmp_path):
    Trainer(toy_config(3), tmp_path, None, make_corridor).run()
    saved = checkpoint.load(tmp_path)
    longer = Trainer(toy_config(4), tmp_path, saved, make_corridor)  # more steps are allowed
    longer.run()
    assert longer.iteration == 4
    with pytest.raises(CheckpointError, match=r"manifest.json: num_envs: expected 16, got 8"):
        Trainer(toy_config(3, num_envs=16), tmp_path, saved, make_corridor)


def test_groups_of_different_rows_learn_their_own_policies(tmp_path):
    """Rows 0 and 2 must answer the target, row 1 one more: one policy cannot do both."""
    ppo = PPOConfig(rollout_length=8, num_epochs=4, learning_rate=0.02, num_minibatches=2, hidden_sizes=(32,))
    settings = {"eval_episodes": 32, "checkpoint_interval": 20, "learner": ppo}
    config = TrainConfig("Identity", num_envs=32, total_steps=20 * 256, **settings)
    trainer = Trainer(config, tmp_path, None, lambda config, num_envs, seed: Identity(num_envs, seed=seed))
    trainer.run()
    with (tmp_path / "metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    # 4 steps of reward 1 for each of the two agents, or the one; at random it would be a third
    assert float(last["eval/even/return"]) > 7.8
    assert float(last["eval/odd/return"]) > 3.9


def test_groups_may_share_a_policy():
    core = Identity(4)
    shared = assign_policies(TrainConfig("Identity", policies={"even": "all", "odd": "all"}), core)
    assert list(shared) == ["all"]
    assert shared["all"].members == ("even", "odd")
    assert isinstance(shared["all"].agents.rows, torch.Tensor)
    assert shared["all"].agents.rows.tolist() == [0, 2, 1]
    with pytest.raises(ConfigError, match="no group or agent 'evn', only even, odd"):
        assign_policies(TrainConfig("Identity", policies={"evn": "all"}), core)
    for name in ("../x", 1, ["all"], None):
        with pytest.raises(ConfigError, match="policies: even: expected a name of letters"):
            assign_policies(TrainConfig("Identity", policies={"even": name}), core)


def test_every_seed_in_bounds_gives_streams_of_their_own(tmp_path):
    seats = assign_policies(TrainConfig("Identity", seed=2**63 - 1), Identity(4))
    seeds = [seat.learner.generator.initial_seed() for seat in seats.values()]
    assert seeds == [2**63 - 1009, 2**63 - 1008]
    policies = {name: seat.learner.policy() for name, seat in seats.items()}
    assert evaluate_policies(Identity(4), policies, seed=2**63 - 1).episodes == 4


def test_threads_are_no_more_than_cores(monkeypatch):
    requested = []
    monkeypatch.setattr(torch, "set_num_threads", requested.append)
    for threads in (0, 1, 1_000_000):
        toy_config(3, num_threads=threads).apply_num_threads()
    assert requested == [1, os.cpu_count()]


def test_phase_times_add_up_to_the_run_time(tmp_path, monkeypatch):
    """A clock that only the named calls move forward: no other program can disturb it."""
    from trainers.loggers.csv_logger import CSVLogger
    from trainers.runner import training_evaluator

    now, took = [0], dict.fromkeys(phase_timer.PHASES, 0)

    def cost(owner, name, phase, seconds):
        original = getattr(owner, name)

        def costly(*args, **keywords):
            now[0] += seconds
            took[phase] += seconds
            return original(*args, **keywords)

        monkeypatch.setattr(owner, name, costly)

    monkeypatch.setattr(phase_timer, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    cost(training_evaluator.TrainingEvaluator, "scores", "evaluation", 300)
    cost(CSVLogger, "log", "logging", 20)
    cost(checkpoint, "save", "checkpoint", 200)
    trainer = Trainer(toy_config(12, checkpoint_interval=4), tmp_path, None, make_corridor)
    collector = trainer.collector
    cost(collector.core, "step", "env_step", 3)
    cost(collector.episodes, "store", "storage", 2)
    for part in collector.groups:
        cost(part, "act", "inference", 7)
    for seat in trainer.assignments.values():
        cost(seat.learner, "update", "update", 50)
    for _ in range(12):
        trainer.iterate()
    times = collector.timer.read()  # of what came after the last row
    trainer.log.close()
    rows = read_rows(tmp_path / "metrics.csv")
    sums = {
        phase: sum(float(row[f"time/{phase}"]) for row in rows) + times.get(phase, 0.0) for phase in phase_timer.PHASES
    }
    assert sums == took
    assert sum(sums.values()) == now[0]
    assert [phase for phase, seconds in took.items() if not seconds] == ["rollout"]  # of kernels only
