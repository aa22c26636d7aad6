"""PSRO's variants: whom they respond to, what they add, and how they get on."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from psro_runs import EXACT, QUICK, RPS, TINY, contents, play, psro, pure

from league import solvers
from league.evaluation.nash_conv import strategy_from_summary
from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.matchups import best_response
from league.matchups.best_response import BestResponseTraining
from league.policies.mixture import MixturePolicy
from league.psro.config import PSROConfig
from league.psro.variants import extensive_form, least_exploitable
from league.psro.variants.extensive_form import ExtensiveFormVariant
from league.psro.variants.self_play import SelfPlayVariant
from league.psro.variants.standard import RectifiedVariant
from league.solvers import MetaStrategy
from league.solvers.nash import minimax
from league.storage.run_store import RunStore
from trainers.algorithms.on_policy.ppo import PPO


def nash_convs(rows):
    return [row["nash_conv"] for row in rows]


# ---------------------------------------------------------------- rectified


def test_responses_are_rectified_where_policies_do_not_lose():
    wins = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], dtype=torch.float64)
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    opponents, meta_game = MetaStrategy((third, third)), torch.stack([wins, wins.T])
    context: Any = SimpleNamespace(iteration=1, opponents=opponents, meta_game=lambda: meta_game)
    tasks = RectifiedVariant(RPS, PSROConfig(variant="rectified")).tasks(context)
    assert [task.name for task in tasks] == [f"1/respond/player/{index}" for index in range(3)]
    assert [task.parent for task in tasks] == [0, 1, 2]
    for task, loses_to in zip(tasks, (1, 2, 0), strict=True):
        first, second = task.opponents.marginals
        assert first.tolist() == second.tolist()  # for a learner in either seat
        assert [weight == 0 for weight in first.tolist()] == [at == loses_to for at in range(3)]


@pytest.mark.parametrize("game", [RPS, Game.of("KuhnPoker-v0", shared=True)], ids=["rps", "kuhn"])
def test_rectified_psro_improves(game, tmp_path):
    rows = play(tmp_path, game, iterations=6, variant="rectified", **EXACT)
    assert rows[-1]["policies"]["player"] > 6
    assert rows[-1]["best_nash_conv"] < 0.2
    with RunStore.open(tmp_path, write=False) as store:
        assert any(task.endswith("/respond/player/1") for task in store.tasks())  # of two policies that were met


# ---------------------------------------------------------------- anytime


@pytest.mark.variations
@pytest.mark.parametrize("shared", [False, True])
def test_exact_anytime_never_gets_worse(shared, tmp_path):
    values = nash_convs(
        play(tmp_path / "a", Game.of("KuhnPoker-v0", shared=shared), iterations=12, variant="anytime", **EXACT)
    )
    for previous, now in pairwise(values):
        assert now <= previous + 1e-9
    plain = nash_convs(play(tmp_path / "b", Game.of("KuhnPoker-v0", shared=shared), iterations=12, **EXACT))
    assert any(now > previous for previous, now in pairwise(plain))
    assert values[12] < 1e-6 or shared
    assert values[12] < 0.06


def test_exact_anytime_is_least_exploitable(tmp_path):
    run = psro(tmp_path, iterations=3, variant="anytime", **EXACT)
    with run.store:
        rows, small = run.run(), run.tabular
        assert small is not None
        marginals = strategy_from_summary(rows[3]).marginals
        generator = torch.Generator().manual_seed(0)
        for _ in range(200):
            noise = torch.rand(2, 4, generator=generator, dtype=torch.float64) * 0.1
            other = [marginal + more for marginal, more in zip(marginals, noise, strict=True)]
            other = tuple(marginal / marginal.sum() for marginal in other)
            assert small.nash_conv(run.populations, other) >= rows[3]["nash_conv"] - 1e-9


def test_least_exploitable_mixture_allows_for_the_tolerance_of_the_linear_program(tmp_path, monkeypatch):
    """A value that is slightly too low would let the same response look better for ever."""
    expected = nash_convs(play(tmp_path / "a", iterations=2, variant="anytime", **EXACT))

    def rounded(table):
        first, second, value = minimax(table)
        return first, second, value + 1e-8

    monkeypatch.setattr(least_exploitable, "minimax", rounded)
    monkeypatch.setattr(least_exploitable, "LARGEST_STEPS", 100)
    assert nash_convs(play(tmp_path / "b", iterations=2, variant="anytime", **EXACT)) == pytest.approx(
        expected, abs=1e-7
    )


@pytest.mark.slow
def test_learned_anytime_samples_beaten_opponents_less_often(tmp_path):
    train = {**TINY, "total_steps": 4096, "learner.learning_rate": 0.01}
    run = psro(tmp_path, RPS, iterations=1, variant="anytime", train_overrides=train, episodes_per_matchup=10)
    with run.store:
        run.iterate(0)
        with run.store.step("more"):  # rock loses to what will be learned, paper hardly ever
            run.store.add_policy("player", pure(0), "table")
        run.payoffs.fill("0/payoffs")
        run.strategy = MetaStrategy((torch.tensor([0.5, 0.5], dtype=torch.float64),) * 2)
        run.iterate(1)
        mixture = run.store.result("1/respond/player/0")["opponents"]
        row = run.store.iterations()[1]
    assert mixture[0] > 0.6 > 0.4 > mixture[1]
    assert sum(mixture) == pytest.approx(1.0)
    assert row["meta_strategy"] == [[*mixture, 0.0]] * 2
    assert row["nash_conv_lower_bound"] >= 0


# ---------------------------------------------------------------- self-play


def test_exact_self_play_adds_mixed_strategies(tmp_path):
    rows = play(tmp_path / "a", iterations=2, variant="self_play", num_segments=50, **EXACT)
    plain = play(tmp_path / "b", iterations=2, **EXACT)
    assert rows[2]["nash_conv"] < plain[2]["nash_conv"] / 2
    assert rows[1]["previous_nash_conv_lower_bound"] == pytest.approx(rows[0]["nash_conv"])  # responses are best ones
    with RunStore.open(tmp_path / "a", write=False) as store:
        for pool in store.populations.values():
            mixed = [bool(((policy.table > 0.01) & (policy.table < 0.99)).any()) for policy in pool[1:]]
            assert sorted(mixed) == [False, False, True, True]


def test_exact_self_play_has_the_least_exploitable_mixture_unless_a_meta_solver_is_selected(tmp_path):
    settings = {"iterations": 2, "variant": "self_play", "num_segments": 3, **EXACT}
    leduc = play(tmp_path / "a", "LeducPoker-v0", **settings)
    chosen = play(tmp_path / "b", "LeducPoker-v0", meta_solver="nash", **settings)
    for previous, row in pairwise(leduc):
        assert row["nash_conv"] <= previous["nash_conv"] + 1e-9
    assert any(row["nash_conv"] > previous["nash_conv"] for previous, row in pairwise(chosen))
    assert chosen[2]["nash_conv_lower_bound"] == pytest.approx(0.0, abs=1e-9)  # Nash of the meta-game
    three = SelfPlayVariant(Game.of("KuhnPoker-v0", {"num_players": 3}), PSROConfig(**settings))
    assert three.least_exploitable is None  # there the meta-solver decides


@pytest.mark.slow
@pytest.mark.parametrize("game", [RPS, Game.of("KuhnPoker-v0", {"num_players": 3})], ids=["rps", "kuhn of three"])
def test_learned_self_play_adds_averages(game, tmp_path):
    rows = play(tmp_path, game, iterations=1, variant="self_play", **QUICK)
    with RunStore.open(tmp_path, write=False) as store:
        for role, pool in store.populations.items():
            assert rows[1]["policies"][role] == 3
            assert sorted(policy.kind for policy in pool.entries) == ["mixture", "policy", "random"]
            mixture = next(policy for policy in pool if isinstance(policy, MixturePolicy))
            assert len(mixture.members) == QUICK["num_segments"]
    assert rows[1]["nash_conv"] is not None


# ---------------------------------------------------------------- xdo


def test_xdo_solves_kuhn_where_psro_does_not(tmp_path):
    rows = play(tmp_path / "a", iterations=3, variant="xdo", **EXACT)
    assert rows[3]["nash_conv"] < 0.002
    assert rows[3]["value"] == pytest.approx([-1 / 18, 1 / 18], abs=1e-3)
    assert play(tmp_path / "b", iterations=3, **EXACT)[3]["nash_conv"] > 0.1
    for row, previous in zip(rows[1:], rows, strict=False):  # the policies that join are best responses
        assert row["previous_nash_conv_lower_bound"] == pytest.approx(previous["nash_conv"], abs=1e-9)
        assert [weights[-1] for weights in row["meta_strategy"]] == [1.0, 1.0]


@pytest.mark.slow
def test_xdo_solves_leduc_in_6_iterations_and_is_ahead_of_20_of_psro_after_4(tmp_path):
    values = nash_convs(play(tmp_path / "a", "LeducPoker-v0", iterations=6, variant="xdo", **EXACT))
    assert values[6] < 0.01
    assert min(nash_convs(play(tmp_path / "b", "LeducPoker-v0", iterations=20, **EXACT))) > values[4] > 0.1


def test_xdo_chooses_among_the_actions_of_best_responses_at_every_information_set(tmp_path):
    run = psro(tmp_path, iterations=2, variant="xdo", restricted_tolerance=0.01, **EXACT)
    with run.store:
        run.run()
        small = run.tabular
        assert small is not None
        for seat, tables in enumerate(small.tabulate_all(run.populations)):
            _, first, _, second, latest = (table[small.tree.legal[seat]] for table in tables)
            assert set(first.tolist()) | set(second.tolist()) == {0.0, 1.0}
            assert not latest[(first == 0) & (second == 0)].any()
        restricted = run.store.result("2/restricted")
        assert sum(restricted["choices"]) < sum(int(legal.sum()) for legal in small.tree.legal)
        assert restricted["nash_conv"] <= 0.01


def test_xdo_mixes_at_information_sets_what_psro_cannot_mix(tmp_path):
    """An equilibrium of the restricted game may combine actions of several responses, so it can be less exploitable."""
    run = psro(tmp_path, iterations=3, variant="xdo", **EXACT)
    with run.store:
        rows, small = run.run(), run.tabular
        assert small is not None
        responses = {role: [pool[1], pool[3], pool[5]] for role, pool in run.populations.items()}
        mixed = solvers.solve("nash", small.tree.payoffs(TabularGame(small.tree).tabulate_all(responses)))
        assert TabularGame(small.tree).nash_conv(responses, mixed.marginals) > rows[3]["nash_conv"] + 0.1


@pytest.mark.parametrize("shared", [False, True])
def test_resumed_xdo_equals_an_uninterrupted_run(shared, tmp_path):
    game = Game.of("KuhnPoker-v0", shared=shared)
    expected = play(tmp_path / "whole", game, iterations=4, variant="xdo", **EXACT)
    play(tmp_path / "parts", game, iterations=2, variant="xdo", **EXACT)
    play(tmp_path / "parts", game, iterations=4, variant="xdo", **EXACT)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert expected[4]["nash_conv"] < 0.002


def test_interrupted_xdo_does_not_solve_the_restricted_game_again(tmp_path, monkeypatch):
    settings = {"iterations": 2, "variant": "xdo", **EXACT}
    play(tmp_path / "whole", **settings)
    with monkeypatch.context() as patch:
        patch.setattr(ExtensiveFormVariant, "meta_strategy", _interrupt_second_iteration)
        with pytest.raises(KeyboardInterrupt):
            play(tmp_path / "parts", **settings)
    monkeypatch.setattr(extensive_form, "solve_restricted_game", None)  # both are in the store
    play(tmp_path / "parts", **settings)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def _interrupt_second_iteration(self, context, payoffs):
    if context.iteration == 2:
        raise KeyboardInterrupt
    return MetaStrategy(tuple(torch.eye(size, dtype=torch.float64)[-1] for size in payoffs.shape[1:]))


# ---------------------------------------------------------------- pipeline


@pytest.mark.slow
def test_pipeline_trains_all_levels_and_fixes_the_lowest(tmp_path):
    settings = {**QUICK, "variant": "pipeline", "pipeline_depth": 3, "num_segments": 2}
    play(tmp_path, iterations=2, **settings)
    with RunStore.open(tmp_path, write=False) as store:
        parts = [name for name in store.tasks() if "/part/" in name]
        assert len(parts) == 2 * 2 * 2 * 3  # iterations, parts, roles, levels
        assert store.state("pipeline.player_0.2") is None  # fixed
        assert store.state("pipeline.player_0.3") is not None
        assert store.state("pipeline.player_0.4") is not None
        met = store.result("1/plan/1")["met"]
        assert [len(level[0]) for level in met] == [1, 2, 3]
        assert [len(level[0]) for level in store.result("2/plan/0")["met"]] == [2, 3, 4]
        # who came in on the third level learned 2 parts on each of the two it was on so far, on the second level too
        assert store.result("2/part/1/player_0/3")["steps"] == 2 * store.result("1/part/1/player_0/3")["steps"]
        assert all(entry.iteration == entry.index for entry in store.populations["player_0"].entries)


def test_plateau_ends_training_of_a_level(tmp_path):
    settings = {**QUICK, "variant": "pipeline", "num_segments": 6, "plateau_tolerance": 100.0}
    play(tmp_path, iterations=1, **settings)
    with RunStore.open(tmp_path, write=False) as store:
        assert store.result("1/plan/1")["lowest"] == ["player_0", "player_1"]
        assert store.result("1/plan/2")["lowest"] == []


def test_pipeline_of_one_level_equals_psro_in_segments(tmp_path):
    rows = play(tmp_path, iterations=2, **{**QUICK, "variant": "pipeline", "pipeline_depth": 1})
    assert rows[2]["policies"] == {"player_0": 3, "player_1": 3}
    assert contents(tmp_path)["iterations"][2]["nash_conv"] == rows[2]["nash_conv"]


@pytest.mark.variations
@pytest.mark.parametrize("variant", ["standard", "anytime", "self_play"])
def test_warm_started_responses_start_with_the_latest_critic(tmp_path, monkeypatch, variant):
    """Otherwise a trained actor would learn from an untrained critic and get worse."""
    iterate, begin_role_from, trainings, starts = BestResponseTraining.iterate, best_response._begin_role_from, [], []

    def learning(self):
        if not any(training is self for training in trainings):
            trainings.append(self)
        return iterate(self)

    def beginning(learner, start, role):
        begin_role_from(learner, start, role)
        starts.append({name: value.clone() for name, value in learner.net.state_dict().items()})

    monkeypatch.setattr(BestResponseTraining, "iterate", learning)
    monkeypatch.setattr(best_response, "_begin_role_from", beginning)
    play(
        tmp_path,
        iterations=2,
        variant=variant,
        response_init="warm_start",
        episodes_per_matchup=10,
        train_overrides=TINY,
    )
    assert len(trainings) == 4
    assert len(starts) == 2  # the first ones start from scratch: there is no earlier response
    for first, weights, role in zip(trainings, starts, Game.of("KuhnPoker-v0").roles, strict=False):
        ended = first.learner(role).net.state_dict()
        assert any(name.startswith("critic.") for name in ended)
        for name, value in ended.items():
            assert torch.equal(weights[name], value), name


def test_resumed_responses_start_with_the_complete_latest_learner(tmp_path, monkeypatch):
    """Its optimizer is kept, and its learning rate falls over the whole run, not within every response."""
    starts = []

    class Watched(PPO):
        def load_state_dict(self, state):
            super().load_state_dict(state)
            starts.append((self.steps, self.total_steps, len(self.optimizer.state)))

    monkeypatch.setattr("trainers.algorithms.on_policy.ppo.PPO", Watched)
    rows = play(tmp_path, iterations=3, response_init="resume", episodes_per_matchup=10, train_overrides=TINY)
    assert len(rows) == 4
    total = TINY["total_steps"]
    expected = [(total, 3 * total)] * 2 + [(2 * total, 3 * total)] * 2
    assert [(steps, all_steps) for steps, all_steps, _ in starts] == expected
    assert all(size for _, _, size in starts)
