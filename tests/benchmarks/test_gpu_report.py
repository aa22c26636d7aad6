"""The GPU report without a GPU: parts that fail or take too long, goals and tables out of a result, and a tiny run."""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import warp as wp

from benchmarks.gpu import driver, kernels, page, peers, report
from benchmarks.gpu.parts import PARTS, TINY, Scale
from benchmarks.peers.inside import gymnasium as inside
from benchmarks.throughput.cases import many_agent_settings
from gpu_envs.definition.registry import list_envs

ROOT = Path(__file__).resolve().parents[2]


def child(code):
    return [sys.executable, "-c", code]


# ---------------------------------------------------------------- parts


def test_all_lines_of_a_part_are_read(tmp_path):
    lines = []
    assert report.run(child("print('one'); print('two')"), 20.0, tmp_path / "log", lines.append) == "done"
    assert lines == ["one", "two"]


def test_failed_part_returns_its_error(tmp_path):
    code = "import sys; print('one', flush=True); sys.exit('no such library')"
    lines = []
    assert report.run(child(code), 20.0, tmp_path / "log", lines.append) == "failed (1): no such library"
    assert lines == ["one"]
    assert report.run(child("import sys; sys.exit(3)"), 20.0, tmp_path / "log", lines.append).endswith(
        "it said nothing"
    )


