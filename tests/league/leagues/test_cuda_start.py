"""When a league starts CUDA: never on the CPU, and on a GPU only after `deterministic` has prepared cuBLAS."""

import os

import psro_runs
import pytest
import small_league
import torch
import warp as wp

from gpu_envs.runtime.core import Core
from league.cli.train import train_command
from league.executors.worker import perform
from league.game import Game
from league.leagues.league import League
from league.leagues.training_group import train_group
from league.matchups.matchup_distribution import MatchupDistribution
from league.storage.open_run import open_run
from league.storage.run_config import training
from trainers.config.train_config import CUBLAS

RPS = {"num_repetitions": 1}
DETERMINISTIC = {**small_league.TINY, "deterministic": True}


class StartedError(Exception):
    """CUDA was started."""


@pytest.fixture(autouse=True)
def pretended_gpu(monkeypatch):
    """Pretend a GPU; starting CUDA raises the setting of cuBLAS at that moment."""

    def start(*args, **kwargs):
        raise StartedError(os.environ.get(CUBLAS, ""))

    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            if torch.device(device).type == "cuda":
                start()
            return super().__new__(cls, device)

    make = Core.__init__

    def make_core(self, definition, **settings):
        if settings["device"].type == "cuda":
            start()
        make(self, definition, **settings)

    monkeypatch.setenv(CUBLAS, "")
    monkeypatch.delenv(CUBLAS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "_lazy_init", start)
    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(wp, "get_cuda_device_count", lambda: 1)
    monkeypatch.setattr(Core, "__init__", make_core)


def started():
    return pytest.raises(StartedError, match=r"^:4096:8$")


@pytest.mark.parametrize("kind", psro_runs.KINDS)
def test_psro_on_a_cpu_does_not_start_cuda(kind, tmp_path):
    game = Game.of("RockPaperScissors-v0", RPS) if kind == "rectified" else "KuhnPoker-v0"
    psro_runs.play(tmp_path / "run", game, iterations=1, **psro_runs.KINDS[kind])


@pytest.mark.parametrize("rules", ["alphastar", "pbt", "pfsp"])
def test_league_on_a_cpu_does_not_start_cuda(rules, tmp_path):
    game = Game.of("RockPaperScissors-v0", RPS)
    running = small_league.league(tmp_path / "run", rules, iterations=1, game=game)
    with running.store:
        running.run()


@pytest.mark.parametrize("kind", ["psro", "pipeline", "continue"])
def test_deterministic_psro_prepares_cublas_before_cuda_starts(kind, tmp_path):
    settings = {**psro_runs.KINDS[kind], "device": "cuda"}
    settings["train_overrides"] = {**settings["train_overrides"], "deterministic": True}
    with started():
        psro_runs.play(tmp_path / "run", iterations=1, **settings)


def test_deterministic_league_prepares_cublas_before_cuda_starts(tmp_path):
    config = small_league.LeagueConfig(iterations=1, steps=32, device="cuda", train_overrides=DETERMINISTIC)
    store = open_run(tmp_path / "run", Game.of("RockPaperScissors-v0", RPS), "league", config)
    with store, started():
        League(store, config, small_league.builder("pfsp")).run()


@pytest.mark.parametrize("algorithm", ["psro", "pfsp"])
def test_deterministic_league_command_prepares_cublas_before_cuda_starts(algorithm, tmp_path):
    overrides = [word for name in ("deterministic=true", "num_envs=8") for word in ("--train-overrides", name)]
    words = ["RockPaperScissors-v0", "--algorithm", algorithm, "--device", "cuda", "--iterations", "1", *overrides]
    with started():
        train_command([*words, "--run-dir", str(tmp_path / "run")])


def test_training_of_a_player_prepares_cublas_before_its_state_is_on_the_gpu():
    game = Game.of("RockPaperScissors-v0", RPS)
    config = training(game, "cuda", {**DETERMINISTIC, "total_steps": 64})
    draw = MatchupDistribution.self_play(game)
    state = {"weight": torch.zeros(3)}
    with started():
        train_group(
            {},
            run="run",
            group=("main",),
            previous=None,
            task="task",
            game=game,
            draw=draw,
            config=config,
            state={"player": state},
            draw_margin=0.0,
            seed=0,
            steps=32,
        )


def test_worker_takes_over_the_setting_of_cublas_before_cuda_starts(monkeypatch):
    def setting(policies):
        return os.environ.get(CUBLAS)

    assert perform(setting, {}, {}, "cpu", 1) is None
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)  # too late: a training must raise its error
    assert perform(setting, {}, {}, "cpu", 1, workspace=":4096:8") is None
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert perform(setting, {}, {}, "cpu", 1, workspace=":4096:8") == ":4096:8"
