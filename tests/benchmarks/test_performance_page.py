"""The page of the throughput suite: results of several machines, results that are taken over, targets and curves."""

import json
import re
from dataclasses import asdict

import pytest

from benchmarks import conftest
from benchmarks.hardware import provenance
from benchmarks.hardware.page_files import filled
from benchmarks.pages import performance_page, picture, report, results
from benchmarks.throughput.comparisons import ComparisonGroup, Round
from benchmarks.throughput.contenders import Contender
from benchmarks.throughput.target import BENCH, NOISE, Figure, PerformanceTarget

INTEL, AMD = {"cpu": "Intel (a)", "cores": 2}, {"cpu": "AMD (b)", "cores": 4}


def group(machine, *names, absent=(), rates=None, load=0.0, commit="abc", date=""):
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
    about = {"title": "Tag compared with other libraries", "machine": machine, "commit": commit, "date": date}
    return about | {"figures": [{"row": row} for row in (*rows, None)]}


# ---------------------------------------------------------------- curves


def recorded_lines(monkeypatch) -> list[tuple]:
    """Return a list that gets places, values, style and settings of every line that is drawn."""
    from matplotlib.axes import Axes

    drawn, plot = [], Axes.plot
    monkeypatch.setattr(
        Axes, "plot", lambda self, *args, **more: (drawn.append((*args, more)), plot(self, *args, **more))[1]
    )
    return drawn


def test_every_curve_is_drawn(monkeypatch, tmp_path):
    """More of them than colors."""
    drawn = recorded_lines(monkeypatch)
    curves = [f"curve {i}" for i in range(11)]
    figures = [Figure("x", "steps/s", 1.0 + at, curve=curve, at=at) for curve in curves for at in (1, 2)]
    picture.draw(figures, "many", tmp_path / "many.png", "worlds")
    assert [more["label"] for *_, more in drawn] == curves
    assert len({(line, more["color"]) for *_, line, more in drawn}) == 11


@pytest.mark.parametrize(("along", "levels"), [("worlds", [([1, 64], [3.0, 3.0])]), ("agents", [])])
def test_library_with_one_world_has_a_level_line(monkeypatch, tmp_path, along, levels):
    drawn = recorded_lines(monkeypatch)
    figures = [Figure("x", "steps/s", at, curve="core.step", at=at) for at in (1.0, 64.0)]
    figures += [Figure("x", "steps/s", value, curve="original", at=1.0) for value in (2.0, 4.0)]
    figures += [Figure("x", "steps/s", 9.0, curve="batched only", at=64.0)]
    picture.draw(figures, "few", tmp_path / "few.png", along)
    assert [(at, values) for at, values, line, _ in drawn if line == "--"] == levels


# ---------------------------------------------------------------- results that are taken over