def test_part_over_its_time_limit_is_killed_with_its_children(tmp_path):
    """Lines printed before the limit are kept, and no process survives."""
    sleeper = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    lines, begun = [], time.monotonic()
    words = child(f"import subprocess, sys; child = {sleeper}; print(child.pid, flush=True); child.wait()")
    assert report.run(words, 5.0, tmp_path / "log", lines.append) == "cut after 5 s"
    assert time.monotonic() - begun < 55.0  # the child sleeps for 60
    stat = Path(f"/proc/{lines[0]}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_report_keeps_results_of_failed_and_hanging_parts(tmp_path, monkeypatch):
    """One part fails, one hangs, one completes: the file has all printed rows and the reasons of the failures."""
    row = "print('ROW ' + json.dumps({'env': 'CartPole-v1', 'worlds': 1, 'agents': 1, 'value': 2.0}), flush=True)"
    codes = {
        "machine": "print('ROW ' + json.dumps({'machine': {'name': 'A GPU', 'arch': 90}}))",
        "sweep": f"{row}; import time; time.sleep(600)",
        "goals": f"{row}; raise RuntimeError('out of luck')",
        "many-agents": row,
    }
    monkeypatch.setattr(report, "command", lambda part, *_: child(f"import json; {codes[part]}"))
    monkeypatch.setattr(report, "GRACE", 1.0)
    seconds = {"machine": 4.0, "sweep": 5.0, "goals": 60.0, "many-agents": 60.0}  # what is left goes to the next part
    plan = tuple(report.ReportSection(name, name, seconds[name]) for name in codes)
    monkeypatch.setattr(report, "PLAN", plan)
    given = argparse.Namespace(out=tmp_path, tiny=False, words=[], only=[], seconds=129.0, device="cuda")
    report.report(given)
    parts = json.loads((tmp_path / "a-gpu.json").read_text())["parts"]
    assert {name: len(part["rows"]) for name, part in parts.items()} == {
        "machine": 0,
        "goals": 1,
        "sweep": 1,
        "many-agents": 1,
    }
    assert parts["goals"]["status"] == "failed (1): RuntimeError: out of luck"
    assert parts["sweep"]["status"].startswith("cut after")
    assert parts["many-agents"]["status"] == "done"
    assert {path.name for path in tmp_path.iterdir()} == {"a-gpu.json", "a-gpu.md", "log.txt"}


def test_parts_without_their_requirements_are_left_out():
    assert report.command("kernels", "cpu", True, None).startswith("left out")
    assert report.command("kernels", "cuda", False, None).startswith("left out")
    assert report.command("kernels", "cuda", False, 90)[-2:] == ["--arch", "90"]
    assert "--tiny" in report.command("goals", "cpu", True, None)
    for name in report.PEERS:
        words = report.command(name, "cpu", True, None)
        assert words == f"not installed: {name}" or words[-2:] == ["cpu", "--tiny"]


def test_all_gpu_tests_are_in_the_report():
    """Wherever it lies; files without one are not even collected."""
    files = report.files_of_tests()
    assert {
        "tests/gpu/test_gpu.py",
        "tests/gpu_envs/rendering/test_rendering.py",
        "tests/trainers/cli/test_train.py",
    } < set(files)
    assert "tests/benchmarks/test_gpu_report.py" not in files
    assert set(report.command("tests", "cpu", True, None)) > set(files)


def test_gpu_peer_uses_the_loop_of_the_benchmarks(monkeypatch):
    """The loop is in benchmarks/peers/inside; a failing peer becomes a row with its error."""
    monkeypatch.setattr(peers, "import_module", lambda name: {"benchmarks.peers.inside.vmas": inside}[name])
    here = peers.GpuPeer("Gymnasium", "vmas", "CartPole-v1", "CartPole-v1", "env.step")
    good, *_ = peers.measured(here, torch.device("cpu"), (4, 8), 0.01)
    assert good["value"] > 0
    assert (good["worlds"], good["agents"], good["peer"]) == (4, 1, "Gymnasium")
    (bad,) = peers.measured(replace(here, game="Nothing-v0"), torch.device("cpu"), (4,), 0.01)
    assert "Nothing" in bad["error"]
    assert set(report.PEERS) == set(peers.PEERS) <= set(PARTS)


def test_parts_fit_the_time_limit():
    assert sum(part.seconds for part in report.PLAN) <= report.TOTAL < 480
    order = [part.name for part in report.PLAN]
    assert order.index("goals") < order.index("jaxmarl") < order.index("sweep")


@pytest.mark.parametrize(
    "lines",
    [
        [
            "tests/gpu/test_gpu.py::test_a[fused-CartPole-v1] PASSED [ 10%]",
            "tests/gpu/test_gpu.py::test_b FAILED                [ 20%]",
            "tests/gpu/test_gpu.py::test_c SKIPPED (needs 48 GiB) [ 30%]",
            "FAILED tests/gpu/test_gpu.py::test_b - assert 1 == 2",
            "=== 1 failed, 1 passed, 1 skipped in 3.0s ===",
        ],
        [
            "[gw0] [ 10%] PASSED tests/gpu/test_gpu.py::test_a[fused-CartPole-v1] ",
            "[gw1] [ 20%] FAILED tests/gpu/test_gpu.py::test_b ",
            "[gw0] [ 30%] SKIPPED tests/gpu/test_gpu.py::test_c ",
            "FAILED tests/gpu/test_gpu.py::test_b - assert 1 == 2",
        ],
    ],
    ids=["alone", "side by side"],
)
def test_outcomes_of_tests_are_read(lines):
    seen = report.Tests()
    for line in lines:
        seen.read(line)
    counts = {row["what"]: row["value"] for row in seen.rows() if "value" in row}
    assert counts == {"passed": 1, "failed": 1, "skipped": 1}
    assert [row for row in seen.rows() if "error" in row] == [
        {"what": "tests/gpu/test_gpu.py::test_b", "error": "assert 1 == 2"}
    ]


def test_uncollected_test_file_is_reported():
    """The tests of the other files are counted as usual."""
    seen = report.Tests()
    for line in (
        "tests/gpu/test_gpu.py::test_a PASSED [100%]",
        "ERROR tests/gpu_envs/views/test_x.py - ModuleNotFoundError: No module named 'x'",
        "=== 1 passed, 1 error in 3.0s ===",
    ):
        seen.read(line)
    passed, erred = ({"what": what, "unit": "tests", "value": 1} for what in ("passed", "error"))
    why = {"what": "tests/gpu_envs/views/test_x.py", "error": "ModuleNotFoundError: No module named 'x'"}
    assert seen.rows() == [erred, passed, why]


# ---------------------------------------------------------------- goals and tables


def result(**rates):
    """Return the result of a GPU that copies 4 TB/s, with these throughputs."""

    def row(env, worlds, agents, mode, value, **more):
        about = {
            "env": env,
            "worlds": worlds,
            "agents": agents,
            "mode": mode,
            "schedule": "fused",
            "env_contiguous": False,
        }
        return about | {"unit": "env-steps/s", "value": value, **more}

    def part(title, *rows):
        return {"title": title, "status": "done", "seconds": 1.0, "rows": list(rows)}

    tag, tag_continuous = "SimpleTag-v0", "TagContinuous-v0"
    goals = [
        {"env": tag, "agents": 4, "mode": "bytes", "unit": "B/env-step", "value": 500.0, "note": ""},
        row(tag, 4096, 4, "in place", 9e9),
        row(tag, 1 << 20, 4, "in place", rates["tag"]),
        row(tag, 1 << 20, 4, "copied", 0.9 * rates["tag"]),
        {"env": tag_continuous, "agents": 1000, "mode": "bytes", "unit": "B/env-step", "value": 4e5, "note": ""},
        row(tag_continuous, 2000, 1000, "in place", rates["many_agents"]),
        {"env": tag_continuous, "worlds": 7, "error": "OutOfMemoryError: no | memory"},
    ]
    parts = {
        "machine": part("machine", {"what": "copy", "unit": "B/s", "value": 4e12}),
        "tests": part("tests", {"what": "passed", "unit": "tests", "value": 3}),
        "goals": part("goals", *goals),
        "jaxmarl": part("JaxMARL", row(tag, 1 << 20, 4, "scan", rates["jaxmarl"], peer="JaxMARL")),
        "sweep": part("sweep", row(tag, 1, 4, "eager", 1e4), row(tag, 1, 4, "copied", 2e5)),
    }
    machine = {"name": "NVIDIA X", "arch": 90}
    return {"machine": machine, "date": "d", "command": "c", "commit": "x", "tiny": False, "parts": parts}


def verdicts(given):
    return [row["verdict"] for row in page.goals(given)]


def test_targets_are_compared_with_figures():
    assert verdicts(result(tag=4e9, many_agents=3e7, jaxmarl=1e8)) == ["met"] * 4
    assert verdicts(result(tag=0.9e9, many_agents=8e6, jaxmarl=1e8)) == ["not met"] * 4
    values = [row["value"] for row in page.goals(result(tag=4e9, many_agents=8e6, jaxmarl=1e8))]
    assert values == pytest.approx([4e9, 4e9 * 500 / 4e12, 8e6, 0.9 * 4e9 / 1e8])
    note = page.goals(result(tag=1, many_agents=8e6, jaxmarl=1))[2]["note"]
    assert "the bandwidth allows 10 M, so it is out of reach" in note


def test_target_without_a_figure_is_not_measured():
    given = result(tag=4e9, many_agents=3e7, jaxmarl=1e8)
    given["parts"]["jaxmarl"] = {"title": "JaxMARL", "status": "not installed: jaxmarl", "seconds": 0.0, "rows": []}
    assert verdicts(given)[3] == "not measured"
    assert page.goals(given)[3]["note"] == "not installed: jaxmarl"
    del given["parts"]["machine"]
    assert verdicts(given) == ["met", "not measured", "met", "not measured"]
    del given["machine"]["arch"]
    assert verdicts(given)[0] == "not judged: no GPU"
    assert set(verdicts({**given, "parts": {}})) == {"not measured"}


def test_page_has_all_results():
    text = page.markdown(result(tag=4e9, many_agents=3e7, jaxmarl=1e8))
    for words in (
        "# GPU report: NVIDIA X",
        "| 3.6 G |",
        "3 passed",
        "| JaxMARL | SimpleTag-v0 | 1,048,576 |",
        "no \\| memory",
    ):
        assert words in text, words
    assert "## SimpleTag-v0, env-steps/s\n\n| worlds | fused, captured |" in text
    assert page.markdown({**result(tag=1, many_agents=1, jaxmarl=1), "parts": {}, "machine": {}})


# ---------------------------------------------------------------- what is measured


def test_settings_have_the_given_number_of_agents():
    for agents in (*Scale().many_agents, *TINY.many_agents):
        settings = many_agent_settings(agents)
        assert settings["num_taggers"] + settings["num_runners"] == agents
    assert many_agent_settings(1000)["num_taggers"] == 50


def test_kernels_of_every_environment_are_compiled_beforehand():
    ways = {(schedule, kind) for _, _, schedule, _, kind in kernels.tested()}
    assert ways == {("fused", "cuda"), ("phased", "cuda"), ("play", "cuda"), ("fused", "cpu")}
    assert {env_id for env_id, *_ in kernels.tested()} == set(list_envs())
    assert ("SimpleTag-v0", {}, "fused", True, "cuda") in kernels.measured(Scale())


@pytest.mark.slow
def test_tiny_report_completes_without_peers(tmp_path):
    """Run all parts on the CPU within a minute of CPU time."""
    before = os.times()
    words = [sys.executable, "-m", "benchmarks.gpu", "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 60
    result = json.loads((tmp_path / "cpu.json").read_text())
    assert list(result["parts"]) == [part.name for part in report.PLAN]
    for name, part in result["parts"].items():
        assert part["status"].startswith(("done", "left out", "not installed")), (name, part["status"])
        assert not [row for row in part["rows"] if "error" in row]
    for name in ("goals", "sweep", "many-agents", "training"):
        assert all(row["value"] > 0 for row in result["parts"][name]["rows"])
    modes = {row["mode"] for row in result["parts"]["goals"]["rows"]}
    assert modes == {"bytes", "in place", "copied", "sampled", "random play", "eager"}
    assert "## Goals" in (tmp_path / "cpu.md").read_text()
    assert "## Goals" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"cpu.json", "cpu.md", "log.txt"}


def test_report_records_its_command_and_date(tmp_path):
    given = argparse.Namespace(out=tmp_path, tiny=True, words=["--tiny"])
    kept = report.GpuReport(tmp_path, given)
    kept.add("machine", {"machine": {"name": "NVIDIA H200"}})
    kept.write()
    result = json.loads((tmp_path / "nvidia-h200.json").read_text())
    assert result["command"] == "python -m benchmarks.gpu --tiny"
    assert len(result["date"].split()) == 3


def test_first_line_names_the_versions():
    """It needs torch and Warp only: gymnasium, pettingzoo and numpy of the other parts may be missing."""
    code = "import sys; sys.modules['gymnasium'] = None; from benchmarks.gpu import driver; driver.print_versions()"
    done = subprocess.run(child(code), cwd=ROOT, capture_output=True, text=True, check=True)
    line = driver.versions_line()
    assert line == done.stdout.strip()
    assert line.startswith("driver ")
    assert f"GPUs of torch {torch.__version__} (CUDA {torch.version.cuda}): {torch.cuda.device_count()}" in line
    assert f"GPUs of Warp {wp.__version__} (CUDA " in line


def test_first_line_has_a_time_limit(monkeypatch):
    assert driver.versions_line(0.01) == "driver: torch and Warp do not start within 0 s"
    monkeypatch.setattr(driver.sys, "executable", "false")
    assert driver.versions_line().endswith("failed (1)")


def test_report_prints_the_versions_before_anything_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(driver, "versions_line", lambda: "driver 1, torch 2, Warp 3")
    monkeypatch.setattr(report, "command", lambda *_: "left out")
    assert report.main(["--tiny", "--device", "cpu", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("driver 1, torch 2, Warp 3\nmachine: ")
    assert json.loads((tmp_path / "unknown.json").read_text())["versions"] == "driver 1, torch 2, Warp 3"
    assert "driver 1, torch 2, Warp 3." in (tmp_path / "unknown.md").read_text()
