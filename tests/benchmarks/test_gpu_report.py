"""The GPU report without a GPU: parts that fail, hang or crash, its time limit, its files, and a tiny run."""

import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from part_processes import Clock, child, gone

from benchmarks.gpu import gpu_report, kernels, page, peers, plan, process, results
from benchmarks.gpu.parts import PARTS, Scale
from benchmarks.peers.inside import gymnasium as inside
from benchmarks.throughput.cases import many_agent_settings
from benchmarks.throughput.roofline import traffic
from gpu_envs.definition.registry import list_envs
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.kernels import SCHEDULES

ROOT = Path(__file__).resolve().parents[2]
GPU = {"name": "A GPU", "arch": 90, "torch": "2", "gpus_of_torch": 1, "warp-lang": "1", "gpus_of_warp": 1}
MACHINE = f"print('ROW ' + json.dumps({{'machine': {GPU}}}))"
ROW = "print('ROW ' + json.dumps({'env': 'CartPole-v1', 'worlds': 1, 'agents': 1, 'value': 2.0}), flush=True)"


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Function that runs the command line with Python code in place of parts, and returns exit code and result."""

    def main(codes, *options, limits=None):
        limits = limits or {}
        sections = [plan.ReportSection(name, name, limits.get(name, 60.0)) for name in codes]
        monkeypatch.setattr(plan, "PLAN", tuple(sections))
        monkeypatch.setattr(plan, "command", lambda name, *_: child(f"import json, os, time; {codes[name]}"))
        monkeypatch.setattr(process, "GRACE", 0.3)
        handler, core = signal.getsignal(signal.SIGTERM), process.resource.getrlimit(process.resource.RLIMIT_CORE)
        try:
            code = gpu_report.main(["--out", str(tmp_path), *options])
        finally:
            signal.signal(signal.SIGTERM, handler)
            process.resource.setrlimit(process.resource.RLIMIT_CORE, core)
        file = tmp_path / "a-gpu.json"
        return code, json.loads(file.read_text()) if file.exists() else None

    return main


def run_here(words, seconds, log, on_row, on_line):
    """Run the code of a part in this process, for tests of many runs."""
    status = "done"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            exec(words[-1], {})
        except RuntimeError as error:
            status = f"failed (1): {error}"
    for line in output.getvalue().splitlines():
        on_row(json.loads(line.removeprefix("ROW ")))
    return process.Outcome(status)


# ---------------------------------------------------------------- report


def test_report_keeps_results_of_failed_hanging_and_crashed_parts(tmp_path, stand_ins, monkeypatch, capsys):
    monkeypatch.setattr(process, "time", Clock(tmp_path / "log.txt", "hangs"))
    codes = {
        "machine": MACHINE,
        "sweep": f"{ROW}; print('hangs', flush=True); time.sleep(600)",
        "kernels": f"{ROW}; os.abort()",
        "goals": f"{ROW}; raise RuntimeError('out of luck')",
        "many-agents": ROW,
    }
    code, result = stand_ins(codes, "--seconds", "300")
    parts = result["parts"]
    assert code == 1
    assert {name: len(part["rows"]) for name, part in parts.items()} == {name: name != "machine" for name in codes}
    assert parts["goals"]["status"] == "failed (1): RuntimeError: out of luck"
    assert parts["kernels"]["status"] == "crashed: SIGABRT"
    assert "Fatal Python error: Aborted" in parts["kernels"]["output"]
    assert parts["sweep"]["status"].startswith("cut after")
    assert (parts["many-agents"]["status"], "output" in parts["many-agents"]) == ("done", False)
    assert {path.name for path in tmp_path.iterdir()} == {"a-gpu.json", "a-gpu.md", "log.txt"}
    assert capsys.readouterr().out.endswith("failed: sweep, kernels, goals\n")
    assert "Fatal Python error: Aborted" in (tmp_path / "a-gpu.md").read_text()


def test_results_are_written_after_each_part(tmp_path, stand_ins):
    """The second part finds the first one in the file."""
    script = f"print('ROW ' + json.dumps({{'what': json.load(open({str(tmp_path / 'a-gpu.json')!r}))['parts']}}))"
    code, result = stand_ins({"machine": MACHINE, "goals": f"{ROW}; print('over')", "sweep": script})
    earlier = result["parts"]["sweep"]["rows"][0]["what"]
    assert code == 0
    assert {name: part["status"] for name, part in earlier.items()} == {"machine": "done", "goals": "done"}
    assert earlier["goals"]["rows"] == result["parts"]["goals"]["rows"] != []


def test_report_ends_in_time_if_all_parts_hang(stand_ins, monkeypatch):
    """Also if they ignore signals; parts without time are left out."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, strftime=time.strftime)

    def hangs(words, seconds, log, on_row, on_line):
        if MACHINE in words[-1]:
            on_row({"machine": GPU})
            return process.Outcome("done")
        clock.now += seconds + 2 * process.GRACE  # the most that `process.run` takes
        return process.Outcome(f"cut after {seconds:.0f} s")

    monkeypatch.setattr(gpu_report, "time", clock)
    monkeypatch.setattr(process, "run", hangs)
    limits = {"machine": 2.0, "goals": 2.0, "sweep": 2.5, "training": 0.5}
    code, result = stand_ins(dict.fromkeys(limits, "hangs") | {"machine": MACHINE}, "--seconds", "7", limits=limits)
    assert code == 1
    assert clock.now == pytest.approx(6.5)  # the last part would have had half a second
    assert [part["status"].partition(" after")[0] for part in result["parts"].values()] == [
        "done",
        "cut",
        "cut",
        "left out: no time left",
    ]


