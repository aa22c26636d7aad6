"""Targets and tables of the GPU report, out of a result."""

import pytest

from benchmarks.gpu import page, profiles


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


def test_goals_are_judged_by_the_rows_of_their_sizes():
    rows = [
        {"env": "SimpleTag-v0", "agents": 4, "mode": "bytes", "value": 500.0},
        {"env": "SimpleTag-v0", "agents": 4, "worlds": 1 << 20, "mode": "in place", "value": 4e9},
        {"env": "SimpleTag-v0", "agents": 4, "worlds": 4096, "mode": "in place", "value": 3e8},
        {"env": "SimpleTag-v0", "agents": 4, "worlds": 4096, "mode": "copied", "value": 2e8},
    ]
    trained = [{"env": "SimpleTag-v0", "agents": 4, "worlds": 64, "mode": "training", "value": 1e6}]
    rows.append({"env": "SimpleTag-v0", "agents": 4, "worlds": 65536, "mode": "copied", "value": 9e8})
    peer = [{"peer": "JaxMARL", "env": "SimpleTag-v0", "worlds": 4096, "value": 1e7}]
    peer.append({"peer": "JaxMARL", "env": "SimpleTag-v0", "worlds": 65536, "value": 1e8})
    machine = [{"unit": "B/s", "value": 4e12}]
    parts = {"goals": rows, "training": trained, "jaxmarl": peer, "machine": machine}
    result = {"machine": {"name": "A GPU", "arch": 90}, "parts": {}}
    result["parts"] = {name: {"rows": part, "status": "done"} for name, part in parts.items()}
    judged = {goal["goal"]: (goal["value"], goal["verdict"]) for goal in page.goals(result)}
    assert judged["SimpleTag at 2^20 worlds"] == (0.5, "met")
    assert judged["SimpleTag at 4,096 worlds"] == (3e8, "met")
    assert judged["PPO on SimpleTag, with its updates"] == (1e6, "not met")
    assert judged["Tag of 5 taggers and 100 runners, 2,000 worlds"] == (None, "not measured")
    assert judged["SimpleTag over JaxMARL in the same run, 4,096 and 65,536 worlds"] == (9.0, "not met")
    del peer[1]
    assert page.goals(result)[-1]["verdict"] == "not measured"
    assert {goal["verdict"] for goal in page.goals({"machine": {}, "parts": {}})} == {"not measured"}
    result["machine"] = {"name": "a CPU"}
    assert page.goals(result)[0]["verdict"] == "not judged: no GPU"
    result["parts"]["jaxmarl"] = {"rows": [], "status": "not installed: jaxmarl"}
    assert page.goals(result)[-1]["note"] == "not installed: jaxmarl"


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


OUTPUT = """\
==PROF== Connected to process 7
==PROF== Profiling "fused_39742c02_cuda_kernel_f..." - 0: 0%....50%....100% - 1 pass
CASE [{"env": "SimpleTag-v0", "schedule": "fused", "worlds": 8, "agents": 4}, 1]
CASE [{"env": "TagContinuous-v0", "schedule": "phased", "worlds": 2, "agents": 105}, 2]
==PROF== Disconnected from process 7
"ID","Kernel Name","Block Size","gpu__time_duration.sum","launch__registers_per_thread"
"","","","ns","register/thread"
"0","fused_39742c02_cuda_kernel_forward","(64, 1, 1)","1,234.0","85"
"1","step_0_agent_0a1b2c3d_cuda_kernel_forward(Launch)","(32, 1, 1)","10","24"
"2","step_1_world_0a1b2c3e_cuda_kernel_forward","(32, 1, 1)","20","16"
"""


def test_profiled_kernels_belong_to_their_cases():
    first, *others = profiles.rows(OUTPUT)
    assert first == {
        "env": "SimpleTag-v0",
        "schedule": "fused",
        "worlds": 8,
        "agents": 4,
        "what": "fused, 8 worlds: fused",
        "unit": "s",
        "value": pytest.approx(1.234e-6),
        "note": "85 registers, blocks of (64, 1, 1)",
    }
    words = [f"phased, 2 worlds: step_{name}" for name in ("0_agent", "1_world")]
    assert [(row["env"], row["what"]) for row in others] == [("TagContinuous-v0", word) for word in words]
    measured = result(tag=4e9, many_agents=3e7, jaxmarl=1e8)
    measured["parts"]["profiles"] = {"title": "Profiles", "status": "done", "seconds": 1.0, "rows": [first]}
    assert "| SimpleTag-v0 | fused, 8 worlds: fused | 1.23 | 85 registers, blocks of (64, 1, 1) |" in page.markdown(
        measured
    )


def test_profile_without_its_kernels_is_refused_with_the_reason():
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
    with pytest.raises(ValueError, match=r"expected 3 kernels, got 0 .*ERR_NVGPUCTRPERM"):
        list(profiles.rows(OUTPUT[: OUTPUT.index("==PROF== Dis")] + denied))
    with pytest.raises(ValueError, match=r"expected 0 kernels, got 0 .*ERR_NVGPUCTRPERM"):
        list(profiles.rows(denied))
