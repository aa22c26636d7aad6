"""PSRO: exact against the reference tables, its meta-solvers, what a run says and keeps, and what it refuses."""

import json
import math
import subprocess
import sys

import pytest
import torch
from exact_games import from_loss_to_win, tree_of
from exact_games import psro as reference_psro
from open_spiel.python.algorithms.projected_replicator_dynamics import projected_replicator_dynamics
from psro_runs import EXACT, KINDS, LEDUC, QUICK, SCRIPT, contents, play, psro

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from league import solvers
from league.evaluation import payoff_filler
from league.evaluation.nash_conv import nash_conv_lower_bound, strategy_from_summary
from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.psro.config import PSROConfig
from league.solvers import MetaStrategy
from league.storage import run_config as runs
from league.storage.run_store import RunStore

KUHN_UNIFORM = [0.9167, 0.6250, 0.4167, 0.3542, 0.2833, 0.2639, 0.2262]
"""NashConv by iteration, of OpenSpiel's PSRO with exact payoffs and responses and the uniform meta-strategy."""


def nash_convs(rows):
    return [row["nash_conv"] for row in rows]


# ---------------------------------------------------------------- exact


def test_uniform_on_kuhn_equals_the_reference(tmp_path):
    values = nash_convs(play(tmp_path, iterations=20, meta_solver="uniform", **EXACT))
    assert values[:7] == pytest.approx(KUHN_UNIFORM, abs=1e-4)
    assert [values[at] for at in (8, 10, 15, 20)] == pytest.approx([0.2037, 0.1667, 0.1302, 0.0992], abs=1e-4)


def openspiel_prd(payoffs):
    """Return the marginals by OpenSpiel, of payoffs from -1 to 1, with the constants of its PSRO example."""
    tables = list(from_loss_to_win(payoffs).numpy())
    marginals = projected_replicator_dynamics(tables, prd_iterations=50_000, prd_gamma=1e-10)
    return [torch.from_numpy(marginal) for marginal in marginals]


@pytest.mark.slow
def test_projected_replicator_dynamics_on_kuhn_equals_the_reference(tmp_path):
    values = nash_convs(play(tmp_path, iterations=6, meta_solver="prd", **EXACT))
    assert values == pytest.approx(reference_psro(tree_of("kuhn"), openspiel_prd, 6), abs=1e-4)


def test_double_oracle_solves_kuhn(tmp_path):
    rows = play(tmp_path, iterations=12, **EXACT)  # "auto" is nash here
    values = nash_convs(rows)
    assert values[:3] == pytest.approx([0.9167, 0.8333, 0.3333], abs=1e-4)
    assert values[12] < 1e-6
    assert rows[12]["value"] == pytest.approx([-1 / 18, 1 / 18])
    for row, previous in zip(rows[1:], rows, strict=False):
        # exact best responses join the populations, so that what they gain is all that can be gained
        assert row["previous_nash_conv_lower_bound"] == pytest.approx(previous["nash_conv"], abs=1e-9)
        assert row["nash_conv_lower_bound"] == pytest.approx(0.0, abs=1e-9)
        assert row["best_nash_conv"] == min(values[: row["policies"]["player_0"]])
        assert row["exploitability"] == pytest.approx(row["nash_conv"] / 2)


