"""Temporary files of tests are in memory only where that has room and may hold programs."""

import os
from types import SimpleNamespace

import pytest
from temporary_files import ROOM, memory_folder


def chosen(monkeypatch, tmp_path, room=ROOM, flags=0, available=ROOM):
    """Return the folder for a file system and memory of these sizes [bytes]."""
    about = SimpleNamespace(f_bavail=room >> 12, f_frsize=1 << 12, f_flag=flags)
    monkeypatch.setattr(os, "statvfs", lambda folder: about)
    (tmp_path / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available >> 10} kB\n")
    return memory_folder("/memory", tmp_path / "meminfo")


def test_folder_with_room_is_taken(monkeypatch, tmp_path):
    assert chosen(monkeypatch, tmp_path) == "/memory"


@pytest.mark.parametrize(
    "lacking",
    [{"room": ROOM - 4096}, {"available": ROOM - 1024}, {"flags": os.ST_NOEXEC}, {"flags": os.ST_RDONLY}],
    ids=["small file system", "little memory", "no programs", "read-only"],
)
def test_other_folders_are_not(monkeypatch, tmp_path, lacking):
    assert chosen(monkeypatch, tmp_path, **lacking) is None


def test_missing_folder_is_not(tmp_path):
    assert memory_folder(str(tmp_path / "missing")) is None
