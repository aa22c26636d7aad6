"""The examples that need nothing more than this library; the others are tested in tests/libraries."""

import importlib.util
from pathlib import Path

import pytest
import torch

from gpu_envs.cli import main
from league.storage.run_store import RunStore
from trainers.config.presets import preset
from trainers.storage import checkpoint
from trainers.storage.config_yaml import read_config

EXAMPLES = Path(__file__).parents[2] / "examples"


def script(name):
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_torch_runs():
    returns = script("torch_ppo").train(iterations=2, num_envs=8, device="cpu")
    assert len(returns) == 2


@pytest.mark.learning
def test_plain_torch_learns():
    returns = script("torch_ppo").train(iterations=34, device="cpu")
    assert sum(returns[-3:]) > 2 * sum(returns[:3])


@pytest.mark.parametrize("name", ["torch_ppo", "lightning_ppo"])
def test_single_files_are_read_at_a_glance(name):
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def alphastar(run_dir, *options):
    """Train the league of the configuration file, and return its summaries."""
    config = str(EXAMPLES / "alphastar_multi_cartpole.yaml")
    argv = ["league", "train", "--config", config, "--device", "cpu", "--run-dir", str(run_dir), *options]
    assert main(argv) == 0
    with RunStore.open(run_dir, write=False) as store:
        assert {role: len(population) for role, population in store.populations.items()} == {"p0": 2, "p1": 2}
        seats = {seat.name: seat.members for seat in store.game.seats}
        assert seats == {"p0": ("agent_0", "agent_2"), "p1": ("agent_1", "agent_3")}
        assert store.config["train_overrides"]["algorithm"] == "appo"
        return list(store.iterations().values())


@pytest.mark.slow
def test_alphastar_league_of_the_configuration_file_trains(tmp_path):
    rows = alphastar(tmp_path / "run", "--iterations", "2", "--steps", "2000", "--episodes-per-matchup", "8")
    assert len(rows) == 3


@pytest.mark.learning
def test_alphastar_league_of_the_configuration_file_reaches_the_return_of_rllib(tmp_path):
    """RLlib's example stops at a return of 600 of its four agents."""
    last = alphastar(tmp_path / "run", "--iterations", "5", "--episodes-per-matchup", "8")[-1]
    assert last["return"].keys() == {"main_p0_0", "main_p1_0"}
    assert min(last["return"].values()) > 300


@pytest.mark.slow
def test_two_level_training_of_the_configuration_file_runs(tmp_path):
    """A short run of both phases: the planner's network changes in the second one only."""
    run = tmp_path / "run"
    few = ["--num-envs", "2", "--learner.rollout-length", "20", "--learner.num-minibatches", "1"]
    clocks = ["--decide-every", "planner=5", "--learn-after", "planner=80", "--total-steps", "160"]
    storage = ["--checkpoint-interval", "1", "--keep-last-checkpoints", "4", "--no-video", "--run-dir", str(run)]
    config = ["--config", str(EXAMPLES / "gather_trade_build_planner.yaml"), "--device", "cpu", "--env-arg", "period=5"]
    assert main(["train", *config, *few, *clocks, *storage]) == 0
    saved = [checkpoint.load(run / "checkpoints" / f"{iteration:09d}") for iteration in (1, 2, 4)]
    for name, is_equal in (("agent", False), ("planner", True)):
        first, second, last = (next(iter(training.policy(name).actor.parameters())) for training in saved)
        assert torch.equal(first, second) == is_equal, name
        assert not torch.equal(second, last), name


def test_planners_file_has_the_preset_of_a_gpu():
    config = read_config(EXAMPLES / "gather_trade_build_planner.yaml")
    defaults = preset(config["env_id"], config["device"], config["algorithm"])
    for name in ("num_envs", "total_steps", "checkpoint_interval"):
        assert config[name] == getattr(defaults, name), name
    for name, value in config["learner"].items():
        expected = getattr(defaults.learner, name)
        assert value == (list(expected) if isinstance(expected, tuple) else expected), name
