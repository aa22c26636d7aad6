"""JPSRO: best responses to recommendations of ce and to the joint distribution of cce, against OpenSpiel's gaps."""

import dataclasses
import sqlite3
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyspiel
import pytest
import torch
from always import table_policy
from exact_games import spiel_of, to_spiel
from open_spiel.python import policy
from psro_runs import EXACT, TINY, contents, play, psro

from gpu_envs.errors import ConfigError
from league.analysis.report_data import read_report
from league.analysis.report_tables import format_report
from league.evaluation.nash_conv import ce_gap_lower_bound, strategy_from_summary
from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.matchups.matchup_distribution import LEARNER
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.psro.variants.standard import StandardVariant
from league.solvers.meta_strategy import of_joint
from league.storage.run_store import RunStore

KUHN_3 = Game.of("KuhnPoker-v0", {"num_players": 3})
RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
WELFARE = {"meta_solver_kwargs": {"objective": "max_welfare"}}  # vertices: few profiles have probability
SMALL = {"train_overrides": TINY, "episodes_per_matchup": 10}


def small_game(game):
    tabular = TabularGame.of(game)
    assert tabular is not None
    return TabularGame(tabular.tree)


def spiel_gap(tables, joint, recommended):
    """Compute the gap as OpenSpiel's jpsro.find_best_response, which itself needs cvxpy."""
    game, total, policies = spiel_of("kuhn of three"), 0.0, {}
    for matchup in joint.nonzero().tolist():
        profile = to_spiel("kuhn of three", [tables[seat][index] for seat, index in enumerate(matchup)])
        policies[tuple(matchup)] = policy.python_policy_to_pyspiel_policy(profile)
    for seat in range(3):
        for index in range(joint.shape[seat]) if recommended else [None]:
            shares = {matchup: float(joint[matchup]) for matchup in policies if index in (None, matchup[seat])}
            weight = sum(shares.values())
            if weight == 0:
                continue
            device = [(share / weight, policies[matchup]) for matchup, share in shares.items()]
            result = pyspiel.cce_dist(game, device, seat, 0.0, -1.0)
            on_policy = sum(
                share / weight * pyspiel.expected_returns(game.new_initial_state(), policies[matchup], -1, True)[seat]
                for matchup, share in shares.items()
            )
            total += weight * max(result.best_response_values[0] - on_policy, 0.0)
    return total


@pytest.mark.parametrize(
    ("solver", "limit", "last"),
    [
        ("cce", 3, 10),
        pytest.param("ce", None, 10, marks=pytest.mark.slow),
        pytest.param("ce", 1, 13, marks=pytest.mark.slow),
    ],
)
def test_jpsro_with_exact_responses_solves_kuhn_of_three(solver, limit, last, tmp_path):
    more = {"max_recommendations": limit} if solver == "ce" else {}
    rows = play(tmp_path, KUHN_3, iterations=last + 2, meta_solver=solver, **more, **WELFARE, **EXACT)
    gaps = [row["ce_gap" if solver == "ce" else "nash_conv"] for row in rows]
    assert gaps[0] == pytest.approx(2.0625)  # of the uniform policies
    assert gaps[5] > 0.1
    assert gaps[-1] < 1e-6
    if limit is not None:  # with all recommendations, the last gains are rounding errors, which differ by machine
        assert rows[-1]["policies"] == rows[-2]["policies"]  # no response gains anything
    assert rows[-1]["best_iteration"] > 5
    for row, previous in zip(rows[1:], rows, strict=False):
        if solver == "ce":
            assert row["ce_gap"] > row["nash_conv"] - 1e-9  # a seat that knows its recommendation gains no less
            assert row["ce_gap_lower_bound"] == pytest.approx(0.0, abs=1e-6)  # a CE of the meta-game
        if limit is None:  # all best responses joined the populations
            assert row["previous_ce_gap_lower_bound"] == pytest.approx(previous["ce_gap"], abs=1e-6)
    if limit == 1:
        sizes = [sum(row["policies"].values()) for row in rows]
        assert all(after - previous <= 3 for previous, after in pairwise(sizes))


@pytest.mark.parametrize(("solver", "key"), [("ce", "ce_gap"), ("cce", "nash_conv")])
def test_gaps_equal_those_of_open_spiel(solver, key, tmp_path):
    rows = play(tmp_path, KUHN_3, iterations=5, meta_solver=solver, **WELFARE, **EXACT)
    with RunStore.open(tmp_path, write=False) as store:
        tables = small_game(KUHN_3).tabulate_all(store.populations)
        for row in rows:
            joint = strategy_from_summary(row).joint
            assert row[key] == pytest.approx(spiel_gap(tables, joint, solver == "ce"), abs=1e-8)
    assert rows[3][key] > 0.3


