"""Ray Tune drives our trainings: bad ones end early or copy good ones, and a killed search goes on."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers import checkpoint
from trainers.arguments import parse_train
from trainers.cluster.tune import Plan, Trial, resume, tune
from trainers.commands import _config
from trainers.config import TrainConfig
from trainers.ppo import PPOConfig

ray = pytest.importorskip("ray")
library = pytest.importorskip("ray.tune")
ROOT = Path(__file__).parents[2]
STEPS = 128 * 12
"""Of a trial: twelve rollouts."""


def cartpole(**changes):
    learner = PPOConfig(rollout_length=16, epochs=2, minibatches=2, hidden=(16,), learning_rate_end=0.0)
    settings = {"num_envs": 8, "total_steps": STEPS, "eval_episodes": 4, "threads": 1, "learner": learner}
    return TrainConfig("CartPole-v1", **{**settings, **changes})


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    """One for all tests here: its processes need seconds to start."""
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
        logging_level="ERROR",
    )  # fmt: skip
    yield
    ray.shutdown()


def rows(run_dir, trial):
    lines = (run_dir / "tune" / trial.name / "result.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_asha_ends_bad_trials_early(tmp_path):
    """Trials of a grid, the good ones first; a bad one that comes later goes no further than the first rung."""
    plan = Plan(samples=1, grace=256, reduction=2, interval=128)
    search = {"learner.learning_rate": "grid(0.02,0.01,1e-9,1e-8)", "learner.gamma": library.uniform(0.95, 0.96)}
    found = tune(cartpole(), search, tmp_path / "run", plan)
    assert found.complete
    assert len(found.trials) == 4
    told = {trial.settings["learner.learning_rate"]: trial for trial in found.trials}
    assert told[1e-8].state == "stopped"
    assert told[1e-8].steps < STEPS
    assert [trial.state for trial in found.trials].count("finished") >= 1
    assert found.trials[0].score == found.score == max(trial.score for trial in found.trials)
    assert all(0.95 <= trial.settings["learner.gamma"] <= 0.96 for trial in found.trials)

    saved = checkpoint.load(found.checkpoint)
    assert saved.score == pytest.approx(found.score)
    args, _ = parse_train(shlex.split(found.command)[2:])
    assert _config(args) == found.config
    assert found.config.learner.learning_rate == found.trials[0].settings["learner.learning_rate"]
    written = json.loads((tmp_path / "run" / "tune.json").read_text())
    assert written["complete"]
    assert written["best"]["command"] == found.command
    assert [Trial(**trial).name for trial in written["trials"]] == [trial.name for trial in found.trials]
    with pytest.raises(ConfigError, match="there is a search already; --resume"):
        tune(cartpole(), search, tmp_path / "run", plan)


def test_pbt_copies_the_good_and_changes_settings(tmp_path):
    """A trial that cannot learn takes the weights of one that does, and goes on with settings of its own."""
    plan = Plan("pbt", samples=1, perturb=512, interval=128)
    search = {"learner.learning_rate": "grid(1e-9,0.02)", "learner.entropy": "uniform(0,0.01)"}
    found = tune(cartpole(), search, tmp_path / "run", plan)
    assert found.complete
    told = [rows(tmp_path / "run", trial) for trial in found.trials]
    copied = [each for each in told if each[0]["config"]["learner.learning_rate"] == 1e-9]
    assert len(copied) == 1
    first, last = copied[0][0], copied[0][-1]
    assert first["agent/learning_rate"] < 1e-8
    assert (last["config"]["learner.entropy"], last["agent/learning_rate"]) != (first["config"]["learner.entropy"], 0.0)
    entropies = {row["config"]["learner.entropy"] for row in copied[0]}
    assert len(entropies) > 1
    assert all(0 <= entropy <= 0.01 for entropy in entropies)
    for name in sorted({trial.name for trial in found.trials}):
        every = sorted((tmp_path / "run" / "tune" / name).glob("checkpoint_*"))
        assert checkpoint.load(every[-1]).steps == STEPS


def test_trials_that_diverge_are_told_of(tmp_path):
    plan = Plan("none", samples=1, interval=512)
    search = {"learner.learning_rate": "grid(1e-3,1e30)"}
    found = tune(cartpole(), search, tmp_path / "run", plan)
    assert found.complete
    good, bad = found.trials
    assert (good.state, bad.state) == ("finished", "failed")
    assert "the training has diverged" in bad.why
    with pytest.raises(GpuEnvsError, match="no trial of 1 came to a score: .*the training has diverged"):
        tune(cartpole(), {"learner.learning_rate": "choice(1e30)"}, tmp_path / "other", plan)


SCRIPT = """
import sys
sys.path.insert(0, "tests/libraries")
from test_ray_tune import cartpole
from trainers.cluster.tune import Plan, tune
search = {"learner.learning_rate": "grid(0.01,0.011,0.012,0.013,0.014)"}
tune(cartpole(), search, sys.argv[1], Plan("none", samples=1, cpus=1, interval=128), progress=True)
"""


def test_a_killed_search_goes_on(tmp_path):
    """SIGKILL of the process that searches: what ended is not run again, what was going on goes on."""
    run_dir, where = tmp_path / "run", {**os.environ, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": "local"}
    killed = subprocess.Popen([sys.executable, "-c", SCRIPT, str(run_dir)], cwd=ROOT, env=where, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while len(ended(run_dir)) < 2:
            assert killed.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    time.sleep(2)  # its cluster goes with it
    before = {path: path.read_text() for path in ended(run_dir)}
    assert len(before) < 5
    found = resume(run_dir)
    assert found.complete
    assert len(found.trials) == 5
    assert {trial.state for trial in found.trials} == {"finished"}
    assert len({trial.settings["learner.learning_rate"] for trial in found.trials}) == 5
    again = [path for path, text in before.items() if path.read_text() != text]
    assert len(again) <= 1  # the one that ended in the moment of the kill, of which nobody knew yet
    assert resume(run_dir).trials == found.trials


def ended(run_dir):
    """Results of the trials that came to their end."""
    files = run_dir.glob("tune/trial-*/result.json")
    return [path for path in files if f'"steps": {STEPS}' in path.read_text()]
