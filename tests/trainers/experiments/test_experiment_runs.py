"""Experiments that train: in one process and in several, interrupted, with failures, cross-play and leagues."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import gpu_envs
from gpu_envs.cli.dispatch import main
from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base.serialization import write_json
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.experiments import experiment as experiments
from trainers.experiments.experiment import Experiment
from trainers.experiments.part import best_checkpoint
from trainers.experiments.report import ExperimentReport
from trainers.runner.training_evaluator import FINAL_SEED
from trainers.storage import run_folder
from trainers.storage.checkpoint import load_policy
from trainers.storage.config_yaml import format_config

POLE = {
    "seeds": 2,
    "settings": {"total_steps": 2048, "num_envs": 8, "device": "cpu", "learner": {"hidden_sizes": [8]}},
    "evaluation": {"every": 512, "episodes": 4},
    "tasks": {"pole": {"settings": {"env_id": "CartPole-v1"}, "bounds": [0, 500], "threshold": 15}},
    "algorithms": {"ppo": None, "a2c": None},
}
TAG = {
    "seeds": 1,
    "settings": {"total_steps": 640, "num_envs": 8, "device": "cpu", "learner": {"rollout_length": 10}},
    "evaluation": {"every": 320, "episodes": 4},
    "tasks": {"tag": {"settings": {"env_id": "SimpleTag-v0"}, "opponents": "cross_play"}},
    "algorithms": {"ppo": None, "a2c": None},
}


def experiment_file(tmp_path, file):
    path = tmp_path / "paper.yaml"
    path.write_text(format_config(file))
    return path


class InThisProcess:
    """A pool that works on a part when it is submitted."""

    def __init__(self, count):
        self.count = count

    def submit(self, part):
        from concurrent.futures import Future

        future = Future()
        future.set_result(experiments.failure_of(part, part.work()))
        return future

    def stop(self):
        """Do nothing: no part is running."""

    close = stop


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(experiments, "_ProcessPool", InThisProcess)


def test_table_has_all_evaluations_of_all_seeds(tmp_path, in_process, capsys):
    experiment = Experiment(experiment_file(tmp_path, {**POLE, "algorithms": {"ppo": None}}), tmp_path / "out")
    assert experiment.status() == [("pole", "ppo", "0 of 2 runs complete, 0 % of the steps")]
    progress = []
    assert experiment.run(progress=lambda steps, text: progress.append((steps, text))) == {}
    assert progress[-1] == (4096, "2 of 2 runs complete")
    assert experiment.status() == [("pole", "ppo", "2 of 2 runs complete, 100 % of the steps")]
    frame = experiment.results()
    assert set(frame.metric) == {"eval/score", "eval/agent/return", "eval/agent/episode_length_mean"}
    scores = frame[frame.metric == "eval/score"]
    assert scores[scores.final == 0].groupby("seed").env_steps.apply(list).tolist() == [[512, 1024, 1536, 2048]] * 2
    assert len(scores[scores.final == 1]) == 2
    assert (scores.value > 5).all()
    final = json.loads((tmp_path / "out/runs/pole/ppo/seed-1/final.json").read_text())
    assert (final["episodes"], final["greedy"], list(final["scores"])) == (40, False, ["random"])
    table = (tmp_path / "out" / "evaluations.csv").read_bytes()
    assert experiment.run() == {}  # nothing is left to do
    assert (tmp_path / "out" / "evaluations.csv").read_bytes() == table
    names = {file.name for file in experiment.report()}
    assert {"report.md", "report.html", "tasks.tex", "curves.png", "curves.svg", "marl_eval.json"} <= names
    assert "| pole | ppo | eval/score | 2 |" in (tmp_path / "out/report/report.md").read_text()
    assert r"eval/score" in (tmp_path / "out/report/tasks.tex").read_text()


@pytest.mark.slow
def test_cell_whose_runs_were_removed_is_trained_again(tmp_path, in_process):
    experiment = Experiment(experiment_file(tmp_path, {**POLE, "algorithms": {"ppo": None}}), tmp_path / "out")
    experiment.run()
    expected, cell = evaluations(tmp_path / "out"), tmp_path / "out/runs/pole/ppo"
    for seed in range(2):
        shutil.rmtree(cell / f"seed-{seed}")
    (cell / "seeds.json").unlink()
    assert experiment.run() == {}
    assert evaluations(tmp_path / "out") == expected


@pytest.mark.slow
def test_other_cells_are_not_overwritten(tmp_path, in_process):
    file = {**POLE, "algorithms": {"ppo": None}, "seeds": 1}
    Experiment(experiment_file(tmp_path, file), tmp_path / "out").run()
    changed = {**file, "settings": {**POLE["settings"], "num_envs": 4}}
    with pytest.raises(ConfigError, match=r"ppo on pole: .*num_envs 8 -> 4.*; choose another --run-dir"):
        Experiment(experiment_file(tmp_path, changed), tmp_path / "out").run()
    other = {**file, "algorithms": {"a2c": None}}
    with pytest.raises(ConfigError, match="ppo on pole is not in the file"):
        Experiment(experiment_file(tmp_path, other), tmp_path / "out").run()
    with pytest.raises(ConfigError, match=r"this one holds an experiment run; choose another"):
        run_folder.check_kind(tmp_path / "out", "training")
    task = {**POLE["tasks"]["pole"], "threshold": 18, "bounds": [0, 400], "source": "another"}
    longer = {**file, "evaluation": {**POLE["evaluation"], "final_episodes": 8}, "tasks": {"pole": task}}
    experiment = Experiment(experiment_file(tmp_path, longer), tmp_path / "out")
    assert experiment.status() == [("pole", "ppo", "0 of 1 runs complete, 100 % of the steps")]
    assert experiment.run() == {}  # the best checkpoint is evaluated again
    assert json.loads((tmp_path / "out/runs/pole/ppo/seed-0/final.json").read_text())["episodes"] == 8
    more = Experiment(
        experiment_file(tmp_path, {**file, "seeds": 2, "algorithms": {"ppo": None, "a2c": None}}), tmp_path / "out"
    )
    assert more.run() == {}  # cells and seeds that are new are added
    assert more.status()[1] == ("pole", "a2c", "2 of 2 runs complete, 100 % of the steps")


@pytest.mark.slow
def test_cross_play_is_against_the_other_algorithms_of_the_same_seed(tmp_path, in_process):
    experiment = Experiment(experiment_file(tmp_path, TAG), tmp_path / "out")
    experiment.run()
    frame = experiment.results()
    final = frame[(frame.final == 1) & (frame.metric == "eval/score")].set_index(["algorithm", "opponents"]).value
    assert set(final.index) == {("ppo", "a2c"), ("ppo", ""), ("a2c", "ppo"), ("a2c", "")}
    assert final["ppo", "a2c"] == final["ppo", ""]
    assert final["ppo", "a2c"] != final["a2c", "ppo"]


def test_partners_have_the_policies_of_another_seed(tmp_path, in_process):
    """The scores of every pair of seeds are those of an evaluation of their policies, agent by agent."""
    task = {"settings": {"env_id": "SimpleSpread-v0"}, "partners": "cross_play"}
    evaluation = {"every": 512, "episodes": 4, "greedy": True}
    file = {**POLE, "evaluation": evaluation, "seeds": 2, "tasks": {"spread": task}, "algorithms": {"ippo": None}}
    experiment = Experiment(experiment_file(tmp_path, file), tmp_path / "out")
    assert experiment.run() == {}
    frame = experiment.results()
    final = frame[(frame.final == 1) & (frame.metric == "eval/score")].set_index(["seed", "opponents"]).value
    pairs = {(a, f"partners of seed {b}") for a, b in ((0, 1), (1, 0))}
    assert set(final.index) == {*pairs, (0, ""), (1, "")}
    core = gpu_envs.make_core("SimpleSpread-v0", num_envs=40, device="cpu", autoreset="same_step")
    runs = [tmp_path / f"out/runs/spread/ippo/seed-{seed}" for seed in (1, 0, 0)]
    players = {f"agent_{index}": load_policy(best_checkpoint(run)) for index, run in enumerate(runs)}
    expected = evaluate_policies(core, players, seed=FINAL_SEED, greedy=True).agent_returns
    assert final[1, "partners of seed 0"] == pytest.approx(sum(estimate.mean for estimate in expected.values()))
    report = ExperimentReport(experiment.grid, frame, tmp_path / "report")
    report.write()
    (row,) = report.tables["partners"].to_dict("records")
    cross_scores = [final[a, f"partners of seed {b}"] for a, b in ((0, 1), (1, 0))]
    assert (row["runs"], row["cross-play"]) == (2, pytest.approx(sum(cross_scores) / 2))
    assert row["self-play"] == pytest.approx(final[:, ""].mean())
    assert row["difference"] == pytest.approx(row["cross-play"] - row["self-play"])
    assert "## With partners of other seeds" in (tmp_path / "report/report.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "algorithm"),
    [
        ("SimpleSpread-v0", {"algorithm": "happo"}),
        ("SimpleSpread-v0", {"algorithm": "mappo", "learner": {"network": "gru"}}),
        ("SimpleSpeakerListener-v0", {"algorithm": "ippo"}),
    ],
)
def test_partners_of_the_same_seed_are_self_play(tmp_path, in_process, env_id, algorithm):
    """With a policy per agent, hidden states and several groups; another seed has another score."""
    tasks = {"team": {"settings": {"env_id": env_id}, "partners": "cross_play"}}
    evaluation = {"every": 1024, "episodes": 4, "greedy": True}
    file = {**POLE, "evaluation": evaluation, "tasks": tasks, "algorithms": {"learner": algorithm}}
    experiment = Experiment(experiment_file(tmp_path, file), tmp_path / "out")
    assert experiment.run() == {}
    part = experiment.part_of(experiment.grid.cells[0], [0, 1])
    self_play, same, other = (part._scores(0, partners=seed)["eval/score"] for seed in (None, 0, 1))
    assert same == pytest.approx(self_play)
    assert other != pytest.approx(self_play)


def test_seeds_of_a_failed_cell_that_are_trained_play_against_later_opponents(tmp_path):
    experiment = Experiment(experiment_file(tmp_path, {**TAG, "seeds": 3}), tmp_path / "out")
    for seed in (0, 2):
        run = tmp_path / f"out/runs/tag/ppo/seed-{seed}"
        run.mkdir(parents=True)
        write_json(run / "trained.json", {"exit": 0})
    assert [(part.seeds, part.opponents) for part in experiment.parts_left()] == [
        ([0, 1, 2], ["a2c"]),
        ([0, 1, 2], ["ppo"]),
    ]
    experiment.failures = {"ppo on tag": "exit code 2"}
    assert [part.seeds for part in experiment.parts_left()] == [[0, 2], [0, 1, 2]]


def test_report_needs_a_complete_run(tmp_path):
    experiment = Experiment(experiment_file(tmp_path, POLE), tmp_path / "out")
    with pytest.raises(CheckpointError, match="expected final scores eval/score, got none; continue the experiment"):
        experiment.report()
    with pytest.raises(ConfigError, match="expected the file or the folder of an experiment, got another folder"):
        Experiment(tmp_path)


def run_of(path, *options, **arguments):
    words = [sys.executable, "-m", "gpu_envs", "experiment", "run", str(path), *options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **arguments)


def with_steps(steps):
    """Return a file with longer trainings, which save and evaluate every 2,048 steps."""
    settings = {**POLE["settings"], "total_steps": steps}
    return {**POLE, "settings": settings, "evaluation": {"every": 2048, "episodes": 4}}


def evaluations(folder):
    """Return the table without the seconds."""
    lines = (folder / "evaluations.csv").read_text().splitlines()
    return [[cell for index, cell in enumerate(line.split(",")) if index != 4] for line in lines]


@pytest.mark.slow
def test_killed_experiment_continues_with_the_same_table(tmp_path):
    path = experiment_file(tmp_path, with_steps(16_384))
    assert run_of(path, "--run-dir", str(tmp_path / "whole")).wait() == 0
    killed = run_of(path, "--run-dir", str(tmp_path / "out"), "--executor", "process", "--num-workers", "2")
    while not list((tmp_path / "out").glob("runs/*/*/seed-*/checkpoints/*/manifest.json")):
        assert killed.poll() is None
        time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    for _ in range(10):  # its processes save and end; until then they write in their folders
        continued = run_of(path, "--run-dir", str(tmp_path / "out"))
        text, _ = continued.communicate()
        if continued.returncode == 0:
            break
    assert continued.returncode == 0, text
    assert evaluations(tmp_path / "out") == evaluations(tmp_path / "whole")


@pytest.mark.slow
def test_interrupted_experiment_says_how_to_continue(tmp_path):
    path = experiment_file(tmp_path, with_steps(5_000_000))
    process = run_of(path, "--run-dir", str(tmp_path / "out"))
    while not list((tmp_path / "out").glob("runs/*/*/seed-*/checkpoints/*/manifest.json")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"continue with:\n  gpu-envs experiment run {tmp_path / 'out'}" in text


@pytest.mark.slow
def test_failed_cells_do_not_stop_others(tmp_path, capsys):
    bad = {"algorithm": "ppo", "learner": {"learning_rate": 1e30}}
    path = experiment_file(tmp_path, {**POLE, "seeds": 1, "algorithms": {"bad": bad, "ppo": None}})
    assert main(["experiment", "run", str(path), "--run-dir", str(tmp_path / "out")]) == 1
    text = capsys.readouterr().out
    assert "bad on pole failed: exit code 2: gpu-envs: error: " in text
    assert main(["experiment", "status", str(tmp_path / "out")]) == 0
    assert "ppo        1 of 1 runs complete" in capsys.readouterr().out
    assert main(["experiment", "report", str(tmp_path / "out")]) == 0


@pytest.mark.slow
def test_leagues_are_cells(tmp_path):
    overrides = {"total_steps": 512, "num_envs": 8, "learner.hidden_sizes": [8]}
    psro = {"command": "league train", "iterations": 1, "episodes_per_matchup": 8, "train_overrides": overrides}
    file = {**POLE, "seeds": 1, "algorithms": {"psro": psro}}
    file["tasks"] = {"kuhn": {"settings": {"env_id": "KuhnPoker-v0"}}}
    experiment = Experiment(experiment_file(tmp_path, file), tmp_path / "out")
    assert experiment.run() == {}
    frame = experiment.results()
    assert (frame.final == 1).all()
    assert "eval/score" in set(frame.metric)