@pytest.mark.parametrize("objective", ["max_entropy", "max_welfare"])
def test_correlated_equilibrium_of_rock_paper_scissors_is_uniform(objective, tmp_path):
    rows = play(tmp_path, RPS, iterations=4, meta_solver="ce", meta_solver_kwargs={"objective": objective}, **EXACT)
    assert rows[4]["ce_gap"] == pytest.approx(0.0, abs=1e-4)
    assert rows[4]["nash_conv"] == pytest.approx(0.0, abs=1e-4)


def pure(tree, seat, action):
    return table_policy(tree, torch.nn.functional.one_hot(torch.full((1,), action), 3).double(), seat)


def test_response_to_a_recommendation_differs_from_that_to_the_marginal():
    """Both choose the same action in a diagonal joint: the recommendation gives the opponent's action away."""
    small = small_game(RPS)
    populations = {RPS.roles[0]: [pure(small.tree, 0, action) for action in range(3)]}
    joint = torch.diag(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64))
    opponents = of_joint(joint)
    for index in range(3):
        response, value = small.best_response(populations, RPS.roles[0], opponents, index)
        assert response.table[0].argmax() == (index + 1) % 3  # paper beats rock, scissors beat paper
        assert value == pytest.approx(1.0)
    gains = small.deviation_gains(populations, joint, 0)
    assert {index: entry.gain for index, entry in gains.items()} == pytest.approx({0: 0.5, 1: 0.3, 2: 0.2})
    assert small.ce_gap(populations, joint) == pytest.approx(2.0)
    coarse = small.nash_conv(populations, opponents.marginals, joint)
    assert coarse == pytest.approx(2 * (0.5 - 0.2))  # paper against rock or scissors
    payoffs = small.payoffs(populations)
    assert ce_gap_lower_bound(payoffs, joint) == pytest.approx(2.0)  # the responses are policies of the meta-game
    assert ce_gap_lower_bound(payoffs + 1.0, joint) == pytest.approx(2.0)  # in a game with another sum, too
    assert ce_gap_lower_bound(payoffs, joint[:2, :2] / 0.8) == pytest.approx(2.0)


def test_exact_responses_are_new_and_to_the_recommendations_with_the_largest_gains(tmp_path):
    settings: dict[str, Any] = {"meta_solver": "ce", "max_recommendations": None, **WELFARE, **EXACT}
    play(tmp_path, KUHN_3, iterations=8, **settings)
    run = psro(tmp_path, KUHN_3, iterations=8, **settings)
    with run.store:
        run.run()  # nothing is left to do
        context, small = run._context(9), small_game(KUHN_3)
        tasks = run.variant.tasks(context)
        limited = dataclasses.replace(context, config=PSROConfig(**{**settings, "max_recommendations": 1}))
        best = StandardVariant(KUHN_3, limited.config).tasks(limited)
        for seat, role in enumerate(KUHN_3.roles):
            tables = torch.stack(small.tabulate_all(run.populations)[seat])
            assert len(tables.unique(dim=0)) == len(tables) > 8
            gains = small.deviation_gains(run.populations, context.opponents.joint, seat)
            values = [gains[task.recommendation].gain for task in tasks if task.role == role]
            assert len(values) > 1
            assert values == sorted(values, reverse=True)
            assert values[0] == max(entry.gain for entry in gains.values())
            assert [task.recommendation for task in best if task.role == role] == [
                next(task.recommendation for task in tasks if task.role == role)
            ]


def tasks(joint, **settings):
    """Return the tasks of learned responses to a joint meta-strategy."""
    config = PSROConfig(meta_solver="ce", **settings)
    context: Any = SimpleNamespace(iteration=4, game=KUHN_3, config=config, opponents=of_joint(joint))
    return StandardVariant(KUHN_3, config).tasks(context)


def test_learned_responses_are_to_the_most_probable_recommendations():
    joint = torch.zeros(4, 3, 2, dtype=torch.float64)
    joint[0, 0, 0], joint[1, 0, 1], joint[1, 2, 0], joint[2, 1, 1] = 0.2, 0.3, 0.2, 0.2999
    joint[3, 0, 0] = 1e-4  # a rest of the solver
    joint /= joint.sum()
    responses = tasks(joint, max_recommendations=None)
    assert [(task.role, task.recommendation) for task in responses] == [
        *(("player_0", index) for index in (1, 2, 0)),
        *(("player_1", index) for index in (0, 1, 2)),
        *(("player_2", index) for index in (1, 0)),
    ]
    assert [task.name for task in responses[:3]] == [f"4/respond/player_0/{i}" for i in range(3)]
    assert [task.parent for task in responses[:3]] == [1, 2, 0]
    draw = responses[0].matchups(KUHN_3)
    assert draw.matchups.tolist() == [[LEARNER, 0, 1], [LEARNER, 2, 0]]
    assert draw.probability.tolist() == pytest.approx([0.6, 0.4])
    assert [task.recommendation for task in tasks(joint, max_recommendations=1)] == [1, 0, 1]
    assert len(tasks(joint)) == 3 + 3 + 2  # the default is 3


