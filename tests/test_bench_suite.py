"""The throughput suite in a tiny mode: heats are played, and end in figures, rows, pictures and the table."""

import csv
import json
import os
import statistics
import subprocess
import sys

import pytest
import torch
from conftest import SMALL

from benchmarks import cases, doors, heats, hotspots, report, standing, written
from benchmarks.cases import Case
from benchmarks.contests import Contest, Heat
from benchmarks.entrants import Batch, Entrant, Learner
from benchmarks.peers import process
from benchmarks.peers.process import Task
from benchmarks.targets import NOISE, Effort, Figure

TINY = Effort(rounds=2, seconds=0.01, patience=1)
SPREAD = SMALL["SimpleSpread-v0"]


def case(worlds=4, entrance="core", **more):
    return Case("SimpleSpread-v0", worlds, entrance, threads=1, config=SPREAD, **more)


@pytest.fixture
def contest(tmp_path, monkeypatch):
    """Three sizes of a small environment; a slower entrant of twice as many worlds; a peer that is not installed."""
    monkeypatch.setattr(process, "HOME", tmp_path / "nobody")
    monkeypatch.setattr(heats, "bandwidth", lambda device: heats.Spread(1e9, 0.9e9, 1.1e9))
    absent = Entrant("VMAS", "peer", Task("vmas", "simple_spread"))

    def heat(worlds):
        slow = Entrant("numpy", "peer", case(2 * worlds, "numpy rows"))
        ours = Entrant("core.step", "ours", case(worlds))
        return Heat(f"{worlds} worlds", (ours, slow, absent), {"numpy": ">= 1"})

    monkeypatch.setattr(
        heats, "CONTESTS", (made := Contest("tiny", "A tiny one", "SimpleSpread-v0", tuple(map(heat, (4, 8, 16)))),)
    )
    monkeypatch.setattr(written, "CONTESTS", (made,))
    return made


def test_a_contest_from_heats_to_page(contest, tmp_path):
    figures = list(heats.measure(contest, TINY))
    rows = [figure.row for figure in figures if figure.row]
    assert [row["kind"] for row in rows] == ["ours", "peer", "memory", "absent"] * 3
    ours, theirs, memory, absent = rows[:4]
    assert (ours["worlds"], ours["agents"], ours["schedule"], ours["device"]) == (4, 3, "fused", "cpu")
    assert min(ours["rate"], theirs["rate"]) > 0
    assert ours["ratio"] == 1
    assert theirs["worlds"] == 8
    assert memory["ratio"] == pytest.approx(ours["rate"] / memory["rate"])
    assert memory["rate"] == pytest.approx(1e9 / float(memory["note"].split()[0]), rel=0.01)
    assert absent["name"] == "VMAS"
    (goal,) = (figure for figure in figures if figure.target and "4 worlds" in figure.what)
    assert goal.met == (goal.value >= 1)
    assert sum(figure.what == NOISE for figure in figures) == 3
    group = report.group(contest.title, "make bench", TINY, 0.0, figures)
    paths = written.write(tmp_path / "bench", {contest.id: group})
    assert [path.name for path in paths] == ["bench.json", "bench.csv", "tiny_env_steps.png", "tiny_agent_steps.png"]
    assert all(path.stat().st_size > 0 for path in paths)
    with paths[1].open() as file:
        table = list(csv.DictReader(file))
    assert [row["name"] for row in table] == ["core.step", "numpy", "the memory bound", "VMAS"] * 3
    assert float(table[0]["agent_rate"]) == pytest.approx(3 * float(table[0]["rate"]))
    page = report.page(json.loads(paths[0].read_text()), "bench.json")
    assert "Not there when this was measured: VMAS." in page
    assert "| A tiny one: 8 worlds" in page
    assert "VMAS, 4 worlds" in page
    assert "vmas is not installed: make bench-peers" in page


def test_a_ratio_counts_the_worlds_of_both(contest):
    """Twice the worlds in the same time are twice as fast."""
    played = heats.play(contest, contest.heats[0], TINY)
    _, theirs, _ = heats.rows_of(contest, played)
    pairs = zip(played.rounds.seconds["numpy"], played.rounds.seconds["core.step"], strict=True)
    assert theirs["ratio"] == pytest.approx(0.5 * statistics.median(a / b for a, b in pairs))


def row(kind, name, rate, ratio):
    spread = {"rate": rate, "ratio": ratio, "ratio_low": 0.9 * ratio, "ratio_high": 1.1 * ratio}
    return {"heat": "8 worlds", "kind": kind, "name": name, "unit": "env-steps/s", "others": 0.01, **spread}


