"""The throughput suite in a tiny mode: rounds are played, and end in figures, rows, pictures and the table."""

import csv
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_environments import SMALL

from benchmarks import conftest
from benchmarks.hardware import hotspots
from benchmarks.pages import performance_page, results
from benchmarks.peers import process
from benchmarks.peers.process import PeerError, PeerTask
from benchmarks.throughput import cases, rounds, timing
from benchmarks.throughput.cases import Case
from benchmarks.throughput.comparisons import MICROSECONDS, STEPS, ComparisonGroup, Round
from benchmarks.throughput.contenders import Contender, Games, PPOSubject
from benchmarks.throughput.target import NOISE, Effort, PerformanceTarget
from gpu_envs.runtime.factory import make_core

TINY = Effort(repeats=2, seconds=0.01, patience=1)
SPREAD = SMALL["SimpleSpread-v0"]


def case(worlds=4, interface="core", **more):
    return Case("SimpleSpread-v0", worlds, interface, threads=1, config=SPREAD, **more)


@pytest.fixture
def comparison(tmp_path, monkeypatch):
    """Return a comparison of three sizes, with a slower contender and a peer that is not installed."""
    monkeypatch.setattr(process, "HOME", tmp_path / "absent")
    monkeypatch.setattr(rounds, "bandwidth", lambda device: rounds.Spread(1e9, 0.9e9, 1.1e9))
    absent = Contender("VMAS", "peer", PeerTask("vmas", "simple_spread"))

    def round_(worlds):
        slow = Contender("numpy", "peer", case(2 * worlds, "numpy rows"))
        core = Contender("core.step", "gpu_envs", case(worlds))
        goals, alone = {"numpy": ">= 1", "VMAS": ">= 100"}, {MICROSECONDS: "<= 15", STEPS: ">= 1"}
        return Round(f"{worlds} worlds", (core, slow, absent), goals, alone)

    return ComparisonGroup("tiny", "A tiny one", tuple(map(round_, (4, 8, 16))), along="worlds")


def test_comparison_writes_figures_and_page(comparison, tmp_path):
    figures = list(rounds.measure(comparison, TINY))
    rows = [figure.row for figure in figures if figure.row]
    assert [row["kind"] for row in rows] == ["gpu_envs", "peer", "memory", "absent"] * 3
    core, theirs, memory, absent = rows[:4]
    assert (core["worlds"], core["agents"], core["schedule"], core["device"]) == (4, 3, "fused", "cpu")
    assert min(core["rate"], theirs["rate"]) > 0
    assert core["ratio"] == 1
    assert theirs["worlds"] == 8
    assert memory["ratio"] == pytest.approx(core["rate"] / memory["rate"])
    assert memory["rate"] == pytest.approx(1e9 / float(memory["note"].split()[0]), rel=0.01)
    assert absent["name"] == "VMAS"
    over, latency, rate, unmeasured = (figure for figure in figures if figure.target and "4 worlds" in figure.what)
    assert over.met == (over.value >= 1)
    assert rate.met
    assert rate.value == pytest.approx(core["rate"])
    assert latency.low / 3 <= 4e6 / rate.value <= 3 * latency.high  # of other turns, while other tests run
    assert (unmeasured.what, unmeasured.value, unmeasured.met) == ("core.step over VMAS, 4 worlds", None, None)
    assert sum(figure.what == NOISE for figure in figures) == 3
    suite = conftest.Suite(False, tmp_path / "bench")
    suite.groups = {comparison.id: results.group(comparison.title, "make bench", TINY, 0.0, figures)}
    paths = suite.write()
    assert [path.name for path in paths] == ["bench.json", "bench.csv", "tiny_env_steps.png", "tiny_agent_steps.png"]
    assert all(path.stat().st_size > 0 for path in paths)
    with paths[1].open() as file:
        table = list(csv.DictReader(file))
    assert [row["name"] for row in table] == ["core.step", "numpy", "the memory bound", "VMAS"] * 3
    assert float(table[0]["agent_rate"]) == pytest.approx(3 * float(table[0]["rate"]))
    target = PerformanceTarget(comparison.id, comparison.title, rounds.measure)
    parts = performance_page.parts(json.loads(paths[0].read_text()), "bench.json", [target])
    assert "Not measured: VMAS (A tiny one)." in parts["comparisons"]
    assert "| A tiny one: 8 worlds" in parts["comparisons"]
    missing = "not measured: vmas is not installed: make bench-peers"
    line = f"| A tiny one: core.step over VMAS, 4 worlds (and 2 more) |  | ratio | ≥ 100 | {missing} |"
    assert line in parts["targets"]


