"""Facts and parts of the GPU report on the pretended GPU."""

import json

import pytest

from benchmarks.gpu import facts, parts
from gpu_envs.runtime.kernels import BLOCK_DIMS

pytestmark = pytest.mark.usefixtures("gpu")


def rows_of(capsys):
    """Return the rows that were printed."""
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ROW ")]
    return [json.loads(line.removeprefix("ROW ")) for line in lines]


@pytest.mark.parametrize(("device", "index"), [("cuda", 0), ("cuda:1", 1)])
def test_facts_of_a_gpu_are_complete(capsys, device, index):
    facts.main(["--tiny", "--device", device])
    rows = rows_of(capsys)
    machine = {name: value for row in rows for name, value in row.get("machine", {}).items()}
    assert machine["name"] == "pretended GPU"
    assert (machine["arch"], machine["multiprocessors"], machine["device"]) == (90, 132, device)
    assert (machine["gpus_of_torch"], machine["gpus_of_warp"]) == (2, 2)
    assert [row["value"] > 0 for row in rows if row.get("unit") == "B/s"] == [True]
    assert {row["what"] for row in rows if "error" in row} <= {"driver"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["goals", "sweep", "many-agents", "training"])
def test_parts_run_on_a_gpu(capsys, name):
    """All but the registers of kernels, which no compiler has seen."""
    parts.main([name, "--tiny"])
    rows = [row for row in rows_of(capsys) if row.get("unit") != "registers"]
    assert rows
    assert all(row["value"] > 0 for row in rows)
    for row in rows:
        if row.get("mode") not in ("bytes", *parts.TRAINING_MODES):
            sizes = row["block_dims"]["step"]
            assert set(sizes) == {32}  # the batches are tiny
            assert len(sizes) == 1 or row["schedule"] == "phased"


def test_part_of_blocks_has_a_row_per_size(capsys):
    parts.main(["blocks", "--tiny"])
    assert [row["block_dims"]["step"] for row in rows_of(capsys)] == [[size] for size in BLOCK_DIMS]
