"""Searches with Ray Tune: bad trials stop early or copy good ones, and a killed search can be resumed."""

import contextlib
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.options import parse_train
from trainers.cluster.tune_results import TrialResult
from trainers.cluster.tune_search import resume, tune
from trainers.cluster.tune_trial import TuneConfig
from trainers.config.train_config import TrainConfig
from trainers.storage import checkpoint
from trainers.storage.config_yaml import CONFIG_FILE, read_config

ray = pytest.importorskip("ray")
library = pytest.importorskip("ray.tune")
ROOT = Path(__file__).parents[2]
STEPS = 128 * 12
"""Steps of a trial: twelve rollouts."""


def cartpole(**changes):
    learner = PPOConfig(rollout_length=16, num_epochs=2, num_minibatches=2, hidden_sizes=(16,), learning_rate_final=0.0)
    settings = {"num_envs": 8, "total_steps": STEPS, "eval_episodes": 4, "num_threads": 1, "learner": learner}
    return TrainConfig("CartPole-v1", **{**settings, **changes})


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    """Return one cluster for all tests of this file, because its start takes seconds."""
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
        logging_level="ERROR",
    )  # fmt: skip
    yield
    ray.shutdown()


def saved(run_dir, name):
    """Return Tune's checkpoints of a trial by their steps."""
    checkpoints = (checkpoint.load(path) for path in sorted((run_dir / "tune" / name).glob("checkpoint_*")))
    return {entry.steps: entry for entry in checkpoints}


def test_asha_stops_bad_trials_early(tmp_path):
    """One after another, the good ones first: a bad one goes no further than the first rung."""
    plan = TuneConfig(num_samples=1, grace_period=256, reduction_factor=2, eval_interval=128, cpus=2)
    search = {"learner.learning_rate": "grid(0.02,0.01,1e-9,1e-8)", "learner.gamma": library.uniform(0.95, 0.96)}
    result = tune(cartpole(), search, tmp_path / "run", plan)
    assert result.complete
    assert len(result.trials) == 4
    by_rate = {trial.settings["learner.learning_rate"]: trial for trial in result.trials}
    assert {rate: (trial.state, trial.steps) for rate, trial in by_rate.items() if rate != 0.01} == {
        0.02: ("finished", STEPS),
        1e-9: ("stopped", 256),
        1e-8: ("stopped", 256),
    }
    assert result.trials[0].score == result.score == max(trial.score for trial in result.trials)
    assert all(0.95 <= trial.settings["learner.gamma"] <= 0.96 for trial in result.trials)

    assert checkpoint.load(result.checkpoint).score == pytest.approx(result.score)
    assert parse_train(shlex.split(result.command)[2:])[0] == result.config
    assert result.config.learner.learning_rate == result.trials[0].settings["learner.learning_rate"]
    written = json.loads((tmp_path / "run" / "tune.json").read_text())
    assert written["complete"]
    repeat = read_config(tmp_path / "run" / CONFIG_FILE)
    assert repeat["search"]["learner.gamma"] == "uniform(0.95,0.96)"
    assert (repeat["env_id"], repeat["num_samples"], repeat["cpus"]) == ("CartPole-v1", 1, 2)
    assert written["best"]["command"] == result.command
    assert [TrialResult(**trial).name for trial in written["trials"]] == [trial.name for trial in result.trials]
    with pytest.raises(
        ConfigError, match="expected a folder without a search; choose another, or continue with --resume"
    ):
        tune(cartpole(), search, tmp_path / "run", plan)