def test_ratio_counts_the_worlds_of_both_contenders(comparison):
    """Twice the worlds in the same time is twice the rate."""
    played = rounds.play(comparison, comparison.rounds[0], TINY)
    _, theirs, _ = rounds.rows_of(comparison, played)
    pairs = zip(played.samples.seconds["numpy"], played.samples.seconds["core.step"], strict=True)
    assert theirs["ratio"] == pytest.approx(0.5 * statistics.median(a / b for a, b in pairs))


def test_dead_peer_is_absent_and_others_keep_their_figures(comparison, monkeypatch):
    """The row of the dead peer has the reason, and its targets are not measured."""
    time_of, turns = timing._time, []

    def dying(subject, count):
        turns.append(subject)
        if turns.count(subject) == 4 and subject is turns[1]:
            raise PeerError("numpy: ended: out of memory")
        return time_of(subject, count)

    monkeypatch.setattr(timing, "_time", dying)
    monkeypatch.setattr(timing, "_warm", lambda subject, seconds: dying(subject, 1))
    figures = list(
        rounds.figures(comparison, rounds.play(comparison, comparison.rounds[0], Effort(6, 0.01, patience=1)))
    )
    rows = {figure.row["name"]: figure.row["kind"] for figure in figures if figure.row}
    assert rows == {"core.step": "gpu_envs", rounds.MEMORY: "memory", "VMAS": "absent", "numpy": "absent"}
    (goal,) = (figure for figure in figures if "over numpy" in figure.what)
    assert (goal.value, goal.target, goal.note) == (None, ">= 1", "numpy: ended: out of memory")


def test_failed_round_is_not_repeated(comparison, monkeypatch, tmp_path):
    """Every row of it fails in the same way, without waiting for it again."""
    played = []

    def failing(*_):
        played.append(1)
        raise RuntimeError("no")

    monkeypatch.setattr(rounds, "play", failing)
    suite = conftest.Suite(False, tmp_path)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="no"):
            suite.play(comparison, comparison.rounds[0])
    assert len(played) == 1


def row(kind, name, rate, ratio):
    spread = {"rate": rate, "ratio": ratio, "ratio_low": 0.9 * ratio, "ratio_high": 1.1 * ratio}
    return {"round": "8 worlds", "kind": kind, "name": name, "unit": "env-steps/s", "others": 0.01, **spread}


def test_comparison_table_uses_the_fastest_peer():
    rows = [
        row("gpu_envs", "core.step", 2e6, 1.0),
        row("bound", "the C step", 4e6, 0.5),
        row("peer", "slow", 1e3, 2000.0),
        row("peer", "fast", 1e5, 20.0),
        row("memory", "the memory bound", 8e6, 0.25),
    ]
    figures = [{"row": contender} for contender in rows] + [{"row": None}]
    group = {"title": "Tag", "figures": figures}
    line = ("Tag: 8 worlds", "env-steps/s", "2,000,000", "fast 100,000", "20 (18 – 22)", "0.5", "0.25")
    assert list(performance_page._comparisons(group, {})) == [line]
    figures.append({"row": row("gpu_envs", "other settings", 3e6, 0.5)})
    other = ("Tag: 8 worlds, other settings", "env-steps/s", "3,000,000", "fast 100,000", "40", "", "")
    assert list(performance_page._comparisons(group, {})) == [line, other]
    rows[0]["others"] = 0.06
    assert next(performance_page._comparisons(group, {}))[0] == "Tag: 8 worlds (the machine was busy)"
    figures.append({"row": row("interface", "clones", 1e6, 2.0)})
    assert list(performance_page._comparisons(group, {})) == []
    assert ("Tag: 8 worlds, clones", "env-steps/s", "1,000,000", "2") in performance_page._interfaces(group, {})


def test_interfaces_return_the_results_of_the_core():
    """Seeds and actions are equal."""

    def rewards(interface, worlds):
        step = cases.build(case(worlds, interface, reuse_buffers=False))
        return [step()[1] for _ in range(5)]

    reference = rewards("core", 4)
    for played, expected in zip(rewards("dict", 4), reference, strict=True):
        assert torch.equal(torch.stack(list(played.values()), 1), expected)
    for interface in ("rows", "numpy rows"):
        for played, expected in zip(rewards(interface, 4), reference, strict=True):
            assert torch.equal(torch.as_tensor(played).float().view(4, 3), expected)
    for played, expected in zip(rewards("pettingzoo", 1), rewards("core", 1), strict=True):
        assert list(played.values()) == expected[0].tolist()


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Pendulum-v1", "SimpleSpeakerListener-v0", "TagContinuous-v0", "SimpleWorldComm-v0"]
)
def test_random_actions_use_the_whole_space_of_each_agent(env_id):
    """Agents may have different numbers of choices."""
    core = make_core(env_id, 512, "cpu", seed=0, threads=1, **SMALL[env_id])
    batches = cases.random_actions(core)
    core.reset()
    core.step(batches[0])
    assert len(batches) == cases.ACTION_BATCHES
    assert not torch.equal(batches[0], batches[1])
    drawn = torch.cat(batches)
    drawn = drawn if drawn.dim() == 3 else drawn[..., None]
    low, high = drawn.amin(0), drawn.amax(0)
    if core.action_kind == "continuous":
        space = core.action_spaces[core.possible_agents[0]]
        assert low.item() == pytest.approx(space.low.item(), abs=0.01)
        assert high.item() == pytest.approx(space.high.item(), abs=0.01)
    else:
        assert not low.any()
        assert torch.equal(high, core.num_choices.long() - 1)


