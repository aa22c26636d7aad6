"""Why a training ends early: a goal, no progress, a signal, numbers that are not finite; and what it says of it."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from checkpoints import assert_equal_checkpoints, iterations_of
from toy import announce
from toy_core import Identity
from toy_run import make_corridor, toy_config

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.train import train_command
from trainers.config.train_config import CUBLAS, TrainConfig
from trainers.evaluation.scripted_policies import ScriptedPolicy
from trainers.models.policy import Policy
from trainers.runner import training_evaluator
from trainers.runner.early_stopping import EarlyStopping
from trainers.runner.episode_statistics import RECENT, EpisodeStatistics
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

ROOT = Path(__file__).parents[3]
TINY = PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=1, hidden_sizes=(8,))


def make_identity(config, num_envs, seed, **settings):
    return Identity(num_envs, seed=seed)


def identity_config(iterations: int, **changes) -> TrainConfig:
    settings = {
        "num_envs": 8,
        "checkpoint_interval": 1,
        "eval_episodes": 8,
        "num_threads": 1,
        "learner": TINY,
        **changes,
    }
    return TrainConfig(env_id="Identity", total_steps=iterations * 64, **settings)


def test_episodes_are_kept_in_the_order_of_time_and_by_group():
    core = Identity(2)  # even: agents 0 and 2, odd: agent 1
    episodes = EpisodeStatistics(core, 2)
    for rollout in range(60):
        for t in range(2):
            now = 2.0 * rollout + t
            info = {
                "episode_return": torch.tensor([[now, 10 * now, now + 2], [7.0, 7.0, 7.0]]),
                "episode_length": torch.tensor([[3, 5, 9], [1, 1, 1]], dtype=torch.int32),
            }
            episodes.store(t, torch.tensor([True, False]), info, core.episode_results)  # world 1 continues
        assert len(episodes.recent_returns()) == (0 if rollout < 50 else 2)
        row = episodes.read()
        assert row["even/episode_return_mean"] == 2 * rollout + 1.5
        assert row["odd/episode_return_mean"] == 20 * rollout + 5
        assert (row["even/episode_length_mean"], row["odd/episode_length_mean"]) == (6, 5)
    last = torch.arange(120 - RECENT, 120, dtype=torch.float64)
    assert torch.equal(episodes.recent, torch.stack([last + 1, 10 * last], 1))
    assert episodes.recent_returns() == {"even": 70.5, "odd": 695.0}
    episodes.over.zero_()
    assert all(math.isnan(value) for value in episodes.read().values())
    assert len(episodes.recent) == RECENT


def test_reached_goal_ends_the_run_with_a_checkpoint(tmp_path):
    goal = -0.9  # of walkers that pay 0.05 a step, for 20 steps at most
    trainer = Trainer(toy_config(400, until_return=goal, checkpoint_interval=1000), tmp_path, None, make_corridor)
    last = trainer.run()
    assert trainer.reached
    assert 13 <= trainer.iteration < 400  # RECENT episodes of at most 20 steps in 8 worlds
    assert last == tmp_path / "checkpoints" / f"{trainer.iteration:09d}"
    assert float(trainer.episodes.recent.mean()) >= goal
    resumed = Trainer(toy_config(400, until_return=goal), tmp_path, checkpoint.load(tmp_path), make_corridor)
    resumed.run()
    assert resumed.iteration == trainer.iteration  # it had been reached


def test_every_group_has_to_reach_the_goal(tmp_path):
    trainer = Trainer(identity_config(3, until_return=0.5), tmp_path, None, make_identity)
    trainer.episodes.recent = torch.tensor([[0.6, 0.4]], dtype=torch.float64).expand(RECENT, 2)
    assert not trainer.reached
    trainer.episodes.recent = torch.tensor([[0.6, 0.5]], dtype=torch.float64).expand(RECENT, 2)
    assert trainer.reached
    trainer.episodes.recent = trainer.episodes.recent[1:]
    assert not trainer.reached
    trainer.log.close()


CARTPOLE = ["CartPole-v1", "--device", "cpu", "--num-threads", "1", "--num-envs", "64", "--learner.hidden_sizes", "8"]


@pytest.mark.slow
def test_train_until_a_return(tmp_path, capsys):
    options = ["--until-return", "15", "--total-steps", "100000", "--learner.num_epochs", "1"]
    code = """
