"""Tests of killed, interrupted and reopened leagues: results equal an undisturbed run's bit for bit."""

import subprocess
import sys
from pathlib import Path

import pytest
from small_league import RPS, builder, league, records, trained
from small_league import train as train_alone

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.leagues.builder import LeagueBuilder
from league.leagues.league import League

SCRIPT = Path(__file__).parents[1] / "small_league.py"
KUHN = Game.of("KuhnPoker-v0")
LONG = Game.of("RockPaperScissors-v0", {"num_repetitions": 7})
TAG = Game.of("SimpleTag-v0", {"max_cycles": 7})
WIDE = {"num_envs": 6, "learner.rollout_length": 5}


def killed(rules: str, points: int, tmp_path: Path) -> dict:
    """Kill runs at random points, check that all end with the records of an undisturbed run, and return these."""
    command = [sys.executable, str(SCRIPT), rules, str(tmp_path), str(points)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[1]) >= points, run.stdout
    expected = records(tmp_path / "whole")
    for point in range(points):
        actual = records(tmp_path / str(point))
        for name, rows in expected.items():
            assert actual[name] == rows, (point, name)
    return expected


@pytest.mark.slow
def test_killed_alphastar_league_resumes_with_equal_results(tmp_path):
    """Compare tasks, matches, win rates, policies and learners by sha256, payoffs, iterations and transitions."""
    tables = killed("alphastar", 20, tmp_path)
    changes = tables["iterations"][2][1]["changes"]
    assert {"freeze main_0", "freeze main_exploiter_0", "reset main_exploiter_0"} <= set(changes)
    names = [row[1] for row in tables["tasks"]]
    assert len({*names}) == len(names)
    payoffs = [name for name in names if "payoffs" in name]
    evaluations = [name for name in names if name.endswith("/evaluation")]
    assert evaluations == [f"{number}/evaluation" for number in range(4)]
    assert len(names) - len(payoffs) - len(evaluations) == 1 + 3 * (4 + 1)
    assert names.index("2/payoffs/0") < names.index("3/change")  # some cells are played during training
    assert "payoffs/0/0" in payoffs
    for number, row in tables["iterations"][1:]:
        assert all(steps == 32 for steps in row["steps"].values()), number  # no player trained twice
        assert sum(row["matches_by_role"].values()) == sum(row["episodes"].values()) == 4 * 32


@pytest.mark.slow
def test_killed_population_based_training_resumes_with_equal_results(tmp_path):
    tables = killed("pbt", 8, tmp_path)
    assert any(change.startswith("copy") for _, row in tables["iterations"] for change in row["changes"])


class Stop(BaseException):
    """Interrupt by the user."""


@pytest.mark.parametrize(
    ("game", "rules", "train", "iterations"),
    [
        pytest.param(KUHN, "alphastar", WIDE, 3, marks=pytest.mark.slow),
        (LONG, "pfsp", {**WIDE, "learner.network": "gru"}, 2),  # episodes continue across iterations
        pytest.param(TAG, "pfsp", {**WIDE, "learner.network": "gru"}, 3, marks=pytest.mark.slow),
        pytest.param(KUHN, "pbt", {**WIDE, "learner.network": "gru"}, 3, marks=pytest.mark.slow),
        pytest.param(RPS, "alphastar", {"algorithm": "dqn"}, 3, marks=pytest.mark.slow),
    ],
)
def test_reopened_or_interrupted_league_gives_equal_results(game, rules, train, iterations, tmp_path):
    if "algorithm" in train:
        train = {**train, "learner.learning_starts": 16, "learner.batch_size": 8, "learner.replay_size": 64}
        train |= dict.fromkeys(("learner.num_epochs", "learner.num_minibatches"))
    settings = {"game": game, "iterations": iterations, "steps": 60, "episodes": 6, **train}

    uninterrupted = league(tmp_path / "whole", rules, **settings)
    uninterrupted.run()
    uninterrupted.store.close()
    opened = league(tmp_path / "opened", rules, **settings)
    opened.begin()
    for number in range(1, iterations + 1):
        names = opened.state.roster.learning()
        train_alone(opened, number, names[0])
        opened.store.close()  # in the middle of an iteration
        opened = league(tmp_path / "opened", rules, **settings)
        assert f"{number}/train/{names[0]}" in trained(tmp_path / "opened")
        opened.iterate(number)
        opened.store.close()
        opened = league(tmp_path / "opened", rules, **settings)
    opened.run()
    opened.store.close()

    stopped = league(tmp_path / "stopped", rules, **settings)
    build, iterate, times = stopped.builder.build_league, [], []

    def stopping(result):
        times.append(result.iteration)
        if times.count(result.iteration) == 1:
            raise Stop
        return build(result)

    stopped.builder.build_league = stopping
    stopped.progress = lambda *_: iterate.append(0) or _stop_at(len(iterate), 2)
    for _ in range(8):
        try:
            stopped.run()
            break
        except Stop:
            continue
    assert times == sorted(2 * [*range(1, iterations + 1)])
    stopped.store.close()

    expected = records(tmp_path / "whole")
    for other in ("opened", "stopped"):
        actual = records(tmp_path / other)
        for name, rows in expected.items():
            assert actual[name] == rows, (other, name)


def _stop_at(count: int, when: int) -> None:
    if count == when:
        raise Stop


def test_run_resumes_with_more_iterations_but_not_with_another_builder(tmp_path):
    first = league(tmp_path, "pfsp", iterations=1)
    first.run()
    first.store.close()
    longer = league(tmp_path, "pfsp", iterations=2)
    assert len(longer.run()) == 3
    longer.store.close()
    assert len(trained(tmp_path)) == 2
    with pytest.raises(ConfigError, match="steps"):
        league(tmp_path, "pfsp", iterations=2, steps=64)
    running = league(tmp_path, "pfsp", iterations=2)
    for other in ("uniform", "pbt"):
        with pytest.raises(CheckpointError, match=r"expected the builder SelfPlayBuilder\(.*pfsp.*, got "):
            League(running.store, running.config, builder(other))
    assert isinstance(builder("pbt"), LeagueBuilder)
    running.store.close()
