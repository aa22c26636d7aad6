"""Tests of databases with arbitrary values: opening a run works or gives one line."""

import contextlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
import small_league
import torch
from watch_runs import psro

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.analysis.report_data import read_report
from league.analysis.report_tables import format_report
from league.cli.dispatch import league_command
from league.game import Game
from league.league_algorithms import PFSPLeagueConfig
from league.leagues.league import League
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.tabular import TablePolicy
from league.storage.database import COLUMNS, DATABASE, TABLES
from league.storage.open_run import open_run
from league.storage.run_store import RunStore
from league.watch.api import open_viewer

DEEP, NEARLY = "[" * 100_000, "[" * 480 + "]" * 480
VALUES = (
    *("", "x", "{}", "[]", "null", '{"a": NaN}', "{", DEEP, '{"a": ' + DEEP, "9" * 5000, "9" * 30, "a\x00b", "../../x"),
    *(NEARLY, f'{{"train": {{"a": {NEARLY}}}, "player": "x"}}'),
    *(b"blob", b"\xff", -1, 2**62, -(2**63), 1.5, 1e308, float("inf"), "1,2,3,4", "99,99", "-1,-1", "1e3,0"),
)
"""Values for every column."""
NESTED = (2**62, None, -1, 10**40, 1e308, float("nan"), True, "x", "", "a\x00b", [], [[]], [None], {}, {"a": 1})
"""Values for every place in a column's JSON; the first is not used for settings, some of which are memory sizes."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    rules = SelfPlayConfig("pfsp", freeze_every=small_league.STEPS)
    config = PFSPLeagueConfig(
        iterations=2, steps=small_league.STEPS, episodes_per_matchup=4, train_overrides=small_league.TINY, rules=rules
    )
    with open_run(folder / "league", small_league.RPS, "pfsp", config) as store:
        League(store, config, SelfPlayBuilder(rules)).run()
    return {"psro": psro(folder / "psro", iterations=1), "league": folder / "league"}


def read(path: Path) -> None:
    with RunStore.open(path, write=False) as store:
        store.tasks()
        format_report(read_report(store))


def use(path: Path, more: int | None = None) -> list[str]:
    """Open a run in every way and return the error messages; `more`: iterations to resume it to."""

    def watch() -> None:
        with open_viewer(path) as api:
            for name in ("run", "metrics", "league", "rollout"):
                json.loads(api.answer(name, "worlds=1" if name == "rollout" else ""))

    def render() -> None:
        league_command(
            ["render", str(path), "--num-envs", "1", "--steps", "1", "--output", str(path.with_suffix(".png"))]
        )

    def resume() -> None:
        league_command(["resume", str(path), *([] if more is None else ["--iterations", str(more)])])

    lines = []
    for work in (lambda: read(path), watch, render, resume):
        try:
            work()
        except (GpuEnvsError, OSError) as error:
            lines.append(f"{type(error).__name__}: {error}")
    for line in lines:
        assert "\n" not in line
        assert len(line) < 700
    return lines


def places(value, path=()):
    """Yield every place in a JSON value, only the first of each list."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    if isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def replaced(value, path, new):
    """Return a JSON value with another value at a place."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def cases(path: Path):
    """Yield (table, column, key of a row, value) for each column and each place in its JSON."""
    with contextlib.closing(sqlite3.connect(path / DATABASE)) as db:
        for table in TABLES:
            rows = db.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall()
            distinct = {"meta": rows, "kv": rows}.get(table, rows[-1:])
            for row in distinct:
                for column, value in zip(COLUMNS[table], row[1:], strict=True):
                    yield from ((table, column, row[0], damage) for damage in VALUES)
                    with contextlib.suppress(TypeError, ValueError):
                        content = json.loads(value)
                        if isinstance(content, dict | list):
                            for keys in places(content):
                                for damage in NESTED[table == "meta" :]:
                                    yield table, column, row[0], json.dumps(replaced(content, keys, damage))
                        if isinstance(content, dict):
                            for key in content:
                                yield table, column, row[0], json.dumps({k: v for k, v in content.items() if k != key})


def damage(path: Path, table: str, column: str, row: int, value) -> bool:
    """Set a value, unless SQLite refuses it."""
    try:
        with contextlib.closing(sqlite3.connect(path / DATABASE)) as db, db:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
    except sqlite3.Error:
        return False
    return True


def try_cases(path: Path, folder: Path, chosen, more: int | None) -> None:
    tried = 0
    for number, case in enumerate(chosen):
        copy = Path(shutil.copytree(path, folder / str(number)))
        if damage(copy, *case):
            tried += 1
            print(f"{case!r:.500}")  # shown if the next line raises another error
            use(copy, more)
        shutil.rmtree(copy)
    assert tried


@pytest.mark.parametrize("kind", ["psro", "league"])
def test_some_damaged_values_give_one_line(runs, tmp_path, kind):
    """A few of the damages that the slow test below tries."""
    try_cases(runs[kind], tmp_path, random.Random(0).sample(list(cases(runs[kind])), 4), None)


def test_run_without_a_recorded_device_continues(runs, tmp_path):
    copy = Path(shutil.copytree(runs["league"], tmp_path / "run"))
    with contextlib.closing(sqlite3.connect(copy / DATABASE)) as db, db:
        db.execute("UPDATE meta SET value = json_remove(value, '$.device') WHERE key = 'config'")
    assert use(copy, 3) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", ["psro", "league"])
def test_any_damaged_value_gives_one_line(runs, tmp_path, kind, part):
    """200 of all damages that are tried on every column and every place in its JSON."""
    chosen = list(cases(runs[kind]))
    random.Random(1).shuffle(chosen)
    try_cases(runs[kind], tmp_path, chosen[part:200:2], 2 + (kind == "league"))


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("meta", "value", DEEP, "meta: game: expected JSON of at most 64 levels, got more"),
        ("meta", "value", f'{{"env": {NEARLY}}}', "meta: game: expected JSON of at most 64 levels, got more"),
        ("policies", "role", "unknown", "policies: 0: role: expected one of player, got 'unknown'"),
        ("policies", "id", "../../../etc/passwd", "policies: 0: id: expected another value"),
        ("policies", "sha256", '{"../league.db": "0"}', "policies: 0: sha256: expected another value"),
        ("policies", "parent", 0, "policies: 0: parent: expected another value, got 0"),
        ("policies", "iteration", b"1", "policies.iteration: expected int, got b'1'"),
        ("policies", "meta", "[1", "policies: 0: meta: expected JSON"),
        ("cells", "count", -1, "cells: expected the same matchup and count"),
        ("cells", "matchup", "0,x", "cells: expected the same matchup and count"),
        ("cells", "total", "many", "cells.total: expected float, got 'many'"),
        ("cells", "square", float("inf"), "cells.square: expected finite numbers"),
        ("cells", "seat", 7, "cells.seat: expected every seat of a matchup in turn"),
        ("tasks", "name", b"\xff", "tasks.name: expected str, got b'\\xff'"),
        ("iterations", "summary", '{"meta_strategy": [[1.0]]}', "summary of 0: meta_strategy: expected up to [1, 1]"),
        ("iterations", "summary", '{"seconds": "long"}', "summary of 0: seconds: expected float, got 'long'"),
        ("iterations", "summary", '{"seconds": 1' + "0" * 30 + "}", "expected JSON, got a number of 31 characters"),
        ("iterations", "number", 7, "iterations.number: expected all from the first to the last"),
    ],
)
def test_damaged_value_is_named(runs, tmp_path, table, column, value, words):
    copy = Path(shutil.copytree(runs["psro"], tmp_path / "run"))
    with contextlib.closing(sqlite3.connect(copy / DATABASE)) as db:
        row = db.execute(
            f"SELECT rowid FROM {table} WHERE ? != 'meta' OR rowid = 3 ORDER BY rowid", (table,)
        ).fetchone()
    assert damage(copy, table, column, row[0], value)
    with pytest.raises(CheckpointError) as caught:
        read(copy)
    assert words in str(caught.value)
    assert str(copy / DATABASE) in str(caught.value)
    content = (copy / DATABASE).read_bytes()
    use(copy)
    assert (copy / DATABASE).read_bytes() == content, "what is damaged is not written"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER more AFTER INSERT ON tasks BEGIN DELETE FROM policies; END",
        "CREATE VIEW more AS SELECT * FROM tasks",
        "ALTER TABLE kv ADD COLUMN more TEXT AS (key || value)",
        "ALTER TABLE kv RENAME COLUMN value TO worth",
    ],
)
def test_database_with_another_schema_is_refused(runs, tmp_path, statement):
    copy = Path(shutil.copytree(runs["psro"], tmp_path / "run"))
    with contextlib.closing(sqlite3.connect(copy / DATABASE)) as db, db:
        db.execute(statement)
    with pytest.raises(CheckpointError, match=r"league.db: expected the schema of format 2, got (no|an unknown) "):
        RunStore.open(copy, write=False)


@pytest.mark.parametrize("field", ["num_envs", "device", "seed", "reuse_buffers", "id"])
def test_game_of_file_with_setting_of_runner_is_refused(runs, field):
    with RunStore.open(runs["psro"], write=False) as store:
        data = json.loads(json.dumps(store.game.to_json()))
    data["env"][field] = 1
    with pytest.raises(CheckpointError, match=f"^here: env: {field} is no setting of the environment but of"):
        Game.from_json(data, "here")


BOX = {"kind": "continuous", "low": [-1.0], "high": [1.0], "init_log_std": 0.0}
POLICIES = {
    "discrete": lambda: RandomPolicy({"kind": "discrete", "sizes": [3]}),
    "continuous": lambda: RandomPolicy(BOX),
    "table": lambda: TablePolicy(torch.eye(3), torch.ones(3, 3) / 3),
    "mixture": lambda: MixturePolicy([POLICIES["discrete"](), POLICIES["table"]()]),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_policy_file_with_any_value_gives_one_line_or_a_policy(kind, tmp_path):
    policy = POLICIES[kind]()
    policy.save(tmp_path / "p")
    file = tmp_path / "p.json"
    content, refused = json.loads(file.read_text()), 0
    for keys in places(content):
        for value in (*NESTED, 0, -5, [0], [2, 2], float("inf")):
            file.write_text(json.dumps(replaced(content, keys, value)))
            try:
                loaded = type(policy).load(tmp_path / "p")
            except CheckpointError as error:
                refused += "\n" not in str(error)
                continue
            loaded.act(torch.zeros(2, 1, 3), None, hidden_state=loaded.initial_hidden_state(2, 1))
    assert refused > 20
