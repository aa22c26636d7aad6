"""Results of a league do not depend on the executor, the order of completion, or interruptions."""

import gc
import pickle
import random
import sqlite3
from pathlib import Path

import psro_runs
import pytest
import torch
from shuffled import Shuffled
from small_league import RPS, league, records

from gpu_envs.errors import GpuEnvsError
from league.executors.transport import packed, unpacked
from league.game import Game
from league.leagues import training_group
from league.leagues.league import League
from league.matchups.best_response import BestResponseTraining
from league.matchups.matchup_distribution import MatchupDistribution
from league.matchups.matchups import simulate_matchups
from league.policies.random import RandomPolicy
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 7})
WIDE = {"num_envs": 6, "learner.rollout_length": 5, "steps": 60}  # episodes continue in the next iteration
CASES = [
    (RPS, "alphastar", {"iterations": 2}),
    (KUHN, "alphastar", {**WIDE, "learner.network": "gru"}),
    pytest.param(TAG, "pbt", WIDE, marks=pytest.mark.slow),
    (KUHN, "latest", {}),
]


@pytest.fixture(autouse=True)
def one_thread():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def unordered(path: Path) -> dict:
    """Return all records of a run except the order of independent tasks."""
    tables = records(path)
    tasks = sorted((name, result) for _, name, result in tables["tasks"])
    return {**tables, "tasks": tasks, "cells": sorted(tables["cells"])}


def run(path: Path, executor=None, **settings) -> League:
    running = league(path, executor=executor, **settings)
    running.run()
    running.store.close()
    return running


def test_transported_policies_stay_separate_and_give_equal_results():
    pools = {role: [RandomPolicy.of(KUHN, role)] for role in KUHN.roles}
    copy, duplicate = (unpacked(pickle.loads(pickle.dumps(packed(pools))), "cpu") for _ in range(2))
    assert copy["player_0"][0] is not copy["player_1"][0]
    assert [pool[0] for pool in copy.values()] == [pool[0] for pool in duplicate.values()]  # they are kept
    first, second = (
        simulate_matchups(populations, game=KUHN, matchups=[[0, 0]], episodes=500, seed=3).total
        for populations in (pools, copy)
    )
    assert torch.equal(first, second)
    for seed in range(20):
        share = torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        draw = MatchupDistribution(torch.arange(14).view(7, 2), share)
        assert torch.equal(unpacked(packed(draw), "cpu").probability, draw.probability)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Function that returns the records of an undisturbed run, which tests share."""
    results = {}

    def records_of(**settings):
        key = repr(settings)
        if key not in results:
            path = tmp_path_factory.mktemp("whole")
            run(path / "run", **settings)
            results[key] = unordered(path / "run")
        return results[key]

    return records_of


@pytest.mark.variations
@pytest.mark.parametrize(("game", "rules", "settings"), CASES)
def test_league_results_do_not_depend_on_workers(game, rules, settings, reference, tmp_path):
    settings = {"game": game, "rules": rules, "max_envs": 100, **settings}
    executor = Shuffled()
    run(tmp_path / "other", executor, **settings)
    expected, actual = reference(**settings), unordered(tmp_path / "other")
    for name, rows in expected.items():
        assert actual[name] == rows, name
    learned = [key for key in executor.order if "train" in key]
    written = [name for _, name, _ in records(tmp_path / "other")["tasks"] if "train" in name]
    assert sorted(learned) == sorted(written)
    assert learned != written or len(learned) < 8


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["alphastar", "pbt"])
def test_league_that_loses_its_store_resumes_to_equal_results(rules, tmp_path):
    settings = {"game": KUHN, "rules": rules, "max_envs": 100, **WIDE}
    run(tmp_path / "whole", **settings)
    draw, times = random.Random(1), 0
    while not RunStore.run_exists(tmp_path / "other") or not (tmp_path / "other" / "ended").exists():
        running = league(tmp_path / "other", executor=Shuffled(seed=times), **settings)
        closing(running.store, draw.randint(1, 12))
        try:
            running.run()
            (tmp_path / "other" / "ended").touch()
        except (GpuEnvsError, sqlite3.Error):
            assert running.coordinator.executor.pending == 0
            times += 1
        running.store.close()
    assert times >= 3
    expected, actual = unordered(tmp_path / "whole"), unordered(tmp_path / "other")
    for name, rows in expected.items():
        assert actual[name] == rows, name


def closing(store: RunStore, commits: int) -> None:
    """Close a store before a step."""
    step, left = store.step, iter(range(commits))

    def once_more(task=None):
        if next(left, None) is None:
            store.close()
        return step(task)

    store.step = once_more


class Interrupted(Shuffled):
    """As by the user's Ctrl-C, at a call."""

    def next(self, within=None):
        if len(self.order) in self.when:
            self.when.remove(len(self.order))
            raise KeyboardInterrupt
        return super().next(within)


@pytest.mark.slow
def test_interrupt_leaves_no_task_and_league_resumes(reference, tmp_path):
    settings = {"game": RPS, "rules": "alphastar", "max_envs": 100, "iterations": 2}
    executor = Interrupted()
    executor.when = [2, 5, 7, 9]
    running = league(tmp_path / "other", executor=executor, **settings)
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            running.run()
        assert executor.pending == 0
        assert running.finished == max(running.store.iterations())
        assert sum(state.total_steps for state in running.state.learning.values()) == running.finished * 4 * 32
    running.run()
    running.store.close()
    assert not executor.when
    expected, actual = reference(**settings), unordered(tmp_path / "other")
    for name, rows in expected.items():
        assert actual[name] == rows, name


def test_local_training_is_built_once_without_reading_states(tmp_path, monkeypatch):
    read, built = [], []
    state, begin = RunStore.state, BestResponseTraining.__init__
    monkeypatch.setattr(
        RunStore, "state", lambda self, name, *arguments: read.append(name) or state(self, name, *arguments)
    )
    monkeypatch.setattr(
        BestResponseTraining,
        "__init__",
        lambda self, *arguments, **more: built.append(0) or begin(self, *arguments, **more),
    )
    running = run(tmp_path, rules="latest", iterations=4, executor=None)
    assert read == ["live.main_0"]
    assert len(built) == 1 + 1  # its first weights, its training
    name = running.id
    assert list(training_group.cached_trainings(name)) == ["main_0"]
    del running
    gc.collect()
    assert not training_group.cached_trainings(name)


@pytest.mark.slow
def test_cache_of_trainings_is_bounded(tmp_path, monkeypatch):
    settings = {"rules": "alphastar", **WIDE}
    run(tmp_path / "whole", **settings)
    monkeypatch.setattr(training_group, "MAX_TRAININGS", 2)
    running = run(tmp_path / "other", **settings)
    assert len(training_group.cached_trainings(running.id)) == 2
    assert unordered(tmp_path / "whole") == unordered(tmp_path / "other")


@pytest.mark.slow
def test_interrupted_psro_resumes_in_the_same_process(tmp_path):
    psro_runs.play(tmp_path / "whole", iterations=2, **psro_runs.QUICK)
    executor, config = Interrupted(), PSROConfig(iterations=2, **psro_runs.QUICK)
    executor.when = [0, 1, 3, 5, 8]
    with open_run(tmp_path / "other", Game.of("KuhnPoker-v0"), "psro", config) as store:
        run = PSRO(store, config, executor=executor)
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                run.run()
            assert executor.pending == 0
        run.run()
    assert not executor.when
    assert psro_runs.contents(tmp_path / "whole") == psro_runs.contents(tmp_path / "other")
