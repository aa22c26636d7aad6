"""Meta-solvers: games with known answers, OpenSpiel and nashpy beside them, and what they refuse."""

import inspect

import nashpy
import numpy as np
import pyspiel
import pytest
import torch
from exact_games import from_loss_to_win
from open_spiel.python.algorithms.projected_replicator_dynamics import projected_replicator_dynamics
from open_spiel.python.algorithms.regret_matching import regret_matching
from payoff_tables import BIASED, RPS, close, drawn, zero_sum

from gpu_envs.errors import ConfigError
from league.game import Game, Seat
from league.solvers import SOLVERS, MetaStrategy, deviations, nash_gap, product, solve
from league.solvers.nash import minimax

QUICK = {name: {"iterations": 5000} for name in ("regret_matching", "fictitious_play", "multiplicative_weights")}
QUICK |= {name: {"iterations": 2500, "dt": 0.02} for name in ("replicator", "prd")}
ZERO_SUM = [name for name in SOLVERS if name not in ("uniform", "alpharank")]


PRISONERS = torch.tensor([[[3.0, 0], [5, 1]], [[3, 5], [0, 1]]])
CHICKEN = torch.tensor([[[0.0, 7], [2, 6]], [[0, 2], [7, 6]]])  # dare, chicken: Aumann 1974
TRANSITIVE = zero_sum([[0, -1, -2], [1, 0, -1], [2, 1, 0]])


@pytest.mark.parametrize("name", SOLVERS)
def test_rock_paper_scissors(name):
    strategy = solve(name, RPS, **QUICK.get(name, {}))
    for marginal in strategy.marginals:
        close(marginal, [1 / 3] * 3, atol=0.01 if name == "fictitious_play" else 1e-6)


@pytest.mark.parametrize("name", ZERO_SUM)
def test_biased_rock_paper_scissors(name):
    strategy = solve(name, BIASED, **QUICK.get(name, {}))
    exact = name not in QUICK
    for marginal in strategy.marginals:
        close(marginal, [0.25, 0.5, 0.25], atol=1e-6 if exact else 0.03)
    assert nash_gap(BIASED, strategy) < (1e-6 if exact else 0.05)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "uniform"])
def test_best_policy_of_transitive_game_is_found(name):
    for marginal in solve(name, TRANSITIVE, **QUICK.get(name, {})).marginals:
        close(marginal, [0, 0, 1], atol=0.05 if name in QUICK else 1e-6)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("uniform", "nash", "max_entropy_nash")])
def test_prisoners_defect(name):
    for marginal in solve(name, PRISONERS, **QUICK.get(name, {})).marginals:
        close(marginal, [0, 1], atol=0.05 if name in QUICK else 1e-6)


def test_kuhn_poker_as_a_matrix_game_has_its_known_value():
    game = pyspiel.extensive_to_matrix_game(pyspiel.load_game("kuhn_poker"))
    payoffs = torch.tensor(np.stack([game.row_utilities(), game.col_utilities()]))
    assert minimax(payoffs[0].numpy())[2] == pytest.approx(-1 / 18, abs=1e-9)
    for name in ("nash", "max_entropy_nash"):
        strategy = solve(name, payoffs)
        assert nash_gap(payoffs, strategy) < 1e-6
        value = strategy.marginals[0] @ deviations(payoffs, strategy.marginals)[0]
        assert float(value) == pytest.approx(-1 / 18, abs=1e-6)


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (6, 4), (7, 7)])
def test_nash_as_nashpy(shape):
    table = drawn(*shape, seed=sum(shape))
    first, second = solve("nash", zero_sum(table)).marginals
    expected = nashpy.Game(table.numpy(), -table.numpy()).linear_program()
    close(first, expected[0], atol=1e-7)  # a drawn game has one equilibrium
    close(second, expected[1], atol=1e-7)


