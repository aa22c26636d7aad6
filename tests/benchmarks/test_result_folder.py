"""Results in one file per task."""

import json

import pytest

from benchmarks.hardware.result_folder import ResultFolder


def test_tasks_are_read_in_the_given_order_and_missing_ones_left_out(tmp_path):
    folder = ResultFolder(tmp_path / "results")
    assert folder.read(["a"]) == {}
    for name in ("a", "b"):
        folder.write(name, {"value": name})
    assert list(folder.read(["b", "c", "a"]).items()) == [("b", {"value": "b"}), ("a", {"value": "a"})]
    assert sorted(path.name for path in folder.path.iterdir()) == ["a.json", "b.json"]


def test_failed_write_keeps_the_earlier_result(tmp_path):
    folder = ResultFolder(tmp_path)
    folder.write("a", 1)
    with pytest.raises(TypeError):
        folder.write("a", object())
    assert json.loads((tmp_path / "a.json").read_text()) == 1
