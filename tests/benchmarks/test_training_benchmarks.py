"""Trainings and rollouts as contenders, and whole trainings, in a tiny mode."""

import os
from pathlib import Path

import pytest
import torch

from benchmarks.pages import targets
from benchmarks.throughput import isolated, rounds, timing
from benchmarks.throughput.comparisons import STEPS, ComparisonGroup, Round
from benchmarks.throughput.contenders import Contender, PPOSubject, RolloutSubject
from benchmarks.throughput.target import Effort
from benchmarks.training import lightning_overhead, rollouts, runs
from benchmarks.training.ppo import PPOTraining

TINY = Effort(repeats=2, seconds=0.01, patience=1)
PPO = {"rollout_length": 8, "num_epochs": 1, "num_minibatches": 1, "hidden_sizes": (16,)}
needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")


@pytest.mark.slow
def test_engines_and_rollouts_are_contenders():
    contenders = (
        Contender("kernels", "gpu_envs", PPOSubject("CartPole-v1", 4, PPO, engine="kernel")),
        Contender("PyTorch", "gpu_envs", PPOSubject("CartPole-v1", 4, PPO, engine="torch")),
        Contender("rollouts", "gpu_envs", RolloutSubject("CartPole-v1", 4, "kernels", threads=1)),
    )
    group = ComparisonGroup("mixed", "Mixed", (), unit=STEPS)
    rows = rounds.rows_of(group, rounds.play(group, Round("all", contenders), TINY))
    assert [row["interface"] for row in rows] == ["training, kernel", "training, torch", "rollout, kernels"]
    assert all(row["worlds"] == 4 and row["rate"] > 0 for row in rows)


@needs_two_cores
def test_training_on_one_thread_prepares_kernels_of_one_thread():
    """Kernels use all cores that they see when they are prepared."""
    limits = os.sched_getaffinity(0), torch.get_num_threads()
    training = PPOTraining("CartPole-v1", 4, 1, PPO, "kernel")
    (learner,) = (assignment.learner for assignment in training._trainer.assignments.values())
    assert (learner.engine.launches.threads, training._trainer.collector.kernels.plan.threads) == (1, 1)
    assert training.uses_kernels
    training.close()
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == limits


def test_kernels_train_with_one_thread_of_pytorch(monkeypatch):
    """Waiting threads of PyTorch would take the cores of the kernels."""
    counts = []
    for engine in ("kernel", "torch"):
        training = PPOTraining("CartPole-v1", 4, 2, PPO, engine)
        monkeypatch.setattr(training._trainer, "iterate", lambda: counts.append(torch.get_num_threads()))
        training.turn(1)
        training.close()
    assert counts == [1, 2]


def test_busy_processes_do_not_count_as_disturbance():
    with rounds.busy_processes(1) as pids:
        (pid,) = pids
        start = timing._Usage.now(pids)
        used = timing._used_by(pid)
        while timing._used_by(pid) < used + 0.2:
            pass
        alone, together = (timing._Usage.now(processes) for processes in ((), pids))
        assert together.measured >= alone.measured + 0.2
        assert together.measured - start.measured >= 0.2
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("interface", ["kernels", "torch", "collector"])
def test_rollout_advances_every_world(interface):
    play, core = rollouts.make_rollout("SimpleTag-v0", 8, interface, 1, 1)
    threads = torch.get_num_threads()
    index = core.episode_index.clone()
    play()
    assert (core.episode_index == index + 1).all()  # an episode has 25 steps
    assert torch.get_num_threads() == threads


def test_rollouts_have_equal_networks():
    """Contenders of a comparison do equal work."""
    cores = [rollouts.make_rollout("SimpleTag-v0", 2, name, 1, 1)[1] for name in ("kernels", "torch")]
    first, second = map(rollouts.networks, cores)
    assert [len(layers) for layers in first.values()] == [3, 3]
    for group, layers in first.items():
        for layer, other in zip(layers, second[group], strict=True):
            assert torch.equal(layer[0], other[0])


def test_engines_take_turns_with_every_seed(monkeypatch):
    played = []

    def measure(run, engine, seed):
        played.append((engine, seed))
        return runs.RunTime(1.0 + seed, "")

    monkeypatch.setattr(runs, "measure", measure)
    results = runs.alternate(runs.UNTIL_RETURN, ("kernel", "torch"), 2)
    assert played == [("torch", 0), ("kernel", 0), ("kernel", 1), ("torch", 1)]
    assert {engine: [timed.seconds for timed in times] for engine, times in results.items()} == {
        "kernel": [1.0, 2.0],
        "torch": [1.0, 2.0],
    }


@pytest.mark.slow
def test_training_is_timed_until_its_goal_or_by_its_log():
    short = ("CartPole-v1", "--total-steps", "4096", "--no-video")
    reached = runs.measure(runs.TimedTraining((*short, "--until-return", "1"), to_goal=True), "torch", 0)
    assert reached.result.startswith("reached 1 after ")
    assert reached.seconds > 0.5
    timed = runs.measure(runs.TimedTraining(short, to_goal=False), "torch", 0)
    assert 0 < timed.seconds < 60
    assert timed.result.startswith("agent trained: ")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_exit_code_of_a_training_is_read(code, tmp_path, monkeypatch):
    """A goal that is not reached, code 1, is no error."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho reached 475 after 9 steps, 3.5 s from the start\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setattr(runs.sys, "executable", str(program))
    run = runs.TimedTraining(("CartPole-v1",), to_goal=True)
    if code == 2:
        with pytest.raises(RuntimeError, match=r"train CartPole-v1 --engine torch .* failed:\nreached 475"):
            runs.measure(run, "torch", 0)
    else:
        assert runs.measure(run, "torch", 0).result == "reached 475 after 9 steps"


def test_seeds_are_trained_in_processes_and_in_one(monkeypatch):
    started = []
    monkeypatch.setattr(runs, "_train", lambda options, folder: started.append(tuple(options)))
    separate, together = runs.separate_and_together(runs.TimedTraining(("CartPole-v1",), to_goal=False), 3)
    alone = [("CartPole-v1", "--seed", str(seed)) for seed in range(3)]
    assert started == [*alone, ("CartPole-v1", "--num-seeds", "3")]
    assert min(separate, together) > 0


@pytest.mark.slow
def test_first_rollout_and_update_take_longer_without_a_kernel_cache():
    cold, cached = isolated.compile_times("CartPole-v1", "start-training")
    for phase in ("rollout", "update"):
        assert 0 < 3 * cached[phase] < cold[phase] < 120


def test_overhead_of_lightning_is_not_measured_without_it(monkeypatch):
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda name: None)
    (figure,) = targets._training_lightning(TINY)
    assert figure.value is None
    assert (figure.target, figure.note) == ("<= 1.1", "Lightning is not installed: gpu-envs[lightning]")


def test_overhead_of_lightning_is_the_ratio_of_alternating_turns():
    pytest.importorskip("lightning")
    result = lightning_overhead.measure(3)
    assert len(result.trainer) == len(result.lightning) == 3
    assert result.ratios == [b / a for a, b in zip(result.trainer, result.lightning, strict=True)]
    assert min(result.trainer) > 0