@pytest.mark.slow
def test_learned_responses_train_against_their_conditional_opponents(tmp_path):
    rows = play(tmp_path, KUHN_3, iterations=3, meta_solver="ce", max_recommendations=2, **SMALL)
    assert all(row["ce_gap"] >= row["nash_conv"] - 1e-9 for row in rows)
    with RunStore.open(tmp_path, write=False) as store:
        assert any(name.endswith("/respond/player_0/1") for name in store.tasks())
        for match in store.matches():
            seat = match.matchup.index(LEARNER)
            opponents = strategy_from_summary(rows[match.iteration - 1]).joint.sum(seat)
            assert float(opponents[tuple(index for index in match.matchup if index != LEARNER)]) > 0
    assert max(rows[3]["policies"].values()) <= 1 + 3 * 2
    assert sum(rows[3]["policies"].values()) > 3 * 4  # more than one response per role and iteration


def test_interrupted_iteration_of_jpsro_resumes_with_equal_results(tmp_path, monkeypatch):
    settings: dict[str, Any] = {"iterations": 6, "meta_solver": "ce", **WELFARE, **EXACT}
    play(tmp_path / "whole", KUHN_3, **settings)
    commit, count = PSRO._commit, [0]

    def stop_after_twenty(self, *arguments):
        commit(self, *arguments)
        count[0] += 1
        if count[0] == 20:
            raise KeyboardInterrupt

    run = psro(tmp_path / "cut", KUHN_3, **settings)
    with run.store, monkeypatch.context() as patch:
        patch.setattr(PSRO, "_commit", stop_after_twenty)
        with pytest.raises(KeyboardInterrupt):
            run.run()
    play(tmp_path / "cut", KUHN_3, **settings)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_report_measures_the_joint_meta_strategy(tmp_path):
    play(tmp_path, KUHN_3, iterations=6, meta_solver="ce", **WELFARE, **EXACT)
    with RunStore.open(tmp_path, write=False) as store:
        report = read_report(store)
        text = format_report(report, 140)
    assert "CE gap" in text
    for row in report.iterations[:-1]:
        assert -1e-9 <= row["population_gain"] <= row["nash_conv"] + 1e-9 <= row["ce_gap"] + 2e-9
    assert report.iterations[2]["population_gain"] == pytest.approx(0.5)


def test_entropy_solver_relaxes_degenerate_constraints(tmp_path):
    """Two responses per role lead to a meta-game whose exact equilibria have hardly any interior."""
    rows = play(tmp_path, KUHN_3, iterations=5, meta_solver="ce", max_recommendations=2, **EXACT)
    assert rows[5]["ce_gap"] < rows[0]["ce_gap"] / 5
    with RunStore.open(tmp_path, write=False) as store:
        payoffs = small_game(KUHN_3).payoffs(store.populations)
    joint = strategy_from_summary(rows[5]).joint
    assert 0 <= ce_gap_lower_bound(payoffs, joint) < 1e-3


def test_combinations_without_effect_are_refused():
    for variant in ("rectified", "pipeline", "anytime", "self_play"):
        with pytest.raises(ConfigError, match=rf"meta_solver='ce': expected variant='standard', got '{variant}'.*cce"):
            PSROConfig(meta_solver="ce", variant=variant)
    with pytest.raises(ConfigError, match=r"max_recommendations.*meta_solver = 'ce'"):
        PSROConfig(meta_solver="cce", max_recommendations=2)


def test_run_from_before_recommendations_resumes(tmp_path):
    """Its configuration and its summaries lack the new fields."""
    play(tmp_path, KUHN_3, iterations=2, meta_solver="ce", **WELFARE, **EXACT)
    db = sqlite3.connect(tmp_path / "league.db")
    (text,) = db.execute("SELECT value FROM meta WHERE key = 'config'").fetchone()
    assert '"max_recommendations": 3, ' in text
    db.execute("UPDATE meta SET value = ? WHERE key = 'config'", (text.replace('"max_recommendations": 3, ', ""),))
    for number, row in db.execute("SELECT number, summary FROM iterations").fetchall():
        old = row.replace('"ce_gap":', '"unread":').replace('ce_gap_lower_bound":', 'unread_bound":')
        db.execute("UPDATE iterations SET summary = ? WHERE number = ?", (old, number))
    db.commit()
    db.close()
    rows = play(tmp_path, KUHN_3, iterations=4, meta_solver="ce", **WELFARE, **EXACT)
    assert "ce_gap" not in rows[2]
    assert np.isfinite([rows[3]["ce_gap"], rows[4]["ce_gap"]]).all()
    assert rows[4]["best_iteration"] == 4