def test_interrupted_report_keeps_its_results(tmp_path, stand_ins):
    """A signal to the report, here by its part, ends the part as well."""
    log = str(tmp_path / "log.txt")
    wait = f"[time.sleep(0.02) for _ in iter(lambda: str(os.getpid()) in open({log!r}).read().split(), True)]"
    stop = f"print(os.getpid(), flush=True); {wait}; os.kill(os.getppid(), 15); time.sleep(60)"
    with pytest.raises(SystemExit):
        stand_ins({"machine": MACHINE, "goals": ROW, "sweep": f"{ROW}; {stop}"})
    parts = json.loads((tmp_path / "a-gpu.json").read_text())["parts"]
    assert [part["status"] for part in parts.values()] == ["done", "done", "interrupted"]
    assert len(parts["sweep"]["rows"]) == 1
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert gone(next(line for line in reversed(lines) if line.isdigit()))


def test_only_runs_some_parts_and_keeps_the_others(tmp_path, stand_ins, monkeypatch, capsys):
    codes = {"machine": MACHINE, "goals": ROW, "sweep": f"{ROW}; raise RuntimeError('no')"}
    monkeypatch.setattr(process, "run", run_here)
    monkeypatch.setattr(results, "commit", lambda: "abc")
    assert stand_ins(codes)[0] == 1
    code, result = stand_ins(codes | {"sweep": f"{ROW}; {ROW}"}, "--only", "sweep")
    assert code == 0
    assert {name: len(part["rows"]) for name, part in result["parts"].items()} == {"machine": 0, "goals": 1, "sweep": 2}
    assert "parts of an earlier run in a-gpu.json: goals, sweep\n" in capsys.readouterr().out
    assert stand_ins(codes, "--only", "sweep")[0] == 1
    assert stand_ins(codes, "--only", "goals")[0] == 0  # the part that failed is an earlier one
    monkeypatch.setattr(results, "commit", lambda: "def")
    assert set(stand_ins(codes, "--only", "goals", "--only", "machine")[1]["parts"]) == {"machine", "goals"}
    for commit in (results.UNKNOWN, f"def{results.CHANGED}"):  # equal, but of unknown code
        monkeypatch.setattr(results, "commit", lambda name=commit: name)
        stand_ins(codes, "--only", "goals")
        assert set(stand_ins(codes, "--only", "sweep")[1]["parts"]) == {"machine", "sweep"}


