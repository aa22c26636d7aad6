"""Tables of a report on a terminal, and two runs compared."""

import math
import sys

import pytest
import torch
from always import table_policy
from reported_runs import KUHN, RPS, run, runs  # noqa: F401

from gpu_envs.errors import ConfigError, MissingExtraError
from league.analysis import report_tables
from league.analysis.compare import compare_runs
from league.analysis.report_data import read_report
from league.analysis.report_tables import format_report
from league.exact.game_tree import GameTree
from league.storage.run_store import RunStore


@pytest.mark.parametrize("run", ["kuhn"], indirect=True)
def test_tables_are_formatted_without_escape_sequences(run):
    with RunStore.open(run, write=False) as store:
        report = read_report(store)
    text = format_report(report)
    for words in ("NashConv", "player_1-4", f"{report.best['nash_conv']:.4f}"):
        assert words in text
    assert "\x1b" not in text


@pytest.mark.parametrize("run", ["kuhn"], indirect=True)
def test_report_without_rich_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with (
        RunStore.open(run, write=False) as store,
        pytest.raises(MissingExtraError, match="report needs rich: pip"),
    ):
        format_report(read_report(store))


def test_numbers_are_short_and_empty_if_missing():
    assert [report_tables.format_number(number) for number in (None, math.nan, -0.0, 0.25, 1e-16)] == [
        "",
        "",
        "0.0000",
        "0.2500",
        "1.0e-16",
    ]
    assert report_tables.format_number(-0.25, 0) == "0"


@pytest.mark.parametrize("run", ["kuhn"], indirect=True)
def test_headers_are_whole_in_a_narrow_terminal(run):
    with RunStore.open(run, write=False) as store:
        text = format_report(read_report(store), 80).partition("\n")[2]  # the first line has the path of the run
    assert max(map(len, text.splitlines())) <= 80
    for word in ("exploitability", "gain by own", "alpha-rank"):
        assert word in text
    for column in ("initialized from", "CE gap"):
        assert column not in text, "a column without values"


def test_two_runs_are_compared_by_all_matchups_between_them(tmp_path):
    """The first run has rock and scissors, the second all three moves and thus always an answer."""
    tree = GameTree(RPS)
    stores = []
    for name, actions in (("first", (0, 2)), ("second", (0, 1, 2))):
        store = RunStore.create(tmp_path / name, RPS, {})
        stores.append(store)
        with store.step("begin"):
            for action in actions:
                table = torch.eye(3, dtype=torch.float64)[[action]]
                store.add_policy("player", table_policy(tree, table, 0), "table")
    comparison = compare_runs(*stores, episodes=20)
    # against (rock, paper, scissors): rock earns (0, -1, 1), scissors (-1, 1, 0); the equilibrium gives -1/3
    assert comparison.performance == pytest.approx(-1 / 3, abs=1e-6)
    assert comparison.half_width == 0
    assert compare_runs(*stores[::-1], episodes=20).performance == pytest.approx(1 / 3, abs=1e-6)
    with RunStore.create(tmp_path / "kuhn", KUHN, {}) as other, pytest.raises(ConfigError, match="same game"):
        compare_runs(stores[0], other)
    for store in stores:
        store.close()


def test_runs_with_a_population_per_seat_are_compared_in_both_seats(runs):
    with RunStore.open(runs["kuhn"], write=False) as first, RunStore.open(runs["sampled"], write=False) as other:
        comparison, back = compare_runs(first, other, episodes=300), compare_runs(other, first, episodes=300)
    assert comparison.performance == pytest.approx(sum(comparison.seats.values()) / 2)
    assert abs(comparison.performance + back.performance) < 2 * (comparison.half_width + back.half_width)
    assert comparison.episodes == 300 * (5 * 4 + 4 * 5)
    assert comparison.half_width > 0