def test_nash_takes_constant_sums():
    payoffs = BIASED + torch.tensor([3.0, -1.0])[:, None, None]
    for name in ("nash", "max_entropy_nash"):
        close(solve(name, payoffs).marginals[0], [0.25, 0.5, 0.25])


def test_maximum_entropy_mixes_equal_policies_uniformly():
    twice = zero_sum([[0, -1, -1, 1], [1, 0, 0, -1], [1, 0, 0, -1], [-1, 1, 1, 0]])  # paper two times
    for marginal in solve("max_entropy_nash", twice).marginals:
        close(marginal, [1 / 3, 1 / 6, 1 / 6, 1 / 3])
    assert nash_gap(twice, solve("nash", twice)) < 1e-9
    nothing = zero_sum(torch.zeros(3, 4))
    first, second = solve("max_entropy_nash", nothing).marginals
    close(first, [1 / 3] * 3)
    close(second, [1 / 4] * 4)


def test_equilibria_of_chicken():
    # The largest sum of payoffs: each player dares alone with probability 1/4, otherwise both are chicken.
    close(solve("ce", CHICKEN, objective="max_welfare").joint, [[0, 1 / 4], [1 / 4, 1 / 2]])
    joint = solve("ce", CHICKEN).joint
    # Symmetric, and a player advised to dare is indifferent: p(dare, dare) 2 = p(dare, chicken) 1.
    p = 1 - 5 * joint[0, 0]
    close(joint, [[joint[0, 0], 2 * joint[0, 0]], [2 * joint[0, 0], p]], atol=1e-6)
    a = np.linspace(0.05, 0.19, 200_001)
    entropy = -(a * np.log(a) + 4 * a * np.log(2 * a) + (1 - 5 * a) * np.log(1 - 5 * a))
    assert float(joint[0, 0]) == pytest.approx(a[entropy.argmax()], abs=1e-5)


def deviation_gain(payoffs, joint, seat):
    """Return the largest gain of a seat from deviating from the advised action."""
    gains, p = payoffs[seat].movedim(seat, 0).flatten(1), joint.movedim(seat, 0).flatten(1)
    value = p @ gains.T  # [advised, played]
    return float((value - value.diagonal()[:, None]).max())


def undeviation_gain(payoffs, joint, seat):
    gains, p = payoffs[seat].movedim(seat, 0).flatten(1), joint.movedim(seat, 0).flatten(1)
    return float((gains @ p.sum(0)).max() - (gains * p).sum())


@pytest.mark.parametrize("shape", [(2, 4, 5), (3, 2, 3, 4), (4, 2, 2, 2, 2)])
def test_correlated_equilibria_of_drawn_games(shape):
    payoffs = drawn(*shape)
    welfare, entropy = {}, {}
    for name, gain in (("ce", deviation_gain), ("cce", undeviation_gain)):
        for objective in ("max_entropy", "max_welfare"):
            strategy = solve(name, payoffs, objective=objective)
            joint = strategy.joint
            assert joint.shape == shape[1:]
            assert float(joint.sum()) == pytest.approx(1)
            assert max(gain(payoffs, joint, seat) for seat in range(shape[0])) < 1e-7
            for seat, marginal in enumerate(strategy.marginals):
                close(marginal, joint.movedim(seat, 0).flatten(1).sum(1), atol=1e-12)
            welfare[name, objective] = float((payoffs.sum(0) * joint).sum())
            entropy[name, objective] = float(-torch.xlogy(joint, joint).sum())
    for name in ("ce", "cce"):
        assert welfare[name, "max_welfare"] >= welfare[name, "max_entropy"] - 1e-7
        assert entropy[name, "max_entropy"] >= entropy[name, "max_welfare"] - 1e-6
    assert welfare["cce", "max_welfare"] >= welfare["ce", "max_welfare"] - 1e-7  # every CE is a CCE
    assert entropy["cce", "max_entropy"] >= entropy["ce", "max_entropy"] - 1e-6


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 2, 5), (3, 2, 3, 4)])
def test_prd_and_regret_matching_as_openspiel(shape):
    payoffs = from_loss_to_win(drawn(*shape, seed=3))
    tables = list(payoffs.numpy())
    for mine, theirs in (
        (solve("prd", payoffs, iterations=400, dt=0.05, gamma=0.02),
         projected_replicator_dynamics(tables, prd_iterations=400, prd_dt=0.05, prd_gamma=0.02)),
        (solve("replicator", payoffs, iterations=400, dt=0.05),
         projected_replicator_dynamics(tables, prd_iterations=400, prd_dt=0.05, prd_gamma=0.0)),
        (solve("regret_matching", payoffs, iterations=200, gamma=0.01),
         regret_matching(tables, iterations=200, gamma=0.01)),
    ):  # fmt: skip
        for marginal, expected in zip(mine.marginals, theirs, strict=True):
            close(marginal, expected, atol=1e-7)