def test_the_table_takes_the_fastest_peer():
    rows = [
        row("ours", "core.step", 2e6, 1.0),
        row("bound", "the C step", 4e6, 0.5),
        row("peer", "slow", 1e3, 2000.0),
        row("peer", "fast", 1e5, 20.0),
        row("memory", "the memory bound", 8e6, 0.25),
    ]
    figures = [{"row": one} for one in rows] + [{"row": None}]
    result = {"groups": {"x": {"title": "Tag", "figures": figures}}}
    (line,) = (line for line in standing.section(result) if "Tag: " in line)
    assert line == "| Tag: 8 worlds | env-steps/s | 2,000,000 | fast 100,000 | 20 (18 – 22) | 0.5 | 0.25 |"
    rows[0]["others"] = 0.06
    assert any("Tag: 8 worlds (the machine was busy)" in line for line in standing.section(result))
    assert standing.section({"groups": {"x": {"title": "Tag", "figures": [{"row": None}]}}}) == []


def test_doors_lead_to_the_same_worlds():
    """Same seed, same actions: what a door hands out is what the core does."""

    def rewards(entrance, worlds):
        step = cases.build(case(worlds, entrance, reuse_buffers=False))
        return [step()[1] for _ in range(5)]

    wanted = rewards("core", 4)
    for played, told in zip(rewards("dict", 4), wanted, strict=True):
        assert torch.equal(torch.stack(list(played.values()), 1), told)
    for entrance in ("rows", "numpy rows"):
        for played, told in zip(rewards(entrance, 4), wanted, strict=True):
            assert torch.equal(torch.as_tensor(played).float().view(4, 3), told)
    for played, told in zip(rewards("pettingzoo", 1), rewards("core", 1), strict=True):
        assert list(played.values()) == told[0].tolist()


def test_one_agent_doors_go_on_after_an_episode():
    step = cases.build(case(1, "gymnasium env"))
    assert all(step() is not None for _ in range(3 * SPREAD["max_cycles"]))


def test_a_door_that_needs_what_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(doors.NEEDS, "dict", ("no_such_library.part",))
    assert doors.missing("dict") == "no_such_library.part"
    assert doors.missing("core") is None


def test_time_is_given_to_rooms():
    shares = hotspots.shares(cases.build(case(entrance="dict")), 0.1)
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert {"kernels", "the view", "torch"} <= set(shares)
    assert "the view" not in hotspots.shares(cases.build(case()), 0.1)
    assert hotspots.told({"kernels": 0.8, "torch": 0.16, "NumPy": 0.04}) == "kernels 80 %, torch 16 %"


def test_games_and_trainings_take_part():
    ppo = {"rollout_length": 8, "epochs": 1, "minibatches": 1}
    entrants = (
        Entrant("steps", "ours", Batch("LeducPoker-v0", 16, fused=False)),
        Entrant("learning", "ours", Learner("CartPole-v1", 4, ppo)),
    )
    contest = Contest("mixed", "Mixed", "LeducPoker-v0", (), unit="games/s")
    games, learning = heats.rows_of(contest, heats.play(contest, Heat("both", entrants), TINY))
    assert games["rate"] > 0
    assert (learning["worlds"], learning["agents"], learning["door"]) == (4, 1, "training")
    assert learning["rate"] > 0


def test_taking_over_what_the_suite_has_measured(tmp_path, monkeypatch):
    """Groups of the same id are renewed, the others kept, and the page is written."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "PAGE", tmp_path / "performance.md")
    here = {"cpu": "Some CPU (x)", "cores": 2}

    def group(value):
        return report.group("A title", "make bench", TINY, 0.0, [Figure("speed", "env-steps/s", value)])

    report.write(tmp_path / "results" / "some-cpu-x-2-cores.json", here, {"old": group(1.0), "both": group(2.0)})
    report.write(tmp_path / "bench.json", here, {"both": group(3.0)})
    report.main(["--take", str(tmp_path / "bench.json")])
    groups = json.loads((tmp_path / "results" / "some-cpu-x-2-cores.json").read_text())["groups"]
    assert [groups[id]["figures"][0]["value"] for id in ("old", "both")] == [1.0, 3.0]
    assert "| speed | 3 |" in (tmp_path / "performance.md").read_text()


@pytest.mark.slow
def test_the_suite_runs_on_pytest_benchmark(tmp_path):
    """Rows of pytest-benchmark hold the turns that were played."""
    command = [sys.executable, "-m", "pytest", "benchmarks", "--quick", "--out", str(tmp_path), "-k", "doors-all"]
    command += ["--benchmark-only", "--benchmark-json", str(tmp_path / "pytest.json"), "-p", "no:cacheprovider"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(command, cwd=report.ROOT, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "pytest.json").read_text())["benchmarks"]
    figures = json.loads((tmp_path / "bench.json").read_text())["groups"]["doors-all"]["figures"]
    told = [figure["row"] for figure in figures if figure["row"]]
    rates = {row["name"]: row["rate"] for row in told if row["kind"] != "absent"}
    names = [one["name"].rpartition("worlds-")[2].removesuffix("]") for one in rows]
    assert set(names) == set(rates) - {heats.MEMORY}
    assert {"core.step", "dicts of tensors", "rows of arrays"} <= set(names)
    for name, one in zip(names, rows, strict=True):
        assert one["extra_info"]["worlds"] / one["stats"]["median"] == pytest.approx(rates[name], rel=1e-6)