HERE = {"cpu": "Some CPU (x)", "cores": 2, "torch": "2.13.0"}


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return a function that makes a result group as `make bench` does on a clean commit."""
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(results, "PAGE", tmp_path / "performance.md")
    results.PAGE.write_text("<!-- results: runs -->\n<!-- end -->\n")
    targets = [PerformanceTarget(id, f"Title of {id}", lambda effort: iter(())) for id in ("old", "both")]
    monkeypatch.setattr(report, "TARGETS", targets)
    monkeypatch.setattr(provenance, "commit", lambda: "abc")
    monkeypatch.setattr(provenance, "machine", lambda: HERE)

    def make(value, **more):
        return results.group("A title", "make bench", BENCH, 0.0, [Figure("speed", "env-steps/s", value)]) | more

    return make


def test_taken_over_results_replace_groups_of_the_same_id(measured, tmp_path):
    """Groups of the same id are renewed, others kept if they are still measured, each with its own versions."""
    earlier = measured(1.0, machine={**HERE, "torch": "2.12.0"})
    file = tmp_path / "results" / "some-cpu-x-2-cores.json"
    results.write(file, HERE, {"old": earlier, "both": measured(2.0), "gone": measured(4.0)})
    results.write(tmp_path / "bench.json", HERE, {"both": measured(3.0)})
    report.main(["--take", str(tmp_path / "bench.json")])
    groups = json.loads(file.read_text())["groups"]
    assert {id: group["figures"][0]["value"] for id, group in groups.items()} == {"old": 1.0, "both": 3.0}
    rows = [line for line in results.PAGE.read_text().splitlines() if line.endswith("| abc | Some CPU |")]
    assert [row.split(" | ")[1] for row in rows] == ["A title"] * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"effort": asdict(conftest.QUICK), "command": "make bench-quick"}, "`make bench-quick`, in shorter"),
        ({"commit": "abc and uncommitted changes"}, "commit first, then measure"),
        ({"commit": "unknown"}, "of commit unknown"),
    ],
)
def test_results_of_quick_or_uncommitted_runs_are_not_taken_over(measured, tmp_path, capsys, change, why):
    results.write(tmp_path / "bench.json", HERE, {"both": measured(3.0), "old": measured(3.0, **change)})
    with pytest.raises(SystemExit):
        report.main(["--take", str(tmp_path / "bench.json")])
    assert why in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_quick_run_writes_to_its_own_folder():
    """Quick results must not replace the results of a complete run."""
    quick, complete = conftest.Suite(True), conftest.Suite(False)
    assert (quick.out, quick.command) == (report.ROOT / "out" / "bench-quick", "make bench-quick")
    assert (complete.out, complete.command) == (report.ROOT / "out" / "bench", "make bench")
    assert complete.effort == BENCH != quick.effort


def test_commit_is_known_or_marked_unknown(monkeypatch):
    """Without git, the commit is marked unknown."""
    assert re.fullmatch(f"[0-9a-f]{{12}}({provenance.CHANGED})?|{provenance.UNKNOWN}", provenance.commit())
    monkeypatch.setenv("PATH", "/nowhere")
    assert provenance.commit() == provenance.UNKNOWN


# ---------------------------------------------------------------- results of several machines


@pytest.fixture
def comparison(monkeypatch):
    """Replace the comparisons by one with three contenders."""
    contenders = tuple(Contender(name, "peer", None) for name in ("core.step", "old", "new"))  # type: ignore[arg-type]
    monkeypatch.setattr(results, "COMPARISONS", (ComparisonGroup("tag", "Tag", (Round("8", contenders),)),))


def combined(*groups, id="tag"):
    """Return the group of which a page with the first one shows."""
    first, *others = ({"machine": entry.get("machine"), "groups": {id: entry}} for entry in groups)
    return results.combined(first, others)["groups"][id]


@pytest.mark.usefixtures("comparison")
def test_comparison_comes_from_the_run_with_the_most_contenders():
    old, absent = group(INTEL, "core.step", "old"), group(AMD, "core.step", "old", absent=["new"])
    complete = group(AMD, "core.step", "old", "new")
    assert combined(old, absent) is old
    assert combined(old, absent, complete) is complete
    assert combined(complete, old, absent) is complete
    nothing = {"machine": INTEL, "groups": {}}
    assert results.combined(nothing, [{"groups": {"tag": absent}}])["groups"] == {"tag": absent}


def test_group_without_contenders_comes_from_the_run_with_the_most_targets():
    def measured(*targets, date=""):
        return {"date": date, "figures": [{"what": "a", "target": target, "row": None} for target in targets]}

    few, more = measured("<= 1", "", ""), measured("<= 1", "<= 2")
    assert combined(few, more, id="runs") is more
    assert combined(more, few, id="runs") is more
    older, newer = (measured("<= 1", date=f"2026-11-{day} 09:30 UTC") for day in ("09", "20"))
    assert combined(older, newer, id="runs") is combined(newer, older, id="runs") is newer


@pytest.mark.usefixtures("comparison")
def test_newest_of_equal_comparisons_counts():
    first, second = (group(machine, "core.step", date="2026-11-09") for machine in (AMD, INTEL))
    last = group(INTEL, "core.step", date="2026-11-20")
    assert combined(first, last, second) is last


@pytest.mark.usefixtures("comparison")
def test_group_without_a_round_is_not_taken_over(tmp_path):
    """A selection of rounds would replace the others."""
    assert results.unplayed("tag", group(INTEL, "core.step", absent=["old", "new"])) == []
    results.write(tmp_path / "bench.json", INTEL, {"tag": group(INTEL) | {"effort": asdict(BENCH)}})
    with pytest.raises(ValueError, match="tag lacks 8; take `make bench"):
        report.take(tmp_path / "bench.json")


@pytest.mark.usefixtures("comparison")
def test_contenders_without_figures_are_listed():
    """Whether they were not installed or not yet compared."""
    part = group(INTEL, "core.step", "old", absent=["new", "gone"])
    assert results.lacking("tag", part) == [("8", "new"), ("8", "gone")]
    assert performance_page.unmeasured({"tag": group(INTEL, "core.step", "old")}) == "Not measured: new (Tag)."
    assert performance_page.unmeasured({"tag": group(INTEL, "core.step", "old", "new")}) == ""


def test_row_of_another_machine_names_it():
    for machine, title in ((INTEL, "Tag compared with other libraries (AMD): 8"), (AMD, "Tag compared with")):
        ((name, *_),) = performance_page._comparisons(group(AMD, "core.step", "old"), machine)
        assert name.startswith(title)


@pytest.mark.usefixtures("comparison")
def test_summary_has_the_fastest_library_of_all_runs(monkeypatch, tmp_path):
    """The new library is the fastest one, so that the run without it is not shown."""
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(performance_page, "SHOWN", (("tag", "8", "Tag, 8 worlds"), ("tag", "9", "not measured")))
    rates = {"core.step": 8.0, "old": 2.0, "new": 4.0}
    results.write(tmp_path / "intel.json", INTEL, {"tag": group(INTEL, "core.step", "old", rates=rates)})
    summary = performance_page._summary(results.read(tmp_path / "intel.json"))
    assert "| Tag, 8 worlds | 4 x | 8 env-steps/s | old: 2 env-steps/s |" in summary
    assert summary.endswith("\n\nIntel, 2 cores, commit abc. Not measured: new (Tag).")
    complete = group(AMD, "core.step", "old", "new", rates=rates, load=0.2, commit="def")
    results.write(tmp_path / "amd.json", AMD, {"tag": complete})
    summary = performance_page._summary(results.read(tmp_path / "intel.json"))
    assert "| Tag, 8 worlds (AMD, the machine was busy) | 2 x | 8 env-steps/s | new: 4 env-steps/s |" in summary
    assert summary.endswith("\n\nAMD, 4 cores, commit def.")


def test_other_pages_quote_the_result_of_the_performance_page(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text("# Performance\n")
    with pytest.raises(ValueError, match="expected a comment"):
        results.published_result(page)
    source = "benchmarks/results/intel-r-xeon-r-processor-family-6-model-207-2-cores.json"
    page.write_text(f"# Performance\n\n<!-- Generated from `{source}` by a command. -->\n")
    assert results.published_result(page)["machine"]["cpu"].startswith("Intel")


def test_ranges_have_the_lowest_and_the_highest_ratio_of_each_library(monkeypatch):
    monkeypatch.setattr(performance_page, "LIBRARIES", {"old": "Old", "new": "New"})
    slow = group(AMD, "core.step", "old", "new", rates={"core.step": 8.0, "old": 16.0, "new": 32.0})
    fast = group(AMD, "core.step", "old", rates={"core.step": 8.0, "old": 2.0})
    result = {"machine": AMD, "groups": {"tag": slow, "peers-rolled": fast}}
    assert performance_page.ranges(result).splitlines()[2:] == [
        "| Old | simulation | 0.5 x: Tag, 8 | 0.5 x: Tag, 8 |",
        "| Old | whole rollouts in one call | 4 x: Tag, 8 | 4 x: Tag, 8 |",
        "| New | simulation | 0.25 x: Tag, 8 | 0.25 x: Tag, 8 |",
    ]


# ---------------------------------------------------------------- the page


def test_targets_with_equal_text_share_the_line_of_the_worst():
    """Targets with equal text and verdict share one line, as do unmeasured targets."""

    def goal(name, value, target="<= 5", unit="s"):
        return Figure(name, unit, value, target=target)

    promised = tuple(goal(name, None) for name in ("a", "b", "c", "d", "e", "f"))
    target = PerformanceTarget("x", "Starts", lambda effort: iter(()), promised)
    calm, busy = Figure(NOISE, "% of the machine", 1.0), Figure(NOISE, "% of the machine", 9.0)
    measured = [goal("a", 1.0), goal("b", 4.0), goal("c", 6.0), calm, goal("d", 3.0), busy, goal("x", 2.0, ">= 1", "y")]
    assert list(performance_page._goals(target, {"figures": [asdict(figure) for figure in measured]})) == [
        ("Starts: b (the worst of 2)", "4", "s", "≤ 5", "met"),
        ("Starts: c", "6", "s", "≤ 5", "**not met**"),
        ("Starts: d", "3", "s", "≤ 5", "not measured: the machine was busy"),
        ("Starts: e (and 1 more)", "", "s", "≤ 5", "not measured: not in this result file"),
        ("Starts: x", "2", "y", "≥ 1", "met"),
    ]


def test_page_has_the_targets_of_a_gpu():
    """With the figures of its report, or without."""
    nothing = {"machine": INTEL, "groups": {}}
    targets = performance_page.parts(nothing, "x.json", [])["targets"]
    assert "`make gpu-report`: SimpleTag at 4,096 worlds |  | env-steps/s | ≥ 2.5e8 | not measured |" in targets
    assert targets.count("one GPU, `make gpu-report`: ") == 6
    row = {"env": "SimpleTag-v0", "worlds": 4096, "agents": 4, "mode": "in place", "value": 3e8}
    record = {"machine": {"name": "NVIDIA X", "arch": 90}, "parts": {"goals": {"rows": [row]}}}
    targets = performance_page.parts(nothing, "x.json", [], [record])["targets"]
    assert "| NVIDIA X: SimpleTag at 4,096 worlds | 300,000,000 | env-steps/s | ≥ 2.5e8 | met" in targets


def recorded():
    """Return the result file that the page names, and the contents that the page shows."""
    source = re.search(r"`(benchmarks/results/.*?\.json)`", results.PAGE.read_text())[1]
    return source, results.read(report.ROOT / source)


@pytest.mark.skipif(recorded()[1]["machine"]["cores"] != provenance.THREADS, reason="contenders are named by cores")
def test_page_is_that_of_the_result_files():
    source, result = recorded()
    assert [target.id for target in report.TARGETS if target.id not in result["groups"]] == []
    parts = performance_page.parts(result, source, report.TARGETS, results.recorded("parts"))
    page = results.PAGE.read_text()
    assert page == filled(results.PAGE, parts), f"python -m benchmarks.pages.report --from {source}"
    assert set(re.findall(r"<!-- results: (\w+) -->", page)) == set(parts)
    assert len(page.splitlines()) <= 300