def test_constants_are_openspiels():
    payoffs = from_loss_to_win(BIASED)
    tables = list(payoffs.numpy())
    for name, theirs in (("prd", projected_replicator_dynamics), ("regret_matching", regret_matching)):
        key = "prd_iterations" if name == "prd" else "iterations"
        close(solve(name, payoffs, iterations=2000).marginals[0], theirs(tables, **{key: 2000})[0], atol=1e-8)
    mine = inspect.signature(SOLVERS["prd"]).parameters
    theirs = inspect.signature(projected_replicator_dynamics).parameters
    for key in ("iterations", "dt", "gamma"):
        assert mine[key].default == theirs[f"prd_{key}"].default


def test_dominated_policies_are_not_played():
    payoffs = drawn(2, 3, 3, seed=8)
    payoffs[0, 2] = payoffs[0, :2].min(0).values - 0.5
    for name in ("fictitious_play", "ce", "alpharank"):
        assert float(solve(name, payoffs, **QUICK.get(name, {})).marginals[0][2]) < 1e-6
    mixed = zero_sum([[3.0, 0], [0, 3], [1, 1]])  # the last is worse than the mix of the others
    for name in ("nash", "max_entropy_nash", "ce"):
        close(solve(name, mixed).marginals[0], [0.5, 0.5, 0])


def test_ties_of_fictitious_play_go_to_the_lowest():
    close(solve("fictitious_play", torch.zeros(2, 3, 2), iterations=10).marginals[0], [1, 0, 0])


def test_weights_after_one_step():
    rate = np.sqrt(8 * np.log(2) / 2)
    second = 1 / (1 + np.exp(-rate))
    marginal = solve("multiplicative_weights", torch.tensor([[0.0, 5.0]]), iterations=2).marginals[0]
    close(marginal, [(0.5 + 1 - second) / 2, (0.5 + second) / 2], atol=1e-12)


def test_weights_do_not_depend_on_the_unit():
    small, large = (solve("multiplicative_weights", BIASED * unit, iterations=100) for unit in (1.0, 1000.0))
    close(small.marginals[0], large.marginals[0].numpy(), atol=1e-9)
    for iterations in (100, 1000):  # Freund and Schapire's bound of both seats' regret, range 4
        strategy = solve("multiplicative_weights", BIASED, iterations=iterations)
        assert nash_gap(BIASED, strategy) < 2 * 4 * (np.log(3) / 2 / iterations) ** 0.5


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 1, 3)])
def test_one_policy(name, shape):
    strategy = solve(name, zero_sum(torch.arange(shape[2]).reshape(1, -1)), **QUICK.get(name, {}))
    assert [len(marginal) for marginal in strategy.marginals] == list(shape[1:])
    for marginal in strategy.marginals:
        assert marginal.dtype == torch.float64
        assert float(marginal.sum()) == pytest.approx(1)
        assert float(marginal.min()) >= 0
    close(strategy.distribution().sum((1,)), [1], atol=1e-9)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("nash", "max_entropy_nash")])
