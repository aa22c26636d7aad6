"""The page of a report is self-contained, readable without JavaScript, and escapes names."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from reported_runs import RPS, run, runs  # noqa: F401

from league import report as building
from league.analysis import report_tables
from league.game import Game
from league.policies.random import RandomPolicy
from league.report import build_report
from league.storage.run_store import RunStore


class ReportParser(HTMLParser):
    """Reads a report as a browser without JavaScript does: tables, addresses of loaded files, and the embedded data."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.title, self.tables, self.addresses, self.elements = "", [], [], set()
        self._text, self._script = "", False
        self.answers: dict = {}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        self._text, self._script = "", dict(attrs).get("id") == "recorded"
        if tag == "tr":
            self.tables[-1][1].append([])

    def handle_data(self, data):
        self._text += data

    def handle_endtag(self, tag):
        if tag == "title":
            self.title = self._text
        elif tag == "h2":
            self.tables.append((self._text, []))
        elif tag in ("th", "td"):
            self.tables[-1][1][-1].append(self._text)
        elif tag == "script" and self._script:
            self.answers = json.loads(self._text, parse_constant=pytest.fail)


@pytest.fixture
def no_figures(monkeypatch):
    """Do not draw figures, which take most of the time of a report."""
    monkeypatch.setattr(building, "write_figures", lambda *_: [])


@pytest.mark.variations
@pytest.mark.parametrize("run", ["league", "kuhn", "rps"], indirect=True)
def test_html_report_is_self_contained_and_names_every_policy(run):
    report = build_report(run)
    folder = run / "report"
    page = ReportParser(folder / "report.html")
    assert page.addresses
    assert all(address.startswith("data:") for address in page.addresses)
    text = (folder / "report.html").read_text()
    assert "default-src 'none'; script-src 'unsafe-inline'" in text  # the browser loads nothing else
    assert not re.search(r"url\((?!data:)|@import|[^.]import\(", text)
    assert "prefers-color-scheme:dark" in text
    assert page.title == run.name
    cells = {cell for _, rows in page.tables for row in rows for cell in row}
    for role, entries in report.policies.items():
        assert f"Policies of {role}" in dict(page.tables)
        assert cells >= {entry["name"] for entry in entries}
    assert cells >= {*report.left_out, *report.left_out.values()}
    pictures = {path.name for path in folder.glob("*.png")}
    assert {"payoffs.png", "exploitability.png", "meta_strategy.png"} <= pictures
    assert sorted(report.files) == sorted(map(str, folder.iterdir()))
    read = json.loads((folder / "report.json").read_text(), parse_constant=pytest.fail)  # NaN is not valid JSON
    assert read["measures"] == report.measures


@pytest.mark.parametrize("run", ["league", "sampled"], indirect=True)
def test_html_report_has_all_tables_without_javascript(run, no_figures):
    report = build_report(run)
    page = ReportParser(run / "report" / "report.html")
    expected = report_tables.page_tables(report)
    assert page.tables == [(title, [head, *rows] if any(head) else rows) for title, head, rows in expected]
    titles = [title for title, _ in page.tables]
    assert titles[:2] == ["Summary", "Iterations"]
    assert titles[1 : len(report_tables.tables(report))] == [title for title, *_ in report_tables.tables(report)[1:]]
    assert ("Left out" in titles) == bool(report.left_out)
    assert ("Training episodes by pair" in titles) == bool(report.matches["by_pair"])


def test_page_lists_the_pairs_with_most_episodes(runs, no_figures, tmp_path, monkeypatch):
    report = build_report(runs["league"], tmp_path)
    pairs = sorted(report.matches["by_pair"], key=lambda pair: -pair[2])
    assert len(pairs) > 1
    title, head, rows = report_tables.page_tables(report)[-1]
    assert (title, head) == ("Training episodes by pair", ["learner", "opponent", "episodes"])
    assert rows == [[learner, opponent, f"{count:,}"] for learner, opponent, count in pairs]
    monkeypatch.setattr(report_tables, "MAX_PAIRS", 1)
    title, _, few = report_tables.page_tables(report)[-1]
    assert few == rows[:1]
    assert title.endswith(f"the 1 of {len(pairs)} pairs with most episodes, see report.json")


def test_html_report_has_the_data_of_all_figures(runs, no_figures, tmp_path):
    with RunStore.open(runs["sampled"], write=False) as store:
        store.config["train_overrides"] = {"num_envs": 32, "learner.rollout_length": 4, "learner.hidden_sizes": [8]}
        report = build_report(store, tmp_path, exploit_steps=100)
    answers = ReportParser(tmp_path / "report.html").answers
    league, curves = answers["api/league"], answers["api/metrics"]
    assert {item["version"] for item in answers.values()} == {1}
    assert league["payoff"]["mean"] == np.array(report.payoffs["mean"]).reshape(2, -1).tolist()
    assert league["payoff"]["half"] == np.array(report.payoffs["half_width"]).reshape(2, -1).tolist()
    for name in ("nash_conv", "best_nash_conv", "population_gain"):
        at = curves["columns"].index(name)
        assert [row[at] for row in curves["rows"]] == [row[name] for row in report.iterations]
    learned = {"iteration": report.strategy["iteration"], **{n: report.exploit[n] for n in ("nash_conv", "half_width")}}
    assert league["learned_responses"] == learned
    entries = [entry for item in report.policies.values() for entry in item]
    assert [(item["iteration"], item["elo"]) for item in league["ratings"]] == [
        (e["iteration"], e["elo"]) for e in entries
    ]
    assert [item["weight"] for item in league["lineage"]] == [entry["weight"] for entry in entries]
    for seat, role in enumerate(("player_0", "player_1")):
        assert [item[role] for item in league["strategies"]] == [row["strategy"][seat] for row in report.iterations]


@pytest.mark.parametrize("run", ["league"], indirect=True)
def test_html_report_has_no_rollouts_and_executes_no_environment(run, no_figures, monkeypatch):
    with RunStore.open(run, write=False) as store:
        report = building.read_report(store)
    shutil.rmtree(run / "policies")  # the viewer could not record rollouts
    monkeypatch.setattr(building, "read_report", lambda *_: report)
    monkeypatch.setattr(Game, "core", lambda *_, **__: pytest.fail("the environment was made"))
    page = ReportParser(Path(build_report(run).files[0]))
    assert set(page.answers) == {"api/run", "api/metrics", "api/league"}
    assert page.answers["api/run"]["policies"] == {"player": [entry["name"] for entry in report.policies["player"]]}


@pytest.mark.parametrize("run", ["league"], indirect=True)
def test_html_report_escapes_names(run, no_figures):
    name = "</script></section><img src=x onerror='alert(1)'>&amp;\""
    with RunStore.open(run) as store:
        with store.step("3/more"):
            store.add_policy("player", RandomPolicy.of(RPS, "player"), "random", name, iteration=3)
            store.put_iteration(3, {})
        build_report(store, run / "<b>")
    page = ReportParser(run / "<b>" / "report.html")
    assert name in [row[0] for row in dict(page.tables)["Policies of player"]]
    assert page.answers["api/run"]["policies"]["player"][-1] == name
    assert "img" not in page.elements
