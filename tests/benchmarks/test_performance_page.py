"""The page of the throughput suite: curves, results that are taken over, targets."""

import json
import re
from dataclasses import asdict

import pytest

from benchmarks import conftest
from benchmarks.hardware import provenance
from benchmarks.pages import performance_page, picture, report
from benchmarks.throughput.target import BENCH, NOISE, Figure, PerformanceTarget


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


HERE = {"cpu": "Some CPU (x)", "cores": 2, "torch": "2.13.0"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Return a function that makes a result group as `make bench` does on a clean commit."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "PAGE", tmp_path / "performance.md")
    targets = [
        PerformanceTarget(id, f"Title of {id}", "CartPole-v1", lambda effort: iter(()), ()) for id in ("old", "both")
    ]
    monkeypatch.setattr(report, "TARGETS", targets)
    monkeypatch.setattr(provenance, "commit", lambda: "abc")
    monkeypatch.setattr(provenance, "machine", lambda: HERE)

    def group(value, **more):
        return report.group("A title", "make bench", BENCH, 0.0, [Figure("speed", "env-steps/s", value)]) | more

    return group


def test_taken_over_results_replace_groups_of_the_same_id(results, tmp_path):
    """Groups of the same id are renewed, others kept if they are still measured, each with its own versions."""
    recorded = results(1.0, machine={**HERE, "torch": "2.12.0"})
    file = tmp_path / "results" / "some-cpu-x-2-cores.json"
    report.write(file, HERE, {"old": recorded, "both": results(2.0), "gone": results(4.0)})
    report.write(tmp_path / "bench.json", HERE, {"both": results(3.0)})
    report.main(["--take", str(tmp_path / "bench.json")])
    groups = json.loads(file.read_text())["groups"]
    assert {id: group["figures"][0]["value"] for id, group in groups.items()} == {"old": 1.0, "both": 3.0}
    page = (tmp_path / "performance.md").read_text()
    assert [line.split(" | ")[1] for line in page.splitlines() if line.endswith("| abc | Some CPU |")] == [
        "A title"
    ] * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"effort": asdict(conftest.QUICK), "command": "make bench-quick"}, "`make bench-quick`, in shorter"),
        ({"commit": "abc and uncommitted changes"}, "commit first, then measure"),
        ({"commit": "unknown"}, "of commit unknown"),
    ],
)
def test_results_of_quick_or_uncommitted_runs_are_not_taken_over(results, tmp_path, capsys, change, why):
    report.write(tmp_path / "bench.json", HERE, {"both": results(3.0), "old": results(3.0, **change)})
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


def test_targets_with_equal_text_share_the_line_of_the_worst():
    """Targets with equal text and verdict share one line, as do unmeasured targets."""

    def goal(name, value, target="<= 5", unit="s"):
        return Figure(name, unit, value, target=target)

    promised = tuple(goal(name, None) for name in ("a", "b", "c", "d", "e", "f"))
    target = PerformanceTarget("x", "Starts", "CartPole-v1", lambda effort: iter(()), promised)
    calm, busy = Figure(NOISE, "% of the machine", 1.0), Figure(NOISE, "% of the machine", 9.0)
    measured = [goal("a", 1.0), goal("b", 4.0), goal("c", 6.0), calm, goal("d", 3.0), busy, goal("x", 2.0, ">= 1", "y")]
    lines = list(performance_page._goals(target, {"figures": [asdict(figure) for figure in measured]}))
    assert lines == [
        "| Starts: b (the worst of 2) | 4 | s | ≤ 5 | met |",
        "| Starts: c | 6 | s | ≤ 5 | **not met** |",
        "| Starts: d | 3 | s | ≤ 5 | not measured: the machine was busy |",
        "| Starts: e (and 1 more) |  | s | ≤ 5 | not measured: not in this result file |",
        "| Starts: x | 2 | y | ≥ 1 | met |",
    ]


def test_page_has_the_targets_of_a_gpu(monkeypatch, tmp_path):
    """With the figures of its report, or without."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    nothing = {"machine": {}, "groups": {}}
    page = performance_page.text(nothing, "x.json", [], report._recorded("parts"))
    assert "| one GPU, `make gpu-report`: SimpleTag at 2^20 worlds |  | env-steps/s | ≥ 1e9 | not measured |" in page
    assert page.count("one GPU, `make gpu-report`: ") == 4
    row = {"env": "SimpleTag-v0", "worlds": 1 << 20, "agents": 4, "mode": "in place", "value": 4e9}
    record = {"machine": {"name": "NVIDIA X", "arch": 90}, "parts": {"goals": {"rows": [row]}}}
    (tmp_path / "nvidia-x.json").write_text(json.dumps(record))
    page = performance_page.text(nothing, "x.json", [], report._recorded("parts"))
    assert "| NVIDIA X: SimpleTag at 2^20 worlds | 4,000,000,000 | env-steps/s | ≥ 1e9 | met · 1,048,576 worlds" in page


def test_commit_is_known_or_marked_unknown(monkeypatch):
    """Without git, the commit is marked unknown."""
    assert re.fullmatch(f"[0-9a-f]{{12}}({provenance.CHANGED})?|{provenance.UNKNOWN}", provenance.commit())
    monkeypatch.setenv("PATH", "/nowhere")
    assert provenance.commit() == provenance.UNKNOWN


def recorded():
    """Return the result file that the page names, and the contents that the page shows."""
    source = re.search(r"`(benchmarks/results/.*?\.json)`", report.PAGE.read_text())[1]
    return source, report.read(report.ROOT / source)


def test_source_of_the_page_has_every_comparison():
    """docs/performance.md is generated from this file and from the comparisons of other machines."""
    groups = recorded()[1]["groups"]
    assert [target.id for target in report.TARGETS if target.id not in groups] == []


@pytest.mark.skipif(recorded()[1]["machine"]["cores"] != provenance.THREADS, reason="contenders are named by cores")
def test_page_is_that_of_the_result_files():
    source, result = recorded()
    page = performance_page.text(result, source, report.TARGETS, report._recorded("parts"))
    assert report.PAGE.read_text() == page, f"python -m benchmarks.pages.report --from {source}"
    assert len(page.splitlines()) <= 300


def test_changed_result_changes_every_table_of_the_page():
    source, result = recorded()
    page = performance_page.text(result, source, report.TARGETS)
    for group in result["groups"].values():
        for figure in group["figures"]:
            figure["value"] = figure["value"] and 1.5 * figure["value"]
            row = figure.get("row") or {}
            row |= {name: 1.5 * row[name] for name in ("rate", "ratio") if name in row and row[name] != 1}
    changed = performance_page.text(result, source, report.TARGETS)
    for heading in ("Summary", "Targets", "Comparison with other libraries", "Interfaces"):
        rows = [text.split(f"\n## {heading}\n")[1].split("\n## ")[0] for text in (page, changed)]
        assert rows[0] != rows[1], heading
