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
    psro = opened(path, game, executor, **settings)
    with psro.store:
        return psro.run()


def segments(path):
    """Return the results of all segments by role, level and number, in the order of completion."""
    results = {}
    with RunStore.open(path, write=False) as store:
        for task in store.tasks():
            if task.startswith("segment/"):
                _, role, level, number = task.split("/")
                results[role, int(level), int(number)] = store.result(task)
    return results


def check(path, game, iterations):
    """Check segments, populations, payoffs and rows of a finished run."""
    results = segments(path)
    numbers, lowest = {}, Counter()
    for (role, level, number), result in results.items():
        numbers.setdefault((role, level), []).append(number)
        lowest[role, level] += result["lowest"]
    assert all(sequence == list(range(1, len(sequence) + 1)) for sequence in numbers.values())  # each once, in order
    with RunStore.open(path, write=False) as store:
        for role in game.roles:
            assert len(store.populations[role]) == iterations + 1
            for level in range(1, iterations + 1):
                assert lowest[role, level] == SEGMENTS  # against fixed policies only
                assert SEGMENTS <= len(numbers[role, level]) <= DEPTH * SEGMENTS
                assert not store.has_state(f"pipeline.{role}.{level}")
            for (owner, level), sequence in numbers.items():
                if owner == role and level > iterations:
                    assert len(sequence) <= (DEPTH - 1) * SEGMENTS
                    assert lowest[role, level] == 0
        assert set(store.cells().count.tolist()) == {QUICK["episodes_per_matchup"]}
        rows = store.iterations()
        assert [set(row["policies"].values()) for row in rows.values()] == [{n + 1} for n in range(iterations + 1)]
        assert all((row["nash_conv"] is not None) == (game is not TEAMS) for row in rows.values())
        matches = [(match.iteration, match.role) for match in store.matches()]
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
    psro, checks = opened(tmp_path / "run", KUHN, Shuffled(seed=3), iterations=1), []
    submit = psro.coordinator.submit

    def watched(task, *more, **keywords):
        if task.key.startswith("segment/"):
            _, role, level, _ = task.key.split("/")
            newest = [psro.store.state(f"pipeline.{role}.{below}.policy") for below in range(1, int(level))]
            pool = task.policies[role]
            assert len(pool) <= int(level)
            for below, state in enumerate(newest, 1):
                if state is not None and below < len(pool):
                    weights = pool[below].state_dict()
                    tensors = [key for key, value in state.items() if isinstance(value, torch.Tensor)]
                    checks.append(tensors and all(torch.equal(weights[key], state[key]) for key in tensors))
        submit(task, *more, **keywords)

    psro.coordinator.submit = watched
    with psro.store:
        psro.run()
    assert len(checks) > 5
    assert all(checks)


def level_of(key):
    """Return the level of a segment, None for other tasks."""
    parts = key.split("/")
    return int(parts[2]) if parts[0] == "segment" else int(parts[4]) if parts[1] == "part" else None


@pytest.mark.parametrize(
    "lengths",
    [(20.0, 8.0, 1.0), *(pytest.param(case, marks=pytest.mark.slow) for case in [(1.0, 1.0, 1.0), (1.0, 5.0, 10.0)])],
)
def test_levels_respond_to_all_levels_below(lengths, tmp_path):
    """Also where levels have very different speeds; and no role trains levels without limit."""

    def seconds(key):
        level = level_of(key)
        return 0.01 if level is None else lengths[level % DEPTH]

    psro, sizes = opened(tmp_path / "run", RPS, SimulatedDevices(DEPTH, seconds), iterations=2), []
    of_level = psro.variant._opponents_of

    def watched(context, level):
        marginals = of_level(context, level)
        pool = psro.variant._pools(context, policy_state, level)["player"]
        sizes.append((level, len(marginals[0]), len(pool)))
        return marginals

    psro._resume()
    psro._resume = lambda: None
    of_level = psro.variant._opponents_of
    psro.variant._opponents_of = watched
    with psro.store:
        psro.run()
    levels = {level for _, level, _ in segments(tmp_path / "run")}
    assert max(levels) <= 2 + MAX_DEPTHS * DEPTH - 1
    assert len(sizes) > 5
    missing = [entry for entry in sizes if entry[1] < entry[2]]
    assert len(missing) <= len(sizes) / 4, missing  # the payoffs of a new policy were not simulated yet
    assert max(size for _, size, _ in sizes) >= 3


@pytest.mark.slow
def test_levels_do_not_wait_for_a_slow_one(tmp_path):
    """With segments of 1 to 8 times the length on 8 devices, utilization is at least 90 %."""

    def seconds(key):
        level = level_of(key)
        return 0.01 if level is None else 1.0 + level * 3 % 8

    utilization = {}
    for asynchronous in (False, True):
        devices = SimulatedDevices(8, seconds)
        settings = {"pipeline_depth": 8, "num_segments": 2, "asynchronous": asynchronous, "iterations": 3}
        run(tmp_path / str(asynchronous), RPS, devices, **settings)
        utilization[asynchronous] = devices.utilization
    assert utilization[False] <= 0.65, utilization
    assert utilization[True] >= 0.9, utilization


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
    previous = segments(tmp_path / "run")
    run(tmp_path / "run", RPS, Shuffled(seed=2), iterations=2)
    check(tmp_path / "run", RPS, 2)
    assert segments(tmp_path / "run").keys() > previous.keys()


@pytest.mark.slow
def test_one_level_and_a_plateau(tmp_path):
    run(tmp_path / "one", RPS, Shuffled(), iterations=2, pipeline_depth=1)
    assert {level for _, level, _ in segments(tmp_path / "one")} == {1, 2}
    run(tmp_path / "two", RPS, None, iterations=2, num_segments=6, plateau_tolerance=100.0)
    counts = Counter(
        (role, level) for (role, level, _), result in segments(tmp_path / "two").items() if result["lowest"]
    )
    assert set(counts.values()) == {2}


@pytest.mark.slow
def test_payoffs_of_levels_are_newest_results(tmp_path):
    run(tmp_path / "run", KUHN, Shuffled(seed=5), iterations=1)
    with RunStore.open(tmp_path / "run", write=False) as store:
        tasks = [task for task in store.tasks() if task.startswith("level-payoffs/")]
        assert tasks
        for task in tasks:
            _, role, level, _ = task.split("/")
            result, seat = store.result(task), KUHN.seats_of(role)[0]
            assert int(level) in {matchup[seat] for matchup in result["matchups"]}
            assert set(result["count"]) == {QUICK["episodes_per_matchup"]}


def test_other_variants_refuse_the_setting():
    with pytest.raises(ConfigError, match="asynchronous = True: has no effect with variant = 'standard'"):
        PSROConfig(asynchronous=True)
