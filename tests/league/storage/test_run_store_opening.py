"""Tests of folders that hold no run, and of stores that are damaged or of another format."""

import sqlite3

import pytest
from toy_league import GAME, files, grown

from gpu_envs.errors import CheckpointError, ConfigError
from league.storage import database
from league.storage.run_store import RunStore


def test_folder_without_run_is_refused(tmp_path, store):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(
            ConfigError, match=rf"^{path}: expected the folder of a league's run, got no league.db in it$"
        ):
            RunStore.open(path)
        assert not RunStore.run_exists(path)
    assert not (tmp_path / "run.lock").exists()
    assert RunStore.run_exists(store.path)
    store.close()
    with pytest.raises(ConfigError, match=r"expected a folder without a run; resume it with RunStore.open, or choose"):
        RunStore.create(store.path, GAME, {})
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="expected a folder that can be made, got the file"):
        RunStore.create(tmp_path / "file", GAME, {})
    (store.path / "league.db").unlink()
    with pytest.raises(ConfigError, match=r"policies/\S+: left by another run, whose league.db is missing"):
        RunStore.create(store.path, GAME, {})
    assert len(list((store.path / "policies").iterdir())) == 2


def test_run_killed_during_creation_is_created_again(tmp_path):
    database.connect(tmp_path / "league.db").close()
    assert not RunStore.run_exists(tmp_path)
    with pytest.raises(CheckpointError, match=r"league.db: expected a league's database, got one without a run"):
        RunStore.open(tmp_path)
    with RunStore.create(tmp_path, GAME, {}) as store:
        assert store.tasks() == []


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "bytes", "table", "game"])
def test_damaged_database_is_reported_and_unchanged(store, damage, write):
    file = store.file
    grown(store)
    store.close()
    data = file.read_bytes()
    if damage in ("table", "game"):
        sql = {"table": "DROP TABLE cells", "game": "UPDATE meta SET value = '{}' WHERE key = 'game'"}[damage]
        with sqlite3.connect(file) as db:
            db.execute(sql)
        db.close()
    else:
        torn = data[:4096] + bytes(4096) + data[8192:]
        file.write_bytes({"garbage": b"?" * 5000, "empty": b"", "cut": data[: len(data) // 2], "bytes": torn}[damage])
    contents = files(store.path)
    with pytest.raises(CheckpointError, match="^" + str(file)) as caught:
        RunStore.open(store.path, write=write)
    assert "\n" not in str(caught.value)
    assert files(store.path) == contents
    if damage not in ("table", "game"):
        file.write_bytes(data)
        RunStore.open(store.path).close()


@pytest.mark.parametrize(("number", "hint"), [(3, "update gpu-envs"), (1, "it is too old; use an older gpu-envs")])
def test_other_format_is_refused(store, number, hint):
    store.close()
    with sqlite3.connect(store.file) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (number,))
    db.close()
    contents = files(store.path)
    for write in (True, False):
        with pytest.raises(CheckpointError, match=rf"league.db: expected format 2, got {number}; {hint}"):
            RunStore.open(store.path, write)
    assert files(store.path) == contents
