"""Results of several machines on one page."""

from dataclasses import asdict

import pytest

from benchmarks.pages import performance_page, report, sources, summary
from benchmarks.throughput.comparisons import ComparisonGroup, Round
from benchmarks.throughput.contenders import Contender
from benchmarks.throughput.target import BENCH

INTEL, AMD = {"cpu": "Intel (a)", "cores": 2}, {"cpu": "AMD (b)", "cores": 4}


@pytest.fixture(autouse=True)
def comparison(monkeypatch):
    """Replace the comparisons by one with three contenders."""
    contenders = tuple(
        Contender(name, "gpu_envs" if name == "core.step" else "peer", None)  # type: ignore[arg-type]
        for name in ("core.step", "old", "new")
    )
    monkeypatch.setattr(sources, "COMPARISONS", (ComparisonGroup("tag", "Tag", "X-v0", (Round("8", contenders),)),))


def group(machine, *names, absent=(), rates=None, load=0.0, commit="abc"):
    """Return a group with a row for each contender."""
    rows = [
        {
            "round": "8",
            "name": name,
            "kind": "gpu_envs" if name == "core.step" else "peer",
            "unit": "env-steps/s",
            "rate": (rates or {}).get(name, 1.0),
            "others": load,
            **dict.fromkeys(("ratio", "ratio_low", "ratio_high"), 8 / rates[name] if rates else 1.0),
        }
        for name in names
    ]
    rows += [{"round": "8", "name": name, "kind": "absent"} for name in absent]
    title = "Tag compared with other libraries"
    return {"title": title, "machine": machine, "commit": commit, "figures": [{"row": row} for row in (*rows, None)]}


def test_comparison_comes_from_the_run_with_the_most_contenders():
    old = {"machine": INTEL, "groups": {"tag": group(INTEL, "core.step", "old"), "memory": "kept"}}
    absent = {"machine": AMD, "groups": {"tag": group(AMD, "core.step", "old", absent=["new"]), "memory": "not taken"}}
    complete = {"machine": AMD, "groups": {"tag": group(AMD, "core.step", "old", "new")}}
    assert sources.combined(old, [absent]) == old
    assert sources.combined(old, [absent, complete])["groups"] == {"tag": complete["groups"]["tag"], "memory": "kept"}
    assert sources.combined(complete, [old, absent])["groups"]["tag"]["machine"] == AMD
    nothing = {"machine": INTEL, "groups": {}}
    assert sources.combined(nothing, [absent])["groups"] == {"tag": absent["groups"]["tag"]}
    assert nothing["groups"] == {}


def test_group_without_contenders_comes_from_the_run_with_the_most_figures():
    def measured(*whats):
        return {"figures": [{"what": name, "row": None} for name in whats]}

    old = {"machine": INTEL, "groups": {"runs": measured("a", "gone", "gone too")}}
    new = {"machine": AMD, "groups": {"runs": measured("a", "b"), "memory": measured("c"), "other": measured("d")}}
    promised = {"runs": ["a", "b"], "memory": ["c"], "nowhere": ["e"]}
    groups = sources.combined(old, [new], promised)["groups"]
    assert groups == {"runs": new["groups"]["runs"], "memory": new["groups"]["memory"]}
    assert sources.combined(new, [old], {"runs": ["a"]})["groups"]["runs"] == new["groups"]["runs"]
    assert sources.combined(old, [new], {"runs": ["a"]})["groups"]["runs"] == old["groups"]["runs"]


def test_newest_of_equal_groups_counts():
    """A short run of one group on another machine does not bring that machine's older groups back."""

    def measured(date):
        return {"date": date, "figures": [{"what": "a", "row": None}]}

    older, newer = ({"machine": AMD, "groups": {"runs": measured(f"2026-11-{day} 09:30 UTC")}} for day in ("09", "20"))
    for main, other in ((older, newer), (newer, older)):
        assert sources.combined(main, [other], {"runs": ["a"]})["groups"] == newer["groups"]
    first, second = (group(machine, "core.step") | {"date": "2026-11-09"} for machine in (AMD, INTEL))
    last = group(INTEL, "core.step") | {"date": "2026-11-20"}
    result = sources.combined(
        {"groups": {"tag": first}}, [{"groups": {"tag": candidate}} for candidate in (last, second)]
    )
    assert result["groups"]["tag"] is last


