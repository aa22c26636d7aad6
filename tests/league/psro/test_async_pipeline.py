"""Asynchronous pipeline PSRO: no level waits for another, and every order of completion keeps its rules."""

import random
import sqlite3
from collections import Counter

import pytest
import torch
from psro_runs import QUICK
from shuffled import Shuffled
from simulated_devices import SimulatedDevices

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

KUHN = Game.of("KuhnPoker-v0")
RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
DEPTH, SEGMENTS = 3, 2
SETTINGS = {**QUICK, "variant": "pipeline", "pipeline_depth": DEPTH, "num_segments": SEGMENTS, "asynchronous": True}


def opened(path, game, executor, **settings):
    config = PSROConfig(**{**SETTINGS, **settings})
    return PSRO(open_run(path, game, "psro", config), config, executor=executor)


def run(path, game=KUHN, executor=None, **settings):
    found = opened(path, game, executor, **settings)
    with found.store:
        return found.run()


def segments(path):
    """Return the results of all segments by role, place and number, in the order of completion."""
    found = {}
    with RunStore.open(path, write=False) as store:
        for task in store.tasks():
            if task.startswith("segment/"):
                _, role, place, number = task.split("/")
                found[role, int(place), int(number)] = store.result(task)
    return found


def check(path, game, iterations):
    """Check segments, populations, payoffs and rows of a finished run."""
    found = segments(path)
    numbers, lowest = {}, Counter()
    for (role, place, number), result in found.items():
        numbers.setdefault((role, place), []).append(number)
        lowest[role, place] += result["lowest"]
    assert all(each == list(range(1, len(each) + 1)) for each in numbers.values())  # each once, in order
    with RunStore.open(path, write=False) as store:
        for role in game.roles:
            assert len(store.populations[role]) == iterations + 1
            for place in range(1, iterations + 1):
                assert lowest[role, place] == SEGMENTS  # against fixed policies only
                assert SEGMENTS <= len(numbers[role, place]) <= DEPTH * SEGMENTS
                assert not store.has_state(f"pipeline.{role}.{place}")
            for (own, place), each in numbers.items():
                if own == role and place > iterations:
                    assert len(each) <= (DEPTH - 1) * SEGMENTS
                    assert lowest[role, place] == 0
        assert set(store.cells().count.tolist()) == {QUICK["episodes_per_matchup"]}
        rows = store.iterations()
        assert [set(row["policies"].values()) for row in rows.values()] == [{n + 1} for n in range(iterations + 1)]
        assert all(row["nash_conv"] is not None for row in rows.values())
        matches = [(each.iteration, each.role) for each in store.matches()]
        assert set(matches) >= {(1, role) for role in game.roles}
    return numbers


@pytest.mark.parametrize(("game", "seed", "iterations"), [(KUHN, 0, 1), (RPS, 1, 2), (RPS, 2, 2)])
def test_order_of_completion_keeps_the_rules(game, seed, iterations, tmp_path):
    run(tmp_path / "run", game, Shuffled(workers=4, seed=seed), iterations=iterations)
    check(tmp_path / "run", game, iterations)


def test_levels_respond_to_the_newest_policies_below(tmp_path):
    found, seen = opened(tmp_path / "run", KUHN, Shuffled(seed=3), iterations=1), []
    submit = found.coordinator.submit

    def watched(task, *more, **others):
        if task.key.startswith("segment/"):
            _, role, place, _ = task.key.split("/")
            newest = [found.store.state(f"pipeline.{role}.{below}.policy") for below in range(1, int(place))]
            pool = task.policies[role]
            assert len(pool) <= int(place)
            for below, state in enumerate(newest, 1):
                if state is not None and below < len(pool):
                    own = pool[below].state_dict()
                    tensors = [key for key, value in state.items() if isinstance(value, torch.Tensor)]
                    seen.append(tensors and all(torch.equal(own[key], state[key]) for key in tensors))
        submit(task, *more, **others)

    found.coordinator.submit = watched
    with found.store:
        found.run()
    assert len(seen) > 5
    assert all(seen)


def test_levels_do_not_wait_for_a_slow_one(tmp_path):
    """With segments of 1 to 8 times the length on 8 devices, utilization is at least 90 %."""

    def seconds(key):
        parts = key.split("/")
        place = parts[2] if parts[0] == "segment" else parts[4] if parts[1] == "part" else None
        return 0.01 if place is None else 1.0 + int(place) * 3 % 8

    found = {}
    for asynchronous in (False, True):
        devices = SimulatedDevices(8, seconds)
        settings = {"pipeline_depth": 8, "num_segments": 2, "asynchronous": asynchronous, "iterations": 3}
        run(tmp_path / str(asynchronous), RPS, devices, **settings)
        found[asynchronous] = devices.utilization
    assert found[False] <= 0.65, found
    assert found[True] >= 0.9, found


@pytest.mark.parametrize("points", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_interrupted_run_keeps_the_rules(points, tmp_path):
    """Runs whose store is closed before a random step go on with what was committed."""
    for point in range(points):
        path, draw = tmp_path / str(point), random.Random(point)
        while True:
            running = opened(path, RPS, Shuffled(seed=draw.randrange(1000)), iterations=2)
            steps, step = iter(range(draw.randint(2, 40))), running.store.step

            def once_more(task=None, running=running, steps=steps, step=step):
                if next(steps, None) is None:
                    running.store.close()
                return step(task)

            running.store.step = once_more
            before = len(segments(path))
            try:
                running.run()
                break
            except (GpuEnvsError, sqlite3.Error):
                assert len(segments(path)) >= before
            finally:
                running.store.close()
        check(path, RPS, 2)


def test_one_level_and_a_plateau(tmp_path):
    run(tmp_path / "one", RPS, Shuffled(), iterations=2, pipeline_depth=1)
    assert {place for _, place, _ in segments(tmp_path / "one")} == {1, 2}
    run(tmp_path / "two", RPS, None, iterations=2, num_segments=6, plateau_tolerance=100.0)
    counts = Counter((role, place) for (role, place, _), each in segments(tmp_path / "two").items() if each["lowest"])
    assert set(counts.values()) == {2}


def test_payoffs_of_levels_are_newest_results(tmp_path):
    run(tmp_path / "run", KUHN, Shuffled(seed=5), iterations=1)
    with RunStore.open(tmp_path / "run", write=False) as store:
        tasks = [task for task in store.tasks() if task.startswith("meet/")]
        assert tasks
        for task in tasks:
            _, role, place, _ = task.split("/")
            result, seat = store.result(task), KUHN.seats_of(role)[0]
            assert {matchup[seat] for matchup in result["matchups"]} == {int(place)}
            assert set(result["count"]) == {QUICK["episodes_per_matchup"]}


def test_other_variants_refuse_the_setting():
    with pytest.raises(ConfigError, match="asynchronous = True: has no effect with variant = 'standard'"):
        PSROConfig(asynchronous=True)