def test_unknown_part_is_refused_in_one_line(capsys):
    assert gpu_report.main(["--only", "goals", "--only", "gaols"]) == 2
    line = capsys.readouterr().err
    assert line == f"--only: expected some of {' '.join(part.name for part in plan.PLAN)}, got gaols\n"


# ---------------------------------------------------------------- plan


def test_parts_without_their_requirements_are_left_out(monkeypatch):
    sections = {part.name: part for part in plan.PLAN}
    assert plan.obstacle(sections["kernels"], "cpu", None).startswith("left out")
    assert plan.obstacle(sections["kernels"], "cuda", None).startswith("left out")
    assert plan.obstacle(sections["kernels"], "cuda:1", 90) == ""
    assert plan.command("kernels", "cuda", False, 90)[-2:] == ["--arch", "90"]
    assert "--tiny" in plan.command("goals", "cpu", True, None)
    assert plan.obstacle(sections["profiles"], "cpu", None) == "left out: ncu needs a GPU"
    monkeypatch.setattr(plan, "path_of", lambda tool: None)
    monkeypatch.setattr(plan, "missing", lambda names: [name for name in names if name in lacking])
    lacking = ("jaxmarl", "tensorboard")
    obstacles = {name: plan.obstacle(part, "cuda", 90) for name, part in sections.items()}
    assert {name: line for name, line in obstacles.items() if line} == {
        "jaxmarl": "not installed: jaxmarl",
        "profiles": "not installed: ncu",
        "racecheck": "not installed: compute-sanitizer",
        "synccheck": "not installed: compute-sanitizer",
        "training": "lacks tensorboard",
    }
    lacking = ("gymnasium", "pettingzoo")
    obstacles = {plan.obstacle(part, "cuda", 90) for name, part in sections.items() if name != "machine"}
    assert obstacles == {"lacks gymnasium, pettingzoo"}
    assert plan.obstacle(sections["machine"], "cuda", 90) == ""


def test_all_gpu_tests_are_in_the_report():
    """Wherever it lies; files without one are not even collected."""
    files = plan.files_of_tests()
    assert {
        "tests/gpu/test_gpu.py",
        "tests/gpu_envs/rendering/test_rasterizer.py",
        "tests/trainers/cli/test_train.py",
    } < set(files)
    assert "tests/benchmarks/test_gpu_report.py" not in files
    assert set(plan.command("tests", "cpu", True, None)) > set(files)


def test_parts_fit_the_time_limit():
    assert sum(part.seconds for part in plan.PLAN) <= gpu_report.TOTAL <= 480 - 10
    order = [part.name for part in plan.PLAN]
    assert order[:2] == ["machine", "smoke"]
    assert [part.name for part in plan.PLAN if part.capped] == order[:2]
    expected = ("goals", "profiles", "blocks", "sweep", "training", "tests", "racecheck", "synccheck", "jaxmarl")
    assert [name for name in order if name in expected] == list(expected)  # what decides most comes first
    assert min(part.seconds for part in plan.PLAN) > 2 * process.GRACE + 1  # less is never run
    assert {*PARTS, *plan.SANITIZED, "machine", "smoke", "kernels", "profiles", "tests"} == set(order)


@pytest.mark.slow
def test_smoke_tests_and_sanitized_tests_exist():
    sanitized = [name for names in plan.SANITIZED.values() for name in names if "::" in name]
    names = [*plan.SMOKE, *sanitized]
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gpu", *names]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert set(names) == {line for line in done.stdout.splitlines() if "::" in line}


def test_gpu_peer_uses_the_loop_of_the_benchmarks(monkeypatch):
    """The loop is in benchmarks/peers/inside; a failing peer becomes a row with its error."""
    monkeypatch.setattr(peers, "import_module", lambda name: {"benchmarks.peers.inside.vmas": inside}[name])
    peer = peers.GpuPeer("Gymnasium", "vmas", "CartPole-v1", "CartPole-v1", "env.step")
    good, *_ = peers.measured(peer, torch.device("cpu"), (4, 8), 0.01)
    assert good["value"] > 0
    assert (good["worlds"], good["agents"], good["peer"]) == (4, 1, "Gymnasium")
    (bad,) = peers.measured(replace(peer, game="Nothing-v0"), torch.device("cpu"), (4,), 0.01)
    assert "Nothing" in bad["error"]
    assert set(plan.PEERS) == set(peers.PEERS) <= set(PARTS)