@pytest.mark.parametrize("iterations", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_uniform_on_leduc_equals_the_reference(iterations, tmp_path):
    values = nash_convs(play(tmp_path, "LeducPoker-v0", iterations=iterations, meta_solver="uniform", **EXACT))
    expected = {at: value for at, value in LEDUC.items() if at <= iterations}
    assert {at: values[at] for at in expected} == pytest.approx(expected, abs=6e-4)


@pytest.mark.slow
def test_projected_replicator_dynamics_on_leduc_equals_the_reference(tmp_path):
    rows = play(tmp_path, "LeducPoker-v0", iterations=40, meta_solver="prd", **EXACT)
    assert rows[40]["nash_conv"] <= 0.6
    assert rows[40]["best_nash_conv"] <= 0.6


SHORT = {
    "prd": {"iterations": 1_000},
    "replicator": {"iterations": 1_000},
    "regret_matching": {"iterations": 1_000},
    "fictitious_play": {"iterations": 2_000},
    "multiplicative_weights": {"iterations": 1_000},
}


@pytest.mark.parametrize("name", solvers.SOLVERS)
def test_psro_improves_with_every_meta_solver(name, tmp_path):
    values = nash_convs(play(tmp_path, iterations=8, meta_solver=name, meta_solver_kwargs=SHORT.get(name, {}), **EXACT))
    assert values[8] < 0.25
    assert values[8] < values[0] / 3


@pytest.mark.parametrize("name", ["nash", "max_entropy_nash", "cce", "fictitious_play"])
def test_rock_paper_scissors_is_played_uniformly(name, tmp_path):
    game = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
    rows = play(tmp_path, game, iterations=4, meta_solver=name, **EXACT)
    assert rows[4]["nash_conv"] == pytest.approx(0.0, abs=1e-3)
    with RunStore.open(tmp_path, write=False) as store:
        small = TabularGame(TabularGame.of(game).tree)
        table = small.mixtures(store.populations, strategy_from_summary(rows[4]).marginals)[0]
    assert table[0].tolist() == pytest.approx([1 / 3] * 3, abs=1e-3)


def test_shared_population_of_unequal_seats(tmp_path):
    game = Game.of("KuhnPoker-v0", shared=True)
    rows = play(tmp_path, game, iterations=12, **EXACT)
    assert rows[12]["nash_conv"] < 1e-6
    assert rows[12]["value"] == pytest.approx([0.0, 0.0])  # as often first as second
    for row, previous in zip(rows[1:], rows, strict=False):
        assert row["meta_strategy"][0] == row["meta_strategy"][1]
        assert row["previous_nash_conv_lower_bound"] == pytest.approx(previous["nash_conv"], abs=1e-9)


@pytest.mark.variations
@pytest.mark.parametrize("shared", [False, True])
def test_joint_meta_strategies_of_three(shared, tmp_path):
    game = Game.of("KuhnPoker-v0", {"num_players": 3}, shared)
    rows = play(tmp_path, game, iterations=5, meta_solver="cce", **EXACT)
    assert min(nash_convs(rows)) < rows[0]["nash_conv"] / 5
    joint = strategy_from_summary(rows[5]).joint
    for order in [(1, 0, 2), (2, 0, 1)] if shared else []:
        assert torch.allclose(joint, joint.permute(order))
    for row, previous in zip(rows[1:], rows, strict=False):  # responses are to the joint, not to its marginals
        assert row["previous_nash_conv_lower_bound"] == pytest.approx(previous["nash_conv"], abs=1e-9)
        assert row["nash_conv_lower_bound"] == pytest.approx(0.0, abs=1e-6)


def test_product_joint_has_the_best_responses_of_its_marginals(tmp_path):
    play(tmp_path, Game.of("KuhnPoker-v0", {"num_players": 3}), iterations=3, meta_solver="uniform", **EXACT)
    with RunStore.open(tmp_path, write=False) as store:
        small, odds = TabularGame.of(store.game), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
        assert small is not None
        product = MetaStrategy((odds,) * 3)
        joint = MetaStrategy(product.marginals, product.distribution())
        assert small.nash_conv(store.populations, product.marginals) == pytest.approx(
            small.nash_conv(store.populations, joint.marginals, joint.joint)
        )
        assert nash_conv_lower_bound(small.payoffs(store.populations), product) == pytest.approx(
            nash_conv_lower_bound(small.payoffs(store.populations), joint)
        )
        tables = [
            small.best_response(store.populations, "player_1", strategy)[0].table for strategy in (product, joint)
        ]
        assert torch.equal(*tables)


def test_payoffs_of_one_population_are_those_of_the_payoff_table(tmp_path):
    game = Game.of("KuhnPoker-v0", shared=True)
    play(tmp_path, game, iterations=2, episodes_per_matchup=4_000, oracle="exact")
    with RunStore.open(tmp_path, write=False) as store:
        small = TabularGame.of(game)
        assert small is not None
        assert torch.allclose(runs.table_of(store).mean, small.payoffs(store.populations), atol=0.12)


# ---------------------------------------------------------------- what a run says and keeps


def test_summary_has_all_fields_of_every_iteration(tmp_path):
    play(tmp_path, iterations=2, episodes_per_matchup=20, oracle="exact")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [row["iteration"] for row in summary["iterations"]] == [0, 1, 2]
    for row in summary["iterations"]:
        assert row["best_nash_conv"] <= row["nash_conv"]
        assert row["seconds"] > 0
        assert 0 <= row["best_iteration"] <= row["iteration"]
    assert [row["episodes"] for row in summary["iterations"]] == [20, 80, 180]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["standard", "self_play", "anytime", "pipeline"])
def test_extended_run_equals_long_run(variant, tmp_path):
    settings = KINDS["pipeline"] if variant == "pipeline" else {**QUICK, "variant": variant}
    play(tmp_path / "a", iterations=2, **settings)
    play(tmp_path / "b", iterations=1, **settings)
    assert len(play(tmp_path / "b", iterations=2, **settings)) == 3
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    play(tmp_path / "b", iterations=2, **settings)  # all is done
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.slow
def test_run_killed_anywhere_resumes_to_equal_results(tmp_path):
    points = 4
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(points)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr
    for kind, line in zip(KINDS, run.stdout.splitlines(), strict=True):
        assert int(line.split()[1]) >= points, run.stdout
        expected = contents(tmp_path / kind / "whole")
        assert len(expected["iterations"]) == 3
        for point in range(points):
            assert contents(tmp_path / kind / str(point)) == expected, (kind, point)