def test_one_and_three_seats(name):
    for payoffs in (torch.tensor([[1.0, 3, 2]]), drawn(3, 2, 3, 4)):
        strategy = solve(name, payoffs, **QUICK.get(name, {}))
        assert [len(marginal) for marginal in strategy.marginals] == list(payoffs.shape[1:])
        if payoffs.dim() == 2 and name != "uniform":
            assert float(strategy.marginals[0][1]) > 0.9


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_do_not_change_payoffs(name):
    payoffs = BIASED.clone()
    solve(name, payoffs, **QUICK.get(name, {}))
    assert torch.equal(payoffs, BIASED)


@pytest.mark.parametrize("name", SOLVERS)
def test_refused_payoffs(name):
    broken = RPS.clone()
    broken[0, 1, 2] = float("nan")
    with pytest.raises(ConfigError, match="got 1 of 18 NaN or infinite"):
        solve(name, broken)
    for shape in ((3, 2, 2), (3, 3), (2,), (1, 2, 2)):
        with pytest.raises(ConfigError, match="one axis of seats and then one per seat"):
            solve(name, torch.zeros(shape))
    with pytest.raises(ConfigError, match="at least one policy per seat"):
        solve(name, torch.zeros(2, 0, 3))


@pytest.mark.parametrize("name", ["nash", "max_entropy_nash"])
def test_refused_games(name):
    with pytest.raises(ConfigError, match=f"{name}: expected two seats, got 3"):
        solve(name, torch.zeros(3, 2, 2, 2))
    with pytest.raises(ConfigError, match=f"{name}: expected a zero-sum game, but .* varies by 4"):
        solve(name, PRISONERS)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nahs", {}, "no meta-solver named 'nahs'; did you mean nash"),
        ("zzz", {}, "expected one of uniform, "),
        ("nash", {"alpha": 1}, "nash: no setting 'alpha'; it takes none"),
        ("prd", {"gama": 1}, "it takes iterations, dt, gamma"),
        ("prd", {"gamma": 0.4}, r"gamma: expected a number in .0, 1 / 3 policies., got 0.4"),
        ("prd", {"dt": 0.0}, "dt: expected a number above 0, got 0.0"),
        ("regret_matching", {"gamma": 2.0}, "gamma: expected a number in .0, 1., got 2.0"),
        ("fictitious_play", {"iterations": 0}, "iterations: expected a number above 0, got 0"),
        ("multiplicative_weights", {"rate": -1.0}, "rate: expected a number above 0, got -1.0"),
        ("alpharank", {"alpha": -1.0}, "alpha: expected a number above 0, got -1.0"),
        ("alpharank", {"alpha": 1.0, "m": 1}, "m: expected a population of at least 2, got 1"),
        ("alpharank", {"epsilon": 0.7}, "epsilon: expected a number in .0, 0.5. without alpha, got 0.7"),
        ("ce", {"objective": "best"}, "ce: objective: expected max_entropy or max_welfare, got 'best'"),
    ],
)
def test_refused_settings(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        solve(name, RPS, **settings)


def test_refused_symmetry():
    with pytest.raises(ConfigError, match="payoffs to be the first's transposed"):
        solve("alpharank", drawn(2, 3, 3), symmetric=True)
    with pytest.raises(ConfigError, match="expected payoffs \\(2, N, N\\)"):
        solve("alpharank", drawn(2, 3, 4), symmetric=True)


def game(*roles):
    return Game("Toy-v0", tuple(Seat(f"seat_{i}", role, (f"a_{i}",)) for i, role in enumerate(roles)))


def test_marginals_by_role():
    strategy = MetaStrategy((torch.tensor([1.0, 0]), torch.tensor([0.0, 1]), torch.tensor([0.2, 0.3, 0.5])))
    roles = game("a", "a", "b").marginals_by_role(strategy.marginals)
    close(roles["a"], [0.5, 0.5])
    close(roles["b"], [0.2, 0.3, 0.5])
    with pytest.raises(ConfigError, match=r"role a: expected one number of policies for all seats, got \[2, 3\]"):
        game("a", "b", "a").marginals_by_role(strategy.marginals)
    with pytest.raises(ConfigError, match="for 2 seats, got 3"):
        game("a", "b").marginals_by_role(strategy.marginals)
    assert product(strategy.marginals).shape == (2, 2, 3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOLVERS)
def test_on_a_device(name):
    settings = {**QUICK.get(name, {}), "iterations": 300} if name in QUICK else {}
    expected = solve(name, BIASED, **settings)
    strategy = solve(name, BIASED.cuda(), **settings)
    for marginal, weights in zip(strategy.marginals, expected.marginals, strict=True):
        assert marginal.is_cuda
        close(marginal.cpu(), weights.numpy(), atol=1e-6)


@pytest.mark.parametrize("count", [3, 5, 6, 7, 8, 12, 24])
def test_greatest_entropy_takes_rounded_payoffs(count):
    """A ring of points on a disc, whose payoffs were float32: all are played alike."""
    angle = torch.arange(count) * 2 * torch.pi / count
    table = torch.sin(angle[None] - angle[:, None]).double()
    strategy = solve("max_entropy_nash", torch.stack([table, -table]))
    for marginal in strategy.marginals:
        assert (marginal - 1 / count).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["prd", "replicator"])