@pytest.mark.parametrize(
    "lines",
    [
        [
            "tests/gpu/test_gpu.py::test_a[fused-CartPole-v1] PASSED [ 10%]",
            "tests/gpu/test_gpu.py::test_b FAILED                [ 20%]",
            "tests/gpu/test_gpu.py::test_c SKIPPED (needs 48 GiB) [ 30%]",
            "FAILED tests/gpu/test_gpu.py::test_b - assert 1 == 2",
            "ERROR tests/gpu_envs/views/test_x.py - ModuleNotFoundError: No module named 'x'",
            "=== 1 failed, 1 passed, 1 skipped in 3.0s ===",
        ],
        [
            "[gw0] [ 10%] PASSED tests/gpu/test_gpu.py::test_a[fused-CartPole-v1] ",
            "[gw1] [ 20%] FAILED tests/gpu/test_gpu.py::test_b ",
            "[gw0] [ 30%] SKIPPED tests/gpu/test_gpu.py::test_c ",
            "FAILED tests/gpu/test_gpu.py::test_b - assert 1 == 2",
            "ERROR tests/gpu_envs/views/test_x.py - ModuleNotFoundError: No module named 'x'",
        ],
    ],
    ids=["alone", "side by side"],
)
def test_outcomes_of_tests_are_read(lines):
    """A file that cannot be collected is an error, and the tests of the other files are counted as usual."""
    reader = gpu_report.PytestOutcomes()
    for line in lines:
        reader.read(line)
    counts = {row["what"]: row["value"] for row in reader.rows() if "value" in row}
    assert counts == {"passed": 1, "failed": 1, "skipped": 1, "error": 1}
    assert [row for row in reader.rows() if "error" in row] == [
        {"what": "tests/gpu/test_gpu.py::test_b", "error": "assert 1 == 2"},
        {"what": "tests/gpu_envs/views/test_x.py", "error": "ModuleNotFoundError: No module named 'x'"},
    ]


# ---------------------------------------------------------------- what is measured


def test_kernels_of_every_environment_are_compiled_beforehand():
    ways = {(schedule, kind) for _, _, schedule, _, kind in kernels.tested()}
    assert ways == {*((schedule, "cuda") for schedule in (*SCHEDULES, "play")), ("fused", "cpu")}
    assert {env_id for env_id, *_ in kernels.tested()} == set(list_envs())
    measured = kernels.measured(Scale())
    assert len({(env_id, str(settings), schedule) for env_id, settings, schedule, *_ in measured}) == len(measured)
    for env_id, schedule, _ in Scale().blocks:
        assert (env_id, {}, schedule, True, "cuda") in measured


def test_part_whose_measurements_all_failed_has_failed(stand_ins):
    counted = (
        "print('ROW ' + json.dumps({'env': 'CartPole-v1', 'unit': 'B', 'note': '', 'mode': 'bytes', 'value': 9.0}))"
    )
    row = f"{counted}; print('ROW ' + json.dumps({{'env': 'CartPole-v1', 'error': 'no memory'}}))"
    code, result = stand_ins({"machine": MACHINE, "training": row, "sweep": f"{row}; {ROW}"})
    assert code == 1
    assert result["parts"]["training"]["status"] == "failed: every measurement, see their errors"
    assert result["parts"]["sweep"]["status"] == "done"


@pytest.mark.parametrize("goal", page.GOALS, ids=lambda goal: goal.title)
def test_no_goal_needs_more_than_the_bandwidth_of_an_h100(goal):
    if goal.unit == page.SHARE:
        assert goal.least < 1
        return
    core = make_core(goal.env, 2, "cpu", **(many_agent_settings(goal.agents) if goal.agents == 1000 else {}))
    assert core.num_agents == goal.agents
    assert goal.least * traffic(core).bytes < 3.35e12