def test_group_without_a_round_is_not_taken_over(monkeypatch, tmp_path):
    """A selection of rounds would replace the others."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    complete, part = group(INTEL, "core.step", absent=["old", "new"]), group(INTEL)
    assert sources.unplayed("tag", complete) == []
    part |= {"effort": asdict(BENCH)}
    report.write(tmp_path / "bench.json", INTEL, {"tag": part})
    with pytest.raises(ValueError, match="tag lacks 8; take `make bench"):
        report.take(tmp_path / "bench.json")


def test_contenders_without_figures_are_listed():
    """Whether they were not installed or not yet compared."""
    assert sources.lacking("tag", group(INTEL, "core.step", "old")) == [("8", "new")]
    assert sources.lacking("tag", group(INTEL, "core.step", "old", absent=["new", "gone"])) == [
        ("8", "new"),
        ("8", "gone"),
    ]
    assert sources.unmeasured({"tag": group(INTEL, "core.step", "old")}) == "Not measured: new (Tag)."
    assert sources.unmeasured({"tag": group(INTEL, "core.step", "old", "new")}) == ""


def test_row_of_another_machine_names_it():
    measured = group(AMD, "core.step", "old")
    (row,) = performance_page._comparisons(measured, INTEL)
    assert row.startswith("| Tag compared with other libraries (AMD): 8 |")
    (row,) = performance_page._comparisons(measured, AMD)
    assert row.startswith("| Tag compared with other libraries: 8 |")


def test_summary_has_the_fastest_library_of_all_runs(monkeypatch, tmp_path):
    """The new library is the fastest one, so that the run without it is not shown."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "SHOWN", (("tag", "8", "Tag, 8 worlds"), ("tag", "9", "not measured")))
    rates = {"core.step": 8.0, "old": 2.0, "new": 4.0}
    report.write(tmp_path / "intel.json", INTEL, {"tag": group(INTEL, "core.step", "old", rates=rates)})
    first, _, line, *_, below = summary.table(report.read(tmp_path / "intel.json"))
    assert first == "| | ratio | gpu-envs | fastest other library |"
    assert line == "| Tag, 8 worlds | 4 x | 8 env-steps/s | old: 2 env-steps/s |"
    assert below == "Intel, 2 cores, commit abc. Not measured: new (Tag)."
    complete = group(AMD, "core.step", "old", "new", rates=rates, load=0.2, commit="def")
    report.write(tmp_path / "amd.json", AMD, {"tag": complete})
    _, _, line, *_, below = summary.table(report.read(tmp_path / "intel.json"))
    assert line == "| Tag, 8 worlds (AMD, the machine was busy) | 2 x | 8 env-steps/s | new: 4 env-steps/s |"
    assert below == "AMD, 4 cores, commit def."


def test_other_pages_quote_the_result_of_the_performance_page(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text("# Performance\n")
    with pytest.raises(ValueError, match="expected a comment"):
        report.published_result(page)
    source = "benchmarks/results/intel-r-xeon-r-processor-family-6-model-207-2-cores.json"
    page.write_text(f"# Performance\n\n<!-- Generated from `{source}` by a command. -->\n")
    assert report.published_result(page)["machine"]["cpu"].startswith("Intel")


def test_ranges_have_the_lowest_and_the_highest_ratio_of_each_library(monkeypatch):
    monkeypatch.setattr(summary, "LIBRARIES", {"old": "Old", "new": "New"})
    slow = group(AMD, "core.step", "old", "new", rates={"core.step": 8.0, "old": 16.0, "new": 32.0})
    fast = group(AMD, "core.step", "old", rates={"core.step": 8.0, "old": 2.0})
    result = {"machine": AMD, "groups": {"tag": slow, "peers-rolled": fast}}
    assert summary.ranges(result)[2:] == [
        "| Old | simulation | 0.5 x: Tag, 8 | 0.5 x: Tag, 8 |",
        "| Old | whole rollouts in one call | 4 x: Tag, 8 | 4 x: Tag, 8 |",
        "| New | simulation | 0.25 x: Tag, 8 | 0.25 x: Tag, 8 |",
    ]