@pytest.mark.parametrize(("scale", "shift"), [(1e-4, 0.0), (1e-8, 0.0), (1e6, 0.0), (1.0, -20.0), (1e-4, 3.0)])
def test_unit_of_payoffs_does_not_change_replicator_dynamics(name, scale, shift):
    """Small payoffs left play at its start, and large ones gave long steps; the unit of one seat is its own matter."""
    payoffs = torch.tensor([[[1.0, -1.0], [-2.0, 0.0]], [[-1.0, 1.0], [1.0, -1.0]]], dtype=torch.float64)
    expected = solve(name, payoffs, iterations=2_000).marginals
    assert (expected[0] - 0.5).abs().max() > 0.03  # play has left the start
    of_one_seat = torch.stack([payoffs[0], scale * payoffs[1] + shift])
    for changed in (scale * payoffs + shift, of_one_seat):
        for ours, theirs in zip(solve(name, changed, iterations=2_000).marginals, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["prd", "replicator"])
def test_replicator_dynamics_ignore_rounding_errors_of_equal_payoffs(name):
    payoffs = 100.0 + torch.tensor([[[0.0, 1e-14]], [[1e-14, 0.0]]], dtype=torch.float64)
    assert payoffs.unique().numel() > 1
    for marginal in solve(name, payoffs, iterations=2_000).marginals:
        close(marginal, [1 / len(marginal)] * len(marginal), atol=1e-3)


@pytest.mark.parametrize("name", ["prd", "replicator"])
@pytest.mark.parametrize("value", [0.0, 1e-310, 5.0])
def test_replicator_dynamics_of_equal_payoffs_are_uniform(name, value):
    """All are 0, as for untrained policies in a game with rare rewards."""
    for marginal in solve(name, torch.full((2, 2, 3), value, dtype=torch.float64), iterations=10).marginals:
        close(marginal, [1 / len(marginal)] * len(marginal))


@pytest.mark.parametrize("name", ["prd", "replicator"])
def test_replicator_dynamics_take_the_largest_payoffs(name):
    payoffs = torch.tensor([[[1.0, 1.0], [-1.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    expected, largest = (solve(name, scale * payoffs, iterations=100).marginals for scale in (1.0, 1.7e308))
    assert expected[0][0] > 0.5
    close(torch.cat(largest), torch.cat(expected))


@pytest.mark.parametrize("name", ["prd", "replicator"])
def test_replicator_dynamics_take_long_steps(name):
    """Shares stay in the simplex."""
    for marginal in solve(name, BIASED, iterations=2_000, dt=1e3).marginals:
        assert float(marginal.min()) >= 0
        assert float(marginal.sum()) == pytest.approx(1)