def test_pbt_copies_the_good_and_changes_settings(tmp_path):
    """A trial that cannot learn takes up one that does, and continues with its own settings, which take effect.

    One trial at a time: they take turns, so that the order of copies is fixed.
    """
    plan = TuneConfig("pbt", num_samples=1, perturbation_interval=512, eval_interval=128, cpus=2)
    search = {"learner.learning_rate": "grid(0.02,1e-9)", "learner.entropy_coef": "uniform(0,0.01)"}
    result = tune(cartpole(), search, tmp_path / "run", plan)
    assert result.complete
    assert [trial.state for trial in result.trials] == ["finished", "finished"]
    good, bad = (saved(tmp_path / "run", name) for name in ("trial-00000", "trial-00001"))
    assert len(good) == 12
    assert max(bad) == STEPS
    settings = {steps: entry.config["learner"] for steps, entry in bad.items()}
    assert all(0 <= entry["entropy_coef"] <= 0.01 for entry in settings.values())
    first = next(steps for steps, entry in settings.items() if entry["entropy_coef"] != settings[128]["entropy_coef"])
    assert (first - 128) % 512 == 0
    last = max(steps for steps in bad if steps < first)
    assert settings[last]["learning_rate"] == 1e-9
    # after the copy the rollout equals the other trial's, world by world; before it did not
    assert distance(good[first], bad[first], "core.") == 0
    assert distance(good[last], bad[last], "core.") > 0
    source, weights = good[first - 128], "learner.agent.net.actor."
    assert distance(source, bad[last], weights) > 0.01
    moved = distance(source, bad[first], weights)
    assert moved > 1e-3 if settings[first]["learning_rate"] == 0.02 else moved < 1e-6


def distance(first, other, prefix):
    """Return the largest difference between tensors of two checkpoints."""
    tensors = {name: value for name, value in first.state.items() if name.startswith(prefix) and value.numel()}
    assert tensors
    return max(float((value.double() - other.state[name].double()).abs().max()) for name, value in tensors.items())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_diverged_trials_are_failed_trials(env_id, tmp_path):
    plan = TuneConfig("none", num_samples=1, eval_interval=512, cpus=2)
    search = {"learner.learning_rate": "grid(1e-3,1e30)"}
    result = tune(dataclasses.replace(cartpole(), env_id=env_id), search, tmp_path / "run", plan)
    assert result.complete
    good, bad = result.trials
    assert (good.state, bad.state) == ("finished", "failed")
    assert "the training has diverged" in bad.error


SCRIPT = """
import sys
sys.path.insert(0, "tests/libraries")
from test_ray_tune import cartpole
from trainers.cluster.tune_search import TuneConfig, tune
search = {"learner.learning_rate": "grid(0.01,0.011,0.012,0.013,0.014)"}
tune(cartpole(), search, sys.argv[1], TuneConfig("none", num_samples=1, cpus=2, eval_interval=128))
"""


def test_killed_search_can_be_resumed(tmp_path):
    """After SIGKILL of the search, completed trials are not repeated and running trials are resumed."""
    run_dir, environ = tmp_path / "run", {**os.environ, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": "local"}
    environ["RUN_OF_THE_TEST"] = str(run_dir)
    killed = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(run_dir)], cwd=ROOT, env=environ, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 400
        while len(recorded(run_dir)) < 2:
            assert killed.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    deadline = time.monotonic() + 60
    while started_with(run_dir) and time.monotonic() < deadline:  # its cluster goes with it
        time.sleep(0.2)
    previous, finished = ended(run_dir), recorded(run_dir)
    assert 2 <= len(finished) < 5
    result = resume(run_dir, allow_pickle=True)
    assert result.complete
    assert len(result.trials) == 5
    assert {(trial.state, trial.steps) for trial in result.trials} == {("finished", STEPS)}
    assert len({trial.settings["learner.learning_rate"] for trial in result.trials}) == 5
    after = ended(run_dir)
    assert len(after) == 5
    repeated = {path.parents[1].name for path, when in previous.items() if after.get(path) != when}
    assert not repeated & finished
    assert resume(run_dir, allow_pickle=True).trials == result.trials


def started_with(run_dir):
    """Return the processes of the search, which have its folder in their environment."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if f"RUN_OF_THE_TEST={run_dir}\0".encode() in (process / "environ").read_bytes():
                processes.append(int(process.name))
    return processes


def recorded(run_dir):
    """Return the folders of trials that Tune recorded as ended; a trial that ended later may repeat its end."""
    names = set()
    for file in run_dir.glob("tune/experiment_state-*.json"):
        with contextlib.suppress(ValueError):  # it is being written
            trials = [json.loads(state) for state, _ in json.loads(file.read_text())["trial_data"]]
            names |= {f"trial-{trial['trial_id'][-5:]}" for trial in trials if trial["status"] == "TERMINATED"}
    return names


def ended(run_dir):
    """Return the times of the last checkpoints of trials, from their manifests."""
    files = sorted(run_dir.glob("tune/trial-*/checkpoint_*/manifest.json"))
    return {file: file.stat().st_mtime_ns for file in files if f'"steps": {STEPS},' in file.read_text()}