import sys, time
began = time.monotonic()
from trainers.cli.train import train_command
print("imports:", time.monotonic() - began)
sys.exit(train_command(sys.argv[1:]))
"""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *CARTPOLE, *options, "--run-dir", str(tmp_path / "a")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lasted = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("reached 15 after "))
    steps, remainder = line.removeprefix("reached 15 after ").split(" steps, ")
    assert 2048 <= int(steps.replace(",", "")) < 100_000
    imports = float(done.stdout.partition("imports: ")[2].split()[0])
    trained = float(read_rows(tmp_path / "a" / "metrics.csv")[-1]["seconds"])
    # imports count; the time is printed in tenths, and the kernel counts in hundredths
    assert imports + trained - 0.1 < float(remainder.split(" s from process start")[0]) <= lasted + 0.1
    files = {path.name for path in (tmp_path / "a").iterdir()}
    assert not files & {"video.mp4", "cross_play.json", "curves.png"}
    assert (tmp_path / "a" / "checkpoints").exists()


def test_missed_goal_returns_exit_code_1(tmp_path, capsys):
    options = ["--until-return", "400", "--total-steps", "6144", "--learner.num_epochs", "1", "--eval-episodes", "0"]
    assert train_command([*CARTPOLE, *options, "--run-dir", str(tmp_path / "a")]) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("not reached"))
    assert line.startswith("not reached: 400 in 6,144 steps (mean return per agent over 100 episodes: agent ")
    options[options.index("6144")] = "10"
    assert train_command([*CARTPOLE, *options, "--num-envs", "2", "--run-dir", str(tmp_path / "b")]) == 1
    assert "not reached: 400 in 64 steps (fewer than 100 episodes ended)" in capsys.readouterr().out


def test_patience_counts_evaluations_without_a_better_score():
    patience = EarlyStopping(2)
    for score, since in ((-3.0, 0), (-3.0, 1), (-2.0, 0), (-4.0, 1), (-2.5, 2)):
        assert not patience.should_stop
        patience.update(score)
        assert patience.evaluations_since_best == since
    assert patience.should_stop
    forever = EarlyStopping(0, best_score=1.0, evaluations_since_best=1000)
    assert not forever.should_stop


def test_run_without_progress_stops_and_keeps_its_best_checkpoint(tmp_path, monkeypatch):
    scores = iter([1.0, 3.0, 2.0, 2.5, 3.0, 9.0])
    scored = lambda self, policies: {"eval/walker/return": 0.0, "eval/score": next(scores)}  # noqa: E731
    monkeypatch.setattr(training_evaluator.TrainingEvaluator, "scores", scored)
    trainer = Trainer(toy_config(30, patience=3, keep_last_checkpoints=1), tmp_path, None, make_corridor)
    assert trainer.run() == tmp_path / "checkpoints" / "000000015"
    assert trainer.early_stopping.should_stop
    assert trainer.stopped_by is None
    assert checkpoint.best(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "000000015"  # the later of equals
    scores = [row["eval/score"] for row in read_rows(tmp_path / "metrics.csv") if row["eval/score"]]
    assert scores == ["1", "3", "2", "2.5", "3"]


def test_early_stopping_after_a_resume_equals_an_uninterrupted_run(tmp_path, monkeypatch):
    evaluate = training_evaluator.TrainingEvaluator.scores

    def fall(self, policies):
        """Return a score that only falls; the evaluation itself, and so the streams, are as always."""
        running = next(trainer for trainer in trainers if trainer.evaluator is self)
        return {**evaluate(self, policies), "eval/score": -float(running.steps)}

    trainers = []
    monkeypatch.setattr(training_evaluator.TrainingEvaluator, "scores", fall)
    uninterrupted, parts = tmp_path / "whole", tmp_path / "parts"
    trainers.append(Trainer(toy_config(30, patience=4), uninterrupted, None, make_corridor))
    trainers[-1].run()
    part = Trainer(toy_config(30, patience=4), parts, None, make_corridor)
    trainers.append(part)
    for _ in range(10):
        part.iterate()
    part.log.close()
    resumed = Trainer(toy_config(30, patience=4), parts, checkpoint.load(parts), make_corridor)
    trainers.append(resumed)
    assert (resumed.iteration, resumed.early_stopping) == (9, EarlyStopping(4, -192.0, 2))
    assert len(resumed.episodes.recent) > 0
    resumed.run()
    assert_equal_checkpoints(uninterrupted, parts)
    assert iterations_of(parts) == list(range(1, 16))  # 3 was the best, 6, 9, 12 and 15 were not


@pytest.mark.parametrize("name", ["trainer.evaluations_since_best", "episodes.recent"])
def test_state_without_stopping_counters_is_refused(tmp_path, name):
    Trainer(toy_config(3), tmp_path, None, make_corridor).run()
    saved = checkpoint.load(tmp_path)
    del saved.state[name]
    with pytest.raises(CheckpointError, match=f"{name}: expected a .*, got None"):
        Trainer(toy_config(4), tmp_path, saved, make_corridor)


def test_patience_and_opponents_need_evaluations():
    for change in ({"patience": 3}, {"eval_opponents": "out/a"}):
        with pytest.raises(ConfigError, match=r"(patience|eval_opponents) = .*: has no effect with eval_episodes = 0"):
            toy_config(3, eval_episodes=0, **change)


def test_evaluations_against_the_policies_of_a_checkpoint(tmp_path, monkeypatch):
    Trainer(identity_config(2, seed=5), tmp_path / "other", None, make_identity).run()
    against = str(tmp_path / "other")
    config = identity_config(1, eval_opponents=against)
    trainer = Trainer(config, tmp_path / "run", None, make_identity)
    games, play = [], training_evaluator.evaluate_policies
    monkeypatch.setattr(
        training_evaluator,
        "evaluate_policies",
        lambda core, players, **options: (games.append(players), play(core, players, **options))[1],
    )
    trainer.run()
    first, second = games
    assert first.keys() == second.keys() == {"even", "odd"}
    assert (first["odd"], second["even"]) == (trainer.evaluator.opponents["odd"], trainer.evaluator.opponents["even"])
    expected = checkpoint.load(tmp_path / "other").policy("odd")
    assert torch.equal(first["odd"].actor.module.body[0].weight, expected.actor.module.body[0].weight)
    learned = trainer.assignments["even"].learner.policy()
    assert torch.equal(first["even"].actor.module.body[0].weight, learned.actor.module.body[0].weight)
    row = read_rows(tmp_path / "run" / "metrics.csv")[0]
    mean = (float(row["eval/even/return"]) + float(row["eval/odd/return"])) / 2
    assert float(row["eval/score"]) == pytest.approx(mean)
    assert checkpoint.load(tmp_path / "run").score == pytest.approx(mean)


def test_evaluations_against_scripted_policies(tmp_path, monkeypatch):
    settings = {"num_envs": 8, "total_steps": 64, "eval_episodes": 8, "num_threads": 1, "learner": TINY}
    config = TrainConfig("SimpleTag-v0", env={"max_cycles": 5}, eval_opponents="scripted", **settings)
    games, play = [], training_evaluator.evaluate_policies
    monkeypatch.setattr(
        training_evaluator,
        "evaluate_policies",
        lambda core, players, **options: (games.append((core, players)), play(core, players, **options))[1],
    )
    Trainer(config, tmp_path / "run").run()
    (core, chasers), (_, prey) = games
    for script, opponent in ((chasers["agent"], prey["agent"]), (prey["adversary"], chasers["adversary"])):
        assert isinstance(script, ScriptedPolicy)
        assert script.core is core  # it reads the worlds that it plays in
        assert isinstance(opponent, Policy)
    announce(monkeypatch)
    with pytest.raises(ConfigError, match=r"^Toy-v0: there are scripted policies for SimpleTag-v0, "):
        Trainer(TrainConfig("Toy-v0", sharing="agent", eval_opponents="scripted", **settings), tmp_path / "toy")
    assert not (tmp_path / "toy").exists()


def test_unfit_opponents_are_refused_before_the_folder_is_created(tmp_path):
    Trainer(identity_config(1), tmp_path / "identity", None, make_identity).run()
    Trainer(toy_config(1), tmp_path / "corridor", None, make_corridor).run()
    out = tmp_path / "run"
    with pytest.raises(CheckpointError, match="env_id: expected Identity, got Corridor"):
        Trainer(identity_config(1, eval_opponents=str(tmp_path / "corridor")), out, None, make_identity)
    with pytest.raises(ConfigError, match="eval_opponents: all agents of Corridor share one policy"):
        Trainer(toy_config(1, eval_opponents=str(tmp_path / "corridor")), out, None, make_corridor)
    config = identity_config(1, eval_opponents=str(tmp_path / "identity"), sharing="agent")
    with pytest.raises(CheckpointError, match="expected a policy among even, odd, got 'even_0'"):
        Trainer(config, out, None, make_identity)
    assert not out.exists()


@pytest.mark.parametrize("name", ["actor.body.0.weight", "normalizer.mean"])
def test_nonfinite_parameter_ends_the_run(tmp_path, name):
    """Even where every loss is."""
    trainer = Trainer(toy_config(9), tmp_path, None, make_corridor)
    for _ in range(5):
        trainer.iterate()
    learner = trainer.assignments["walker"].learner
    update = learner.update

    def broken():
        metrics = update()
        dict(learner.net.state_dict())[name].view(-1)[-1] = torch.inf
        return metrics

    learner.update = broken
    with pytest.raises(
        GpuEnvsError, match=rf"iteration 6: walker/{name} is not finite: .*before is .*000000003\."
    ) as e:
        trainer.run()
    assert "\n" not in str(e.value)
    assert [path.name for path in checkpoint.every(tmp_path / "checkpoints")] == ["000000003"]


def test_signal_during_an_evaluation_saves_its_score(tmp_path, monkeypatch):
    play = training_evaluator.evaluate_policies

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)
        return play(*args, **kwargs)

    monkeypatch.setattr(training_evaluator, "evaluate_policies", interrupted)
    trainer = Trainer(toy_config(30), tmp_path, None, make_corridor)
    trainer.run()
    assert (trainer.stopped_by, trainer.iteration) == (signal.SIGTERM, 3)
    assert checkpoint.load(tmp_path).score is not None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_deterministic_run_repeats_and_restores_the_setting(tmp_path):
    flags = []
    for name in "ab":
        trainer = Trainer(toy_config(4, deterministic=True), tmp_path / name, None, make_corridor)
        trainer.progress = lambda steps, text: flags.append(torch.are_deterministic_algorithms_enabled())
        trainer.run()
    assert flags == [True] * 8
    assert not torch.are_deterministic_algorithms_enabled()
    assert_equal_checkpoints(tmp_path / "a", tmp_path / "b")
    with pytest.raises(RuntimeError, match="stop"), toy_config(1, deterministic=True).in_force():
        raise RuntimeError("stop")
    assert not torch.are_deterministic_algorithms_enabled()


def test_cublas_is_made_deterministic_before_cuda_starts(monkeypatch):
    monkeypatch.setenv(CUBLAS, "")
    toy_config(1, deterministic=True).prepare()
    toy_config(1, device="cuda").prepare()
    assert not os.environ[CUBLAS]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(ConfigError, match=r"CUDA was already started .* set CUBLAS_WORKSPACE_CONFIG=:4096:8"):
        toy_config(1, device="cuda:0", deterministic=True).prepare()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    toy_config(1, device="cuda:0", deterministic=True).prepare()
    assert os.environ[CUBLAS] == ":4096:8"
