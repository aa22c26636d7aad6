"""Targets and tables of the GPU report, out of a result."""

import pytest

from benchmarks.gpu import page


def result(**rates):
    """Return the result of a GPU that copies 4 TB/s, with these throughputs."""

    def row(env, worlds, agents, mode, value, **more):
        about = {
            "env": env,
            "worlds": worlds,
            "agents": agents,
            "mode": mode,
            "schedule": "fused",
            "block_dims": {"step": [256, 32, 256]},
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


def verdicts(report):
    return [row["verdict"] for row in page.goals(report)]


def test_targets_are_compared_with_figures():
    assert verdicts(result(tag=4e9, many_agents=3e7, jaxmarl=1e8)) == ["met"] * 4
    assert verdicts(result(tag=0.9e9, many_agents=8e6, jaxmarl=1e8)) == ["not met"] * 4
    values = [row["value"] for row in page.goals(result(tag=4e9, many_agents=8e6, jaxmarl=1e8))]
    assert values == pytest.approx([4e9, 4e9 * 500 / 4e12, 8e6, 0.9 * 4e9 / 1e8])
    note = page.goals(result(tag=1, many_agents=8e6, jaxmarl=1))[2]["note"]
    assert "the bandwidth allows 10 M, so it is out of reach" in note


def test_target_without_a_figure_is_not_measured():
    report = result(tag=4e9, many_agents=3e7, jaxmarl=1e8)
    report["parts"]["jaxmarl"] = {"title": "JaxMARL", "status": "not installed: jaxmarl", "seconds": 0.0, "rows": []}
    assert verdicts(report)[3] == "not measured"
    assert page.goals(report)[3]["note"] == "not installed: jaxmarl"
    del report["parts"]["machine"]
    assert verdicts(report) == ["met", "not measured", "met", "not measured"]
    del report["machine"]["arch"]
    assert verdicts(report)[0] == "not judged: no GPU"
    assert set(verdicts({**report, "parts": {}})) == {"not measured"}


def test_page_has_all_results():
    text = page.markdown(result(tag=4e9, many_agents=3e7, jaxmarl=1e8))
    for words in (
        "# GPU report: NVIDIA X",
        "| 3.6 G |",
        "| SimpleTag-v0 | 4 | 1,048,576 | fused | 256/32 | copied |",
        "3 passed",
        "| JaxMARL SimpleTag-v0 | 4 | 1,048,576 |",
        "| 36 |  |",
        "| SimpleTag-v0 |  | 4 | 500 | B/env-step |",
        "no \\| memory",
    ):
        assert words in text, words
    assert "| SimpleTag-v0 | 4 | 1 | fused | 256/32 | eager | 10 k | 40 k |" in text
    assert page.markdown({**result(tag=1, many_agents=1, jaxmarl=1), "parts": {}, "machine": {}})
