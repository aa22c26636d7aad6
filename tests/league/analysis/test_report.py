"""Tests of reports: measures equal their functions, inapplicable ones are left out, and the page is self-contained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from reported_runs import KUHN, RPS, league, psro, run, runs  # noqa: F401

from league import solvers
from league.analysis import population_metrics, ratings
from league.analysis.report_data import read_report
from league.analysis.report_tables import format_report
from league.analysis.run_tables import RunTables
from league.evaluation.nash_conv import UNKNOWN
from league.exact.game_tree import GameTree
from league.game import Game
from league.policies.random import RandomPolicy
from league.report import build_report
from league.storage.run_config import table_of
from league.storage.run_store import RunStore


def read(run, **settings):
    """Report on a run without its page and figures."""
    with RunStore.open(run, write=False) as store:
        return read_report(store, **settings)


def column(report, role: str, name: str) -> list[float]:
    return [entry[name] for entry in report.policies[role]]


@pytest.mark.parametrize("run", ["rps", "league"], indirect=True)
def test_report_of_one_population_equals_the_metric_functions(run):
    report = read(run)
    with RunStore.open(run, write=False) as store:
        table = table_of(store)
        names = [entry.name for entry in store.populations["player"].entries]
    game = table.meta_game()
    assert report.rated == {"player": len(names)}
    assert column(report, "player", "name") == names
    assert report.payoffs["mean"] == game.tolist()
    assert report.payoffs["half_width"] == table.half_width.tolist()
    assert report.payoffs["count"] == table.count.tolist()
    assert report.payoffs["win_rate"] == table.win_rate().tolist()
    assert report.measures == pytest.approx(
        {
            "expected_cardinality/player": population_metrics.expected_cardinality(game[0]),
            "effective_diversity": population_metrics.effective_diversity(game),
            "transitive_share": population_metrics.decompose_game(game).transitive_share,
            "cyclic_share": population_metrics.decompose_game(game).cyclic_share,
        }
    )
    assert column(report, "player", "alpharank") == pytest.approx(
        torch.stack(solvers.solve("alpharank", game).marginals).mean(0).tolist()
    )
    averages = torch.stack(ratings.nash_average(game)).mean(0)
    assert column(report, "player", "nash_average") == pytest.approx(averages.tolist(), abs=1e-9)
    elo = ratings.elo(table.win_rate(), table.count.triu(1))
    assert column(report, "player", "elo") == pytest.approx(elo.tolist())
    if "league" in str(run):  # its meta-strategies are computed by the report
        assert report.strategy is not None
        assert not report.strategy["of_the_run"]
        weights = RPS.marginals_by_role(solvers.solve("nash", game).marginals)["player"].tolist()
        assert report.strategy["weights"] == [weights, weights]
        assert column(report, "player", "weight") == weights


@pytest.mark.parametrize("run", ["kuhn"], indirect=True)
def test_report_of_exact_payoffs_equals_run_and_game_tree(run):
    report, tree = read(run), GameTree(KUHN)
    with RunStore.open(run, write=False) as store:
        rows = store.iterations()
        tables_ = RunTables(store).tabular.tabulate_all(store.populations)
    game = tree.payoffs(tables_)
    assert report.payoffs["exact"]
    assert report.payoffs["mean"] == game.tolist()
    assert not np.any(report.payoffs["half_width"])
    for iteration, row in zip(report.iterations, rows.values(), strict=True):
        assert [iteration[key] for key in ("nash_conv", "exploitability", "best_nash_conv")] == [
            row[key] for key in ("nash_conv", "exploitability", "best_nash_conv")
        ]
        assert iteration["strategy"] == row["meta_strategy"]
    assert report.iterations[0]["nash_conv"] == pytest.approx(0.9167, abs=1e-4)
    gain = solvers.nash_gap(
        game, solvers.MetaStrategy(tuple(torch.eye(len(policies))[0].double() for policies in tables_))
    )
    assert report.iterations[0]["population_gain"] == pytest.approx(gain)
    assert gain <= report.iterations[0]["nash_conv"] + 1e-9
    assert report.iterations[-1]["population_gain"] is None
    least = min(rows.values(), key=lambda row: row["nash_conv"])
    assert report.best["nash_conv"] == least["nash_conv"]
    for seat, role in enumerate(("player_0", "player_1")):
        assert column(report, role, "weight") == rows[4]["meta_strategy"][seat]
        assert column(report, role, "alpharank") == pytest.approx(
            solvers.solve("alpharank", game).marginals[seat].tolist()
        )
        assert column(report, role, "nash_average") == pytest.approx(ratings.nash_average(game)[seat].tolist())
        assert "elo" not in report.policies[role][0]
    assert report.measures["expected_cardinality/player_1"] == population_metrics.expected_cardinality(game[1].T)
    assert "expected sampled payoffs" in report.left_out["Elo"]
    for name in ("effective diversity", "transitive and cyclic share"):
        assert "got one each for player_0, player_1" in report.left_out[name]


@pytest.mark.parametrize("run", ["kuhn", "league"], indirect=True)
def test_nash_conv_is_taken_from_the_run_or_pending(run):
    """The run computes it in the background; until then the report has no other value."""
    finished = read(run)
    with RunStore.open(run) as store:
        rows = store.iterations()
        with store.step("as it was before"):
            for number in list(rows)[1:]:
                store.put_iteration(number, rows[number] | UNKNOWN)
        report = read_report(store)
    measures_ = ("nash_conv", "exploitability", "best_nash_conv")
    assert all(finished.iterations[0][name] is not None for name in measures_)
    assert report.iterations[0] == finished.iterations[0]
    assert [row[name] for row in report.iterations[1:] for name in measures_] == [None] * 3 * (len(rows) - 1)
    assert report.best == {name: finished.iterations[0][name] for name in ("iteration", "nash_conv", "exploitability")}
    assert "pending" in report.left_out["NashConv from iteration 1 on"]
    assert "pending" in format_report(report, 200)
    assert not any("NashConv" in name for name in finished.left_out)


@pytest.mark.slow
def test_missing_nash_conv_is_computed_or_explained(tmp_path):
    """Covers a game that is not declared zero-sum, and recurrent policies, which have no table."""
    general = Game.of("RockPaperScissors-v0", {"num_repetitions": 1}, zero_sum=False)
    report = build_report(league(tmp_path / "general", general, 1))
    assert all(row["nash_conv"] >= 0 for row in report.iterations)
    gru = {"total_steps": 32, "learner.rollout_length": 4, "learner.hidden_sizes": (8,), "learner.network": "gru"}
    for report in (
        build_report(league(tmp_path / "gru", RPS, 1, **gru)),
        build_report(
            psro(tmp_path / "psro", RPS, iterations=1, oracle="learned", train_overrides={"num_envs": 8, **gru})
        ),
    ):
        assert all(row["nash_conv"] is None for row in report.iterations)
        assert "recurrent" in report.left_out["exact NashConv"]


@pytest.mark.parametrize("run", ["sampled"], indirect=True)
def test_report_of_anytime_run_uses_its_best_strategy(run):
    with RunStore.open(run) as store:
        rows = store.iterations()
        store.config["keep_best_strategy"] = True
        with store.step("chosen"):
            store.put_iteration(3, rows[3] | UNKNOWN | {"best_iteration": 1})
        report = read_report(store)
    assert report.strategy["iteration"] == 1
    assert report.strategy["weights"] == rows[1]["meta_strategy"]


def test_ratings_of_two_equally_large_populations_stay_separate(runs):
    report = read(runs["sampled"])
    with RunStore.open(runs["sampled"], write=False) as store:
        table = table_of(store)
    first, second = table.shape
    assert first == second
    wide = [torch.nn.functional.pad(x, (0, 1)) for x in (table.win_rate(), table.count)]  # one without episodes
    expected = ratings.elo(*wide)
    elo = torch.tensor(column(report, "player_0", "elo") + column(report, "player_1", "elo"), dtype=torch.float64)
    expected = expected[:-1] - expected[:-1].mean()
    assert (elo - expected).abs().max() < 1.0  # one more policy shares in the prior


@pytest.mark.parametrize("run", ["league"], indirect=True)
def test_matches_are_counted_by_role_kind_and_pair(run):
    report = read(run)
    with RunStore.open(run, write=False) as store:
        rows = store.iterations().values()
    total = sum(sum(met.values()) for row in rows for met in row.get("matches", {}).values())
    assert total > 0
    assert sum(report.matches["by_role"].values()) == total
    assert sum(count for *_, count in report.matches["by_pair"]) == total
    kinds = {}
    for row in rows:
        for kind, count in row.get("matches_by_kind", {}).items():
            kinds[kind] = kinds.get(kind, 0) + count
    assert report.matches["by_kind"] == kinds


def test_matches_of_psro_are_those_of_its_store(tmp_path):
    with RunStore.create(tmp_path / "run", KUHN, {"algorithm": "psro"}) as store:
        with store.step("begin"):
            for role in KUHN.roles:
                store.add_policy(role, RandomPolicy.of(KUHN, role), "random", "random")
            store.add_matches(1, "player_0", [[-1, 0]], [5])
            store.add_matches(2, "player_0", [[-1, 0]], [2])
            store.add_matches(1, "player_1", [[0, -1]], [4])
        report = read_report(store)
    assert report.matches["by_role"] == {"player_0": 7, "player_1": 4}
    assert report.matches["by_kind"] == {"learner - random": 11}
    assert ["player_0, iteration 1", "random", 5] in report.matches["by_pair"]


@pytest.mark.slow
@pytest.mark.parametrize("run", ["league"], indirect=True)
def test_policies_without_payoffs_are_listed_but_not_rated(run):
    previous = build_report(run)
    with RunStore.open(run) as store:
        with store.step("3/more"):
            store.add_policy("player", RandomPolicy.of(RPS, "player"), "random", "late", iteration=3)
            store.put_iteration(3, {})
        report = build_report(store)
        assert build_report(run).to_json() == report.to_json()  # read by another handle than the writing one
    assert report.rated == previous.rated
    assert report.measures == previous.measures
    assert report.policies["player"][-1]["name"] == "late"
    assert report.policies["player"][-1]["elo"] is None
    assert "not complete" in report.left_out["measures of the last policies"]
    assert report.to_json()["payoffs"]["mean"][0][0][-1] is None
    assert "late" in format_report(report)


@pytest.mark.parametrize("populated", [False, True])
def test_report_of_run_without_iterations_says_so(tmp_path, populated):
    with RunStore.create(tmp_path / "run", KUHN, {"algorithm": "psro"}) as store:
        if populated:
            with store.step("begin"):
                for role in KUHN.roles:
                    store.add_policy(role, RandomPolicy.of(KUHN, role), "random", "random")
    report = build_report(tmp_path / "run", exploit_steps=10)
    assert report.finished is None
    assert report.strategy is None
    assert report.exploit is None
    assert not report.measures
    assert report.left_out["ratings and measures"] == "no iteration is complete yet"
    assert "none yet" in format_report(report)
    assert (tmp_path / "run" / "report" / "report.html").is_file()


def test_interval_of_population_gain_follows_from_payoffs(runs):
    """Against a pure strategy the gain is the difference of two cells for each seat."""
    report = read(runs["sampled"])
    mean, half = torch.tensor(report.payoffs["mean"]), torch.tensor(report.payoffs["half_width"])
    best = int(mean[0, :, 0].argmax()), int(mean[1, 0].argmax())
    first = report.iterations[0]
    gain = mean[0, best[0], 0] - mean[0, 0, 0] + mean[1, 0, best[1]] - mean[1, 0, 0]
    assert first["population_gain"] == pytest.approx(float(gain), abs=1e-6)
    assert min(best) > 0
    spread = half[0, best[0], 0].hypot(half[0, 0, 0]) + half[1, 0, best[1]].hypot(half[1, 0, 0])
    assert first["population_gain_half_width"] == pytest.approx(float(spread), rel=1e-5)
    assert f"± {spread:.4f}" in format_report(report, 200)
    exact = read(runs["kuhn"])
    assert exact.iterations[0]["population_gain_half_width"] == 0


@pytest.mark.slow
def test_learned_responses_are_reported_as_a_lower_bound(runs, tmp_path):
    with RunStore.open(runs["sampled"], write=False) as store:
        store.config["train_overrides"] = {"num_envs": 32, "learner.rollout_length": 4, "learner.hidden_sizes": [8]}
        report = build_report(store, tmp_path, exploit_steps=500)
    assert report.exploit is not None
    assert report.exploit["lower_bound"]
    assert report.exploit["steps"] >= 500
    assert report.exploit["nash_conv"] - 2 * report.exploit["half_width"] <= report.iterations[-1]["nash_conv"]
    assert report.exploit["nash_conv"] == pytest.approx(sum(seat["response"] for seat in report.exploit["seats"]))
    assert "a lower bound" in format_report(report, 200)
    assert json.loads((tmp_path / "report.json").read_text())["exploit"]["half_width"] == report.exploit["half_width"]


def test_asymmetric_seats_have_a_figure_each_and_a_valid_strategy(tmp_path):
    game = Game.of("SimpleTag-v0", {"max_cycles": 5})
    report = build_report(league(tmp_path / "tag", game, 1))
    names = {Path(path).name for path in report.files}
    assert {"payoffs.png", "payoffs_agent.png", "lineage_adversary.png", "lineage_agent.png"} <= names
    assert report.strategy is not None
    assert report.strategy["solver"] == "prd"
    for weights in report.strategy["weights"]:
        assert min(weights) >= 0
        assert sum(weights) == pytest.approx(1)
    assert "zero-sum" in report.left_out["Nash averaging"]


def test_three_seats_leave_out_measures_of_two(tmp_path):
    game = Game.of("KuhnPoker-v0", {"num_players": 3})
    report = build_report(
        psro(tmp_path / "three", game, iterations=1, payoff_estimation="exact", meta_solver="uniform")
    )
    assert torch.tensor(report.payoffs["mean"]).shape == (3, 2, 2, 2)
    assert {"Elo", "Nash averaging", "figure of payoffs"} <= report.left_out.keys()
    assert "three" in report.files[0]
    assert not any("payoffs" in Path(path).name for path in report.files)
    assert set(report.policies) == {"player_0", "player_1", "player_2"}
    for entries in report.policies.values():
        assert all({"weight", "alpharank"} <= entry.keys() for entry in entries)
