"""A league comes out the same whoever does its work, in whatever order, and wherever it was stopped."""

import pickle
from pathlib import Path

import pytest
import torch
from shuffled import Shuffled
from small_league import RPS, league, records

from gpu_envs.errors import GpuEnvsError
from league import player
from league.executors import packed, unpacked
from league.game import Game
from league.league import League
from league.matches import play_matchups
from league.population import RandomPolicy
from league.seating import Draw

KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 7})
WIDE = {"num_envs": 6, "learner.rollout_length": 5, "steps": 60}  # episodes go on from iteration to iteration
CASES = [
    (RPS, "alphastar", {}),
    (KUHN, "alphastar", {**WIDE, "learner.body": "gru"}),
    (TAG, "pbt", WIDE),
    (KUHN, "latest", {}),
]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def unordered(path: Path) -> dict:
    """All records of a run but the order in which tasks ended that do not wait for each other."""
    found = records(path)
    tasks = sorted((name, result) for _, name, result in found["tasks"])
    return {**found, "tasks": tasks, "cells": sorted(found["cells"])}


def run(path: Path, executor=None, **settings) -> League:
    running = league(path, executor=executor, **settings)
    running.run()
    running.store.close()
    return running


def test_policies_that_are_equal_travel_as_several_and_draws_to_the_last_bit():
    pools = {role: [RandomPolicy.of(KUHN, role)] for role in KUHN.roles}
    there, again = (unpacked(pickle.loads(pickle.dumps(packed(pools))), "cpu") for _ in range(2))
    assert there["player_0"][0] is not there["player_1"][0]
    assert [pool[0] for pool in there.values()] == [pool[0] for pool in again.values()]  # they are kept
    first, second = (play_matchups(KUHN, each, [[0, 0]], 500, seed=3).total for each in (pools, there))
    assert torch.equal(first, second)
    for seed in range(20):
        share = torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        draw = Draw(torch.arange(14).view(7, 2), share)
        assert torch.equal(unpacked(packed(draw), "cpu").probability, draw.probability)


@pytest.mark.parametrize(("game", "which", "settings"), CASES)
def test_a_league_comes_out_the_same_whatever_the_workers_do(game, which, settings, tmp_path):
    settings = {"game": game, "which": which, "max_envs": 100, **settings}
    run(tmp_path / "whole", **settings)
    executor = Shuffled()
    run(tmp_path / "other", executor, **settings)
    expected, found = unordered(tmp_path / "whole"), unordered(tmp_path / "other")
    for name, rows in expected.items():
        assert found[name] == rows, name
    learned = [key for key in executor.order if "train" in key]
    assert learned != sorted(learned, key=[name for name, _ in found["tasks"]].index) or len(learned) < 5
