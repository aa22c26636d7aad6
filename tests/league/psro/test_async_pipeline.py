"""Asynchronous pipeline PSRO: no level waits for another, and every order of completion keeps its rules."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from async_pipeline_runs import DEPTH, RPS, SEGMENTS, opened
from psro_runs import QUICK
from shuffled import Shuffled
from simulated_devices import SimulatedDevices

from gpu_envs.errors import ConfigError
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.variants.async_pipeline import MAX_DEPTHS
from league.psro.variants.pipeline import policy_state
from league.storage.run_store import RunStore

SCRIPT = Path(__file__).parents[1] / "async_pipeline_runs.py"
KUHN = Game.of("KuhnPoker-v0")
TEAMS = Game.of("SimpleWorldComm-v0", {"max_cycles": 3})
FREE_FOR_ALL = Game.of("KuhnPoker-v0", {"num_players": 3}, shared=True)


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
        assert all((row["nash_conv"] is not None) == (game is not TEAMS) for row in rows.values())
        matches = [(each.iteration, each.role) for each in store.matches()]
        assert set(matches) >= {(1, role) for role in game.roles}
    return numbers


@pytest.mark.parametrize(
    ("game", "seed", "iterations"),
    [
        (RPS, 1, 1),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(TEAMS, 3, 1), (KUHN, 0, 1), (RPS, 1, 2), (RPS, 2, 2), (FREE_FOR_ALL, 4, 1)]
        ),
    ],
)
def test_order_of_completion_keeps_the_rules(game, seed, iterations, tmp_path):
    run(tmp_path / "run", game, Shuffled(workers=4, seed=seed), iterations=iterations)
    check(tmp_path / "run", game, iterations)


@pytest.mark.slow
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


def place_of(key):
    """Return the place of the level of a segment, None for other tasks."""
    parts = key.split("/")
    return int(parts[2]) if parts[0] == "segment" else int(parts[4]) if parts[1] == "part" else None


@pytest.mark.parametrize(
    "lengths",
    [(20.0, 8.0, 1.0), *(pytest.param(each, marks=pytest.mark.slow) for each in [(1.0, 1.0, 1.0), (1.0, 5.0, 10.0)])],
)
def test_levels_respond_to_all_levels_below(lengths, tmp_path):
    """Also where levels have very different speeds; and no role trains levels without limit."""

    def seconds(key):
        place = place_of(key)
        return 0.01 if place is None else lengths[place % DEPTH]

    found, seen = opened(tmp_path / "run", RPS, SimulatedDevices(DEPTH, seconds), iterations=2), []
    of_place = found.variant._opponents_of

    def watched(context, place):
        marginals = of_place(context, place)
        known = found.variant._pools(context, policy_state, place)["player"]
        seen.append((place, len(marginals[0]), len(known)))
        return marginals

    found._resume()
    found._resume = lambda: None
    of_place = found.variant._opponents_of
    found.variant._opponents_of = watched
    with found.store:
        found.run()
    levels = {place for _, place, _ in segments(tmp_path / "run")}
    assert max(levels) <= 2 + MAX_DEPTHS * DEPTH - 1
    assert len(seen) > 5
    missing = [each for each in seen if each[1] < each[2]]
    assert len(missing) <= len(seen) / 4, missing  # the payoffs of a new policy were not simulated yet
    assert max(size for _, size, _ in seen) >= 3


@pytest.mark.slow
def test_levels_do_not_wait_for_a_slow_one(tmp_path):
    """With segments of 1 to 8 times the length on 8 devices, utilization is at least 90 %."""

    def seconds(key):
        place = place_of(key)
        return 0.01 if place is None else 1.0 + place * 3 % 8

    found = {}
    for asynchronous in (False, True):
        devices = SimulatedDevices(8, seconds)
        settings = {"pipeline_depth": 8, "num_segments": 2, "asynchronous": asynchronous, "iterations": 3}
        run(tmp_path / str(asynchronous), RPS, devices, **settings)
        found[asynchronous] = devices.utilization
    assert found[False] <= 0.65, found
    assert found[True] >= 0.9, found


@pytest.mark.slow
@pytest.mark.parametrize("points", [8])
def test_killed_run_keeps_the_rules(points, tmp_path):
    """A run that is killed at any point is resumed with what was committed."""
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(points)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) >= points, done.stdout
    for point in range(points):
        check(tmp_path / str(point), RPS, 2)


@pytest.mark.slow
def test_finished_run_is_extended(tmp_path):
    run(tmp_path / "run", RPS, Shuffled(seed=1), iterations=1)
    before = segments(tmp_path / "run")
    run(tmp_path / "run", RPS, Shuffled(seed=2), iterations=2)
    check(tmp_path / "run", RPS, 2)
    assert segments(tmp_path / "run").keys() > before.keys()


@pytest.mark.slow
def test_one_level_and_a_plateau(tmp_path):
    run(tmp_path / "one", RPS, Shuffled(), iterations=2, pipeline_depth=1)
    assert {place for _, place, _ in segments(tmp_path / "one")} == {1, 2}
    run(tmp_path / "two", RPS, None, iterations=2, num_segments=6, plateau_tolerance=100.0)
    counts = Counter((role, place) for (role, place, _), each in segments(tmp_path / "two").items() if each["lowest"])
    assert set(counts.values()) == {2}


@pytest.mark.slow
def test_payoffs_of_levels_are_newest_results(tmp_path):
    run(tmp_path / "run", KUHN, Shuffled(seed=5), iterations=1)
    with RunStore.open(tmp_path / "run", write=False) as store:
        tasks = [task for task in store.tasks() if task.startswith("level-payoffs/")]
        assert tasks
        for task in tasks:
            _, role, place, _ = task.split("/")
            result, seat = store.result(task), KUHN.seats_of(role)[0]
            assert int(place) in {matchup[seat] for matchup in result["matchups"]}
            assert set(result["count"]) == {QUICK["episodes_per_matchup"]}


def test_other_variants_refuse_the_setting():
    with pytest.raises(ConfigError, match="asynchronous = True: has no effect with variant = 'standard'"):
        PSROConfig(asynchronous=True)
