"""Tests of the store: steps and tasks, and the values that they write."""

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy_league import GAME, dump, grown, random_policy, results, trained

import gpu_envs
from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.storage import run_store
from league.storage.records import MatchCounts
from league.storage.run_store import RunStore, derive_named_seed


def test_seeds_are_derived_from_words():
    assert derive_named_seed(7, "1/payoffs") == 1609201037596494648
    assert derive_named_seed(7, "a", 1) == derive_named_seed(np.int64(7), "a", np.int64(1))
    words = [(), ("",), ("a", "b"), ("ab",), ("a,b",), ('a", "b',), ("1",), (1,), (1, 2), (12,)]
    seeds = {derive_named_seed(seed, *names) for seed in (0, 1) for names in words}
    assert len(seeds) == 2 * len(words)
    assert all(0 <= seed < 2**63 for seed in seeds)


# ---------------------------------------------------------------- steps and tasks


def test_failed_step_leaves_no_writes(store):
    grown(store)
    with store.step():
        store.put_state("learner", {"x": torch.ones(2)})
    contents, names = dump(store.path), sorted(file.name for file in (store.path / "policies").iterdir())

    def fail() -> None:
        with store.step("more"):
            store.add_policy("first", trained(2))
            store.add_results([[0, 0]], results(np.zeros((1, 2)), 0))
            store.put("key", 1)
            store.put_state("learner", {"x": torch.zeros(2)})
            assert len(store.populations["first"]) == 3
            store.populations["first"].policy(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert dump(store.path) == contents
    assert sorted(file.name for file in (store.path / "policies").iterdir()) == names
    assert len(store.populations["first"]) == 2
    assert not store.done("more")
    state = store.state("learner")
    assert state is not None
    assert torch.equal(state["x"], torch.ones(2))
    with store.step("more"):  # the index is free again, and the cached policy is not reused
        store.add_policy("first", random_policy(), "random")
    assert type(store.populations["first"].policy(2)) is type(random_policy())


def test_full_disk_leaves_no_writes(store, monkeypatch):
    contents = dump(store.path)

    def full(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_store, "fsync_folder", full)
    with pytest.raises(OSError, match="No space left"), store.step("more"):
        store.add_policy("first", trained(2))
    assert dump(store.path) == contents
    with pytest.raises(OSError, match=r"league.db: cannot be read or written"), store.step("more"):
        raise sqlite3.OperationalError("database or disk is full")


def test_task_is_completed_once(store):
    assert not store.done("play")
    with pytest.raises(GpuEnvsError, match="task 'play' is not done"):
        store.result("play")
    with store.step("play") as result:
        store.add_results([[0, 0]], results(np.zeros((1, 2)), 0))
        result["episodes"] = np.int64(5)
    assert store.done("play")
    assert store.result("play") == {"episodes": 5}
    contents = dump(store.path)
    with (
        pytest.raises(GpuEnvsError, match=r"task 'play' is done already; check store.done\(task\)"),
        store.step("play"),
    ):
        store.add_results([[0, 0]], results(np.zeros((1, 2)), 0))
    assert dump(store.path) == contents
    assert store.tasks() == ["start", "play"]


def test_adding_needs_a_task_and_writing_a_step(store):
    for add in (
        lambda: store.add_policy("first", random_policy(), "random"),
        lambda: store.add_results([[0, 0]], results(np.zeros((1, 2)), 0)),
        lambda: store.add_matches(1, "first", [[-1, 0]], [1]),
    ):
        with pytest.raises(GpuEnvsError, match=r"expected to be inside of store.step\(\)"):
            add()
        with (
            pytest.raises(GpuEnvsError, match=r"expected a step with a task; use store.step\('task'\)"),
            store.step(),
        ):
            add()
    with pytest.raises(GpuEnvsError, match="a step is open already"), store.step(), store.step():
        pass
    with store.step():
        pass
    assert dump(store.path)["cells"] == []


# ---------------------------------------------------------------- stored values


def test_results_of_a_matchup_add_up(store):
    grown(store)
    matchups = np.array([[1, 0], [0, 0], [1, 0]])  # one matchup is repeated
    parts = [results(matchups, seed) for seed in range(4)]
    for number, part in enumerate(parts):
        tensors = SimpleNamespace(**{name: torch.as_tensor(value) for name, value in vars(part).items()})
        with store.step(f"{number}"):
            store.add_results(torch.as_tensor(matchups), tensors if number % 2 else part)
    cells = store.cells()
    assert cells.matchups.tolist() == [[1, 0], [0, 0]]
    assert cells.count.tolist() == [sum(p.count[0] + p.count[2] for p in parts), sum(p.count[1] for p in parts)]
    for name in ("total", "square", "score"):
        sums = sum(getattr(part, name) for part in parts)
        np.testing.assert_allclose(getattr(cells, name), [sums[0] + sums[2], sums[1]], rtol=1e-15)
    with store.step("again"):
        store.add_results(cells.matchups, cells)  # cells have the form of results
    assert store.cells().count.tolist() == (2 * cells.count).tolist()


def test_new_run_has_no_records(store):
    cells = store.cells()
    assert cells.matchups.shape == cells.total.shape == (0, 2)
    assert (store.matches(), store.iterations()) == ([], {})
    assert (store.get("key"), store.get("key", 3), store.state("learner")) == (None, 3, None)


def test_invalid_results_are_refused_as_a_whole(store):
    grown(store)
    matchups, bad = np.array([[0, 0], [1, 0]]), results(np.zeros((2, 2)), 0)
    bad.square[1, 0] = np.nan
    line = r"square of matchup \[1, 0\], seat row: expected a finite number, got nan; none of these results is stored"
    with pytest.raises(GpuEnvsError, match=line), store.step("play"):
        store.add_results(matchups, bad)
    assert not store.done("play")
    good = results(np.zeros((2, 2)), 0)
    with store.step("look"):
        for wrong, message in (
            ([[0, 1], [0, 0]], "seat column: expected one of 1 policies, got 1"),
            ([[-1, 0], [0, 0]], "seat row: expected one of 2 policies, got -1"),
            ([[0, 0, 0]], r"expected integers \(K, 2\), got int64 \(1, 3\)"),
            ([[0.0, 0.0]], r"expected integers \(K, 2\), got float64 \(1, 2\)"),
            ([[0, 0]], r"count: expected shape \(1,\), got \(2,\)"),
        ):
            with pytest.raises(GpuEnvsError, match=message):
                store.add_results(wrong, good)
        good.count[0] = -1
        with pytest.raises(GpuEnvsError, match="expected counts of at least 0, got -1"):
            store.add_results(matchups, good)
    assert len(store.cells().count) == 0


def test_matches_are_counted_by_iteration_and_role(store):
    grown(store)
    for number in (1, 2):
        with store.step(f"{number}"):
            store.add_matches(1, "first", [[-1, 0], [1, -1], [0, 0]], [3, 4, 0])
    assert store.matches() == [MatchCounts(1, "first", (-1, 0), 6), MatchCounts(1, "first", (1, -1), 8)]


def test_values_and_summaries_are_replaced(store):
    for value in (1.5, {"a": [True, None, "ü"]}):
        with store.step():
            store.put("key", value)
            store.put_iteration(3, {"nash_conv": value, "means": torch.ones(2)})
    assert store.get("key") == {"a": [True, None, "ü"]}
    assert store.iterations() == {3: {"nash_conv": {"a": [True, None, "ü"]}, "means": [1.0, 1.0]}}
    with pytest.raises(TypeError, match="expected a JSON value, got PosixPath"), store.step():
        store.put("key", Path())
    assert store.get("key") == {"a": [True, None, "ü"]}


def test_newest_state_replaces_the_last_one(store):
    folder = store.path / "states"
    latest = {"a": torch.randn(3, 2), "flags": torch.tensor([True, False]), "count": 2**60, "x": 0.1, "name": "é"}
    for name, state in (("one", {"a": torch.zeros(1)}), ("two", {"only": 1}), ("one", latest)):
        with store.step():
            store.put_state(name, state)
    loaded = store.state("one")
    assert loaded is not None
    assert loaded.keys() == latest.keys()
    assert all(torch.equal(loaded[key], latest[key]) for key in ("a", "flags"))
    assert all(loaded[key] == latest[key] for key in ("count", "x", "name"))
    assert store.state("two") == {"only": 1}
    assert sorted(file.name for file in folder.iterdir()) == ["00000002.safetensors", "00000003.safetensors"]
    (folder / "00000003.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"00000003.safetensors: expected sha256 \w+, got \w+ \(damaged\)"):
        store.state("one")
    with store.step():
        store.drop_state("two")
        store.drop_state("absent")
        store.put_state("three", {"b": torch.ones(1)})
        store.put_state("three", {"b": torch.ones(2)})
    assert store.state("two") is None
    assert sorted(file.name for file in folder.iterdir()) == ["00000003.safetensors", "00000005.safetensors"]


def test_run_records_game_config_and_version(tmp_path):
    config = {"seed": 3, "solver": "nash", "nested": {"a": [1, 2]}}
    RunStore.create(tmp_path / "new" / "run", GAME, config).close()
    with RunStore.open(tmp_path / "new" / "run", write=False) as store:
        assert (store.game, store.config, store.version) == (GAME, config, gpu_envs.__version__)
        assert list(store.populations) == ["first", "second"]


def test_files_without_a_record_are_removed(store):
    grown(store)
    store.close()
    contents = dump(store.path)
    strays = [
        "policies/00009-first.json",
        "policies/.writing-00002-first.json",
        "policies/..writing-00002-first.json.77",
        "states/00000001.safetensors",
    ]
    for name in (*strays, "policies/notes.txt"):
        (store.path / name).write_text("?")
    with RunStore.open(store.path) as reopened:
        assert len(reopened.populations["first"]) == 2
    assert not any((store.path / name).exists() for name in strays)
    (store.path / "policies" / "notes.txt").unlink()  # not a file of the run
    assert dump(store.path) == contents