def test_recurrent_policies_cannot_be_tabulated(tmp_path):
    train = {
        **QUICK["train_overrides"],
        "learner.network": "gru",
    }
    rows = play(tmp_path, iterations=1, **{**QUICK, "train_overrides": train})
    assert [row["nash_conv"] for row in rows] == [None, None]
    assert rows[1]["previous_nash_conv_lower_bound"] is not None
    with pytest.raises(ConfigError, match="payoff_estimation='exact': expected policies without recurrence"):
        psro(tmp_path / "other", payoff_estimation="exact", **{**QUICK, "train_overrides": train})


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("env_id", "settings", "message"),
    [
        (("KuhnPoker-v0", {"num_players": 3}), {"meta_solver": "nash"}, "nash: expected two seats, got 3"),
        (
            ("SimpleTag-v0", {}),
            {"meta_solver": "nash"},
            "meta_solver='nash': expected a zero-sum game, got SimpleTag-v0",
        ),
        (("SimpleTag-v0", {}), EXACT, "SimpleTag-v0: no exact tree"),
        (("KuhnPoker-v0", {}), {"variant": "rectified"}, "'rectified': KuhnPoker-v0: expected one population"),
        (("SimpleTag-v0", {}), {"variant": "rectified"}, "expected a two-player zero-sum game, got SimpleTag-v0"),
        (("SimpleTag-v0", {}), {"variant": "anytime"}, "expected a two-player zero-sum game, got SimpleTag-v0"),
        (
            ("KuhnPoker-v0", {"num_players": 3}),
            {"variant": "anytime"},
            "expected a two-player zero-sum game, got KuhnPoker-v0",
        ),
        (("KuhnPoker-v0", {}), {"variant": "pipeline", **EXACT}, "'pipeline': expected oracle='learned', got 'exact'"),
        (("KuhnPoker-v0", {}), {"variant": "xdo"}, "variant='xdo': expected oracle='exact', got 'learned'"),
        (
            ("KuhnPoker-v0", {"num_players": 3}),
            {"variant": "xdo", **EXACT},
            "expected a two-player zero-sum game, got KuhnPoker-v0",
        ),
        (("SimpleTag-v0", {}), {"variant": "xdo", **EXACT}, "SimpleTag-v0: no exact tree"),
        (("KuhnPoker-v0", {}), {"meta_solver": "prd", "meta_solver_kwargs": {"steps": 3}}, "prd: no setting 'steps'"),
        (("KuhnPoker-v0", {}), {"meta_solver": "prd", "meta_solver_kwargs": {"dt": -1.0}}, "dt"),
    ],
)
def test_settings_that_do_not_fit_the_game_raise_before_any_step(env_id, settings, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as refused:
        psro(tmp_path, Game.of(*env_id), **settings)
    assert "\n" not in str(refused.value)
    with RunStore.open(tmp_path, write=False) as store:
        assert not store.tasks()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "rectifed"}, "variant: expected one of .*, got 'rectifed'"),
        ({"restricted_tolerance": 1e-4}, "restricted_tolerance = 0.0001: has no effect with variant = 'standard'"),
        ({"pipeline_depth": 2}, "pipeline_depth = 2: has no effect with variant = 'standard'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        PSROConfig(**settings)


def test_missing_policy_file_raises_and_run_is_kept(tmp_path):
    play(tmp_path, iterations=1, **EXACT)
    file = next((tmp_path / "policies").glob("00002-*.safetensors"))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(CheckpointError, match=file.name):
        play(tmp_path, iterations=2, **EXACT)
    file.write_bytes(content)
    assert len(play(tmp_path, iterations=2, **EXACT)) == 3


def test_invalid_payoffs_are_refused_and_the_run_is_kept(tmp_path, monkeypatch):
    settings = {"oracle": "exact", "episodes_per_matchup": 20}
    play(tmp_path, iterations=1, **settings)
    previous, right = contents(tmp_path), payoff_filler.simulate_matchups

    def wrong(*args, **more):
        results = right(*args, **more)
        results.total[-1, 0] = math.nan
        return results

    monkeypatch.setattr(payoff_filler, "simulate_matchups", wrong)
    with pytest.raises(GpuEnvsError, match="expected a finite number, got nan"):
        play(tmp_path, iterations=2, **settings)
    after = contents(tmp_path)
    assert after["cells"] == previous["cells"]
    assert after["iterations"] == previous["iterations"]
    monkeypatch.setattr(payoff_filler, "simulate_matchups", right)
    play(tmp_path, iterations=2, **settings)
    play(tmp_path / "whole", iterations=2, **settings)
    assert contents(tmp_path) == contents(tmp_path / "whole")