def test_single_agent_interface_continues_after_an_episode():
    step = cases.build(case(1, "gymnasium env"))
    assert all(step() is not None for _ in range(3 * SPREAD["max_cycles"]))


def test_profile_assigns_time_to_layers():
    shares = hotspots.shares(cases.build(case(interface="dict")), 0.1)
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert {"kernels", "the view", "torch"} <= set(shares)
    assert "the view" not in hotspots.shares(cases.build(case()), 0.1)
    assert hotspots.format_shares({"kernels": 0.8, "torch": 0.16, "NumPy": 0.04}) == "kernels 80 %, torch 16 %"


def test_games_and_training_are_contenders():
    ppo = {"rollout_length": 8, "num_epochs": 1, "num_minibatches": 1, "hidden_sizes": (16,)}
    contenders = (
        Contender("steps", "gpu_envs", Games("KuhnPoker-v0", 16, fused=False)),
        Contender("learning", "gpu_envs", PPOSubject("CartPole-v1", 4, ppo)),
    )
    comparison = ComparisonGroup("mixed", "Mixed", (), unit="games/s")
    games, learning = rounds.rows_of(comparison, rounds.play(comparison, Round("both", contenders), TINY))
    assert games["rate"] > 0
    assert (learning["worlds"], learning["agents"], learning["interface"]) == (4, 1, "training")
    assert learning["rate"] > 0


def test_profile_uses_the_path_within_a_package(monkeypatch):
    """The path of the repository does not count: its folder may have the name of a library or be inside one."""
    monkeypatch.setattr(hotspots, "ROOT", Path("/home/torchrl/warp/gpu_envs"))

    def room(file, name="step"):
        return hotspots._room(hotspots._location(file, name))

    root = "/home/torchrl/warp/gpu_envs"
    assert room(f"{root}/gpu_envs/views/rows.py") == "the view"
    assert room(f"{root}/gpu_envs/runtime/launcher.py") == "kernels"
    assert room(f"{root}/benchmarks/throughput/cases.py") == "other Python"
    assert room(f"{root}/.venv/lib/python3.11/site-packages/torch/nn/module.py") == "torch"
    assert room(f"{root}/.venv/lib/python3.11/site-packages/torchrl/envs/common.py") == "the library"
    assert room(f"{root}/.venv/lib/python3.11/site-packages/warp/_src/context.py") == "kernels"
    assert room("/opt/numpy/lib/python3.11/json/decoder.py") == "other Python"
    assert room("~", "<method 'clone' of 'torch._C.TensorBase' objects>") == "torch"
    assert room("~", "<built-in method builtins.isinstance>") == "other Python"


@pytest.mark.slow
def test_pytest_benchmark_rows_equal_the_results_of_the_suite(tmp_path):
    """The rows of pytest-benchmark hold the measured samples."""
    command = [sys.executable, "-m", "pytest", "benchmarks", "--quick", "--out", str(tmp_path), "-k", "interfaces-all"]
    command += ["--benchmark-only", "--benchmark-json", str(tmp_path / "pytest.json"), "-p", "no:cacheprovider"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(command, cwd=hotspots.ROOT, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "pytest.json").read_text())["benchmarks"]
    figures = json.loads((tmp_path / "bench.json").read_text())["groups"]["interfaces-all"]["figures"]
    figure_rows = [figure["row"] for figure in figures if "row" in figure]
    rates = {row["name"]: row["rate"] for row in figure_rows if row["kind"] != "absent"}
    names = [entry["name"].rpartition("worlds-")[2].removesuffix("]") for entry in rows]
    assert set(names) == set(rates) - {rounds.MEMORY}
    assert {"core.step", "dicts of tensors", "rows of arrays"} <= set(names)
    for name, entry in zip(names, rows, strict=True):
        assert entry["extra_info"]["worlds"] / entry["stats"]["median"] == pytest.approx(
            rates[name], rel=1e-5
        )  # of six digits
