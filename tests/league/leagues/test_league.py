"""Tests of the league loop: matches, learning, and the effects of freezing, resetting and copying."""

from dataclasses import replace

import pytest
import torch
from scipy import stats
from small_league import RPS, builder, equal, league, of_policy, train, trained, training, weights

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.leagues import builder_validation
from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder, FreezeRules
from league.leagues.builder import NoLeagueBuilder
from league.leagues.league import League, balanced_draw_margin
from league.matchups.matchup_distribution import LEARNER
from league.matchups.matchups import simulate_matchups
from league.storage.run_store import RunStore

KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 10})


# ---------------------------------------------------------------- matches


@pytest.mark.parametrize(
    ("game", "worlds"),
    [
        (RPS, 1_000),
        pytest.param(RPS, 12_500, marks=pytest.mark.slow),
        pytest.param(KUHN, 12_500, marks=pytest.mark.slow),
    ],
)
def test_sampled_matches_follow_the_rules_in_both_seats(game, worlds, tmp_path):
    """Sample 100,000 matches of every player and iteration, 8,000 in the quick suite."""
    running = league(
        tmp_path, game=game, iterations=3, steps=8 * worlds, num_envs=worlds, **{"learner.rollout_length": 8}
    )
    tallies, write = {}, running._commit_training
    running._commit_training = lambda number, group, result: (
        tallies.update(dict.fromkeys(group, result["tally"])) or write(number, group, result)
    )
    running.begin()
    earlier = {name: set() for name in running.state.roster.learning()}
    for number in range(1, 4):
        roster = running.state.roster
        rules = {
            name: {m.opponent: m.probability for m in running.builder.matches(roster, player, *roster.facing(player))}
            for name, player in roster.players.items()
            if player.parent is None
        }
        running.iterate(number)
        for name, expected in rules.items():
            result = trained(tmp_path)[f"{number}/train/{name}"]["matches"]
            counts = {opponent: count for opponent, _, _, count in result if count}
            total = sum(counts.values())
            assert total >= (8 if game is RPS else 1.6) * worlds  # pairs share their worlds
            assert counts.keys() == {opponent for opponent, share in expected.items() if share}
            shares = [total * expected[opponent] for opponent in counts]
            assert len(counts) == 1 or stats.chisquare(list(counts.values()), shares).pvalue > 1e-4
            ended = {opponent for opponent, count, *_ in result if count}
            assert ended <= counts.keys() | earlier[name]  # or opponents at the end of the last iteration
            earlier[name] = set(counts)
            if game is RPS:
                _both_seats_alike(tallies[name])
            else:
                seat = 0 if "player_0" in name else 1
                assert bool((tallies[name].matchups[tallies[name].learns[:, seat], seat] == LEARNER).all())
    assert len(running.state.roster.frozen()) > 3
    running.store.close()


def _both_seats_alike(tally) -> None:
    counts = {tuple(row): n for row, n in zip(tally.matchups.tolist(), tally.started.tolist(), strict=True) if n}
    for (first, second), count in counts.items():
        if first == second == LEARNER:
            continue
        assert LEARNER in (first, second)
        assert stats.binomtest(count, count + counts[second, first]).pvalue > 1e-5


def test_only_the_player_of_a_match_learns_from_it(tmp_path):
    running = league(tmp_path, builder("alphastar", shared_worlds=False), game=KUHN, iterations=2, num_envs=8)
    running.begin()
    running.iterate(1)
    for number, name in ((2, name) for name in running.state.roster.learning()):
        previous = {role: [weights(p) for p in pool[1:]] for role, pool in running.state.pools().items()}
        opponents = [n for n in running.state.roster.learning() if n != name]
        nets = {
            n: {k: v.clone() for k, v in running.state.trained_weights(n).items() if k != "spec"} for n in opponents
        }
        train(running, number, name)
        for role, pool in running.state.pools().items():
            assert all(equal(weights(p), b) for p, b in zip(pool[1:], previous[role], strict=True))
        assert all(equal(running.state.trained_weights(other), net) for other, net in nets.items())
        assert not equal(of_policy(running.state.trained_weights(name)), weights(running.state.live[name]))
        assert list(training(running, name).learners.assignments) == [running.state.roster.players[name].role]
    running.store.close()


def test_player_learns_in_both_seats_only_against_itself(tmp_path):
    running = league(tmp_path, iterations=1, num_envs=64)
    running.begin()
    running.run()
    draw = builder_validation.matchup_distribution(running.builder, running.state, ("main_0",))
    self_play = (draw.matchups == LEARNER).all(1)
    assert self_play.any()
    assert bool((draw.learns.sum(1) == 1 + self_play.long()).all())
    alone = training(running, "main_0")
    alone.opponents.replace(draw, running.state.pools())
    for _ in range(3):
        alone.collector.collect()
        rollout, assigned = alone.learner("player").rollout, alone.opponents.assigned
        learns = alone.opponents.learns.sum(1)
        assert torch.equal(learns == 2, (assigned == LEARNER).all(1))
        assert set(rollout.valid.flatten(0, -2).sum(-1).tolist()) == {1, 2}
        alone.learners.update(1, str)
    running.store.close()


def test_learning_opponents_keep_their_weights_during_an_iteration(tmp_path):
    running = league(tmp_path, game=KUHN, rules=NoLeagueBuilder(), iterations=2)
    running.begin()
    running.iterate(1)
    first, second = running.state.roster.learning()
    began = weights(running.state.live[first])
    train(running, 2, first)
    assert not equal(of_policy(running.state.trained_weights(first)), began)
    running.store.close()
    running = league(tmp_path, game=KUHN, rules=NoLeagueBuilder(), iterations=2)
    (met,) = running.state.pools()["player_0"][1:]
    assert equal(weights(met), began)
    running.iterate(2)
    pool = training(running, second).opponents.pools["player_0"]
    assert equal(weights(pool[1]), began)
    assert not equal(weights(running.state.live[first]), began)
    running.store.close()


# ---------------------------------------------------------------- stored results


def test_every_iteration_counts_matches_by_pair_and_role(tmp_path):
    reports = []
    running = league(tmp_path, game=KUHN, iterations=2, num_envs=8)
    running.progress = lambda steps, text: reports.append((steps, text))
    rows = running.run()
    for row in rows:
        assert row["matches_by_role"].keys() == {"player_0", "player_1"}
    for row in rows[1:]:
        for name, met in row["matches"].items():
            assert sum(met.values()) == row["episodes"][name] > 0
        assert sum(row["matches_by_role"].values()) == sum(row["matches_by_kind"].values()) > 0
        assert row["win_rates"].keys() == row["matches"].keys()
    names = [name for row in rows[1:] for name in row["matches"]]
    assert [part.split(":")[0] for _, text in reports for part in text.split("  ") if ": return" in part] == names
    assert [steps for steps, _ in reports] == [32 * (i + 1) for i in range(len(reports))]
    running.store.close()


@pytest.mark.slow
def test_draw_margin_of_asymmetric_game_is_measured_once_at_start(tmp_path):
    running = league(tmp_path, game=TAG, rules=NoLeagueBuilder(), iterations=1, episodes=400)
    running.begin()
    adversary, agent = running.state.roster.learning()
    assert running.state.draw_margin == running.store.get("draw_margin") == running.store.iterations()[0]["draw_margin"]
    plain, margin = (
        simulate_matchups(
            running.state.pools(), game=TAG, matchups=[[1, 1]], episodes=4000, seed=5, draw_margin=margin
        ).score[0, 0]
        / 4000
        for margin in (0.0, running.state.draw_margin)
    )
    assert abs(float(plain) - 0.5) > 0.1, "sides that are unlike"
    assert abs(float(margin) - 0.5) < 0.06, "of equal strength"
    train(running, 1, agent)
    assert training(running, agent).opponents.draw_margin == running.state.draw_margin
    running.store.close()
    reopened = league(tmp_path, game=TAG, rules=NoLeagueBuilder(), iterations=1, episodes=400)
    assert reopened.state.draw_margin == running.state.draw_margin
    reopened.run()
    assert adversary in reopened.state.live
    table = reopened.evaluate()  # with the same draw margin
    rows = (
        simulate_matchups(
            reopened.populations,
            game=TAG,
            matchups=[[0, 0]],
            episodes=400,
            seed=6,
            draw_margin=reopened.state.draw_margin,
        ).score[0, 0]
        / 400
    )
    plain = simulate_matchups(reopened.populations, game=TAG, matchups=[[0, 0]], episodes=400, seed=6).score[0, 0] / 400
    assert abs(float(table.win_rate()[0, 0]) - float(rows)) < 0.12
    assert abs(float(plain) - float(rows)) > 0.15
    reopened.store.close()
    for game, margin in ((RPS, 0.0), (KUHN, 0.0)):
        other = league(tmp_path / game.env_id, game=game, rules=NoLeagueBuilder())
        other.begin()
        assert other.state.draw_margin == margin
        other.store.close()


@pytest.mark.slow
def test_draw_margin_is_measured_again_in_every_iteration(tmp_path):
    running = league(tmp_path, game=TAG, rules=NoLeagueBuilder(), iterations=2, steps=400, episodes=400)
    running.begin()
    adversary, agent = running.state.roster.learning()
    running.iterate(1)
    train(running, 2, agent)
    margin = running.store.result("2/even")["draw_margin"]
    assert margin == training(running, agent).opponents.draw_margin != running.state.draw_margin
    matchups = [
        [running.state.members(role).index(name) for role, name in zip(TAG.roles, (adversary, agent), strict=True)]
    ]
    won = (
        simulate_matchups(
            running.state.pools(), game=TAG, matchups=matchups, episodes=4000, seed=5, draw_margin=margin
        ).score[0, 0]
        / 4000
    )
    assert abs(float(won) - 0.5) < 0.06, "of equal strength as they are now"
    running.store.close()
    reopened = league(tmp_path, game=TAG, rules=NoLeagueBuilder(), iterations=2, steps=400, episodes=400)
    reopened.run()
    assert [row["draw_margin"] for row in reopened.store.iterations().values()] == [
        *2 * [reopened.state.draw_margin],
        margin,
    ]
    reopened.store.close()


@pytest.mark.parametrize(
    ("difference", "lower", "upper"),
    [
        ([0.0, 1.0, 100.0], 1.0, 1.0),
        ([-5.0, 5.0], -5.0 + 1e-9, 5.0 - 1e-9),
        ([0.0] * 6 + [1.0] * 5, 1e-9, 1 - 1e-9),  # with the median, 0, the first seat would win 0.73
        ([2.0], 2.0, 2.0),
    ],
)
def test_balanced_draw_margin_gives_both_seats_equal_wins(difference, lower, upper):
    assert lower <= balanced_draw_margin(torch.tensor(difference)) <= upper


@pytest.mark.parametrize(
    ("game", "rules"),
    [
        (KUHN, "pbt"),
        (KUHN, "pfsp"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(KUHN, "alphastar"), (TAG, "alphastar"), (TAG, "pbt"), (TAG, "pfsp")]
        ),
    ],
)
def test_league_of_two_roles_completes(game, rules, tmp_path):
    running = league(tmp_path, rules, game=game, iterations=2)
    rows = running.run()
    table = running.evaluate()
    assert bool(table.mean.isfinite().all())
    assert min(table.shape) >= 2
    for name, met in rows[2]["matches"].items():
        facing = running.state.roster.facing(running.state.roster.players[name])
        assert {running.state.roster.players[opponent].role for opponent in met} <= set(facing)
    running.store.close()


def test_iteration_without_completed_episodes_has_no_return(tmp_path):
    running = league(tmp_path, NoLeagueBuilder(), game=TAG, iterations=1, steps=4, episodes=2)
    running.begin()
    running.iterate(1)
    row = running.store.iterations()[1]
    assert set(row["return"].values()) == set(row["score"].values()) == {None}
    assert "NaN" not in (tmp_path / "summary.json").read_text()
    running.store.close()


def test_game_of_one_seat_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected two or more seats, got 1; divide its agents with --roles"):
        league(tmp_path, game=Game.of("SimpleSpread-v0", roles={"all": ("agent",)}))


def test_run_opened_for_reading_cannot_be_resumed(tmp_path):
    running = league(tmp_path, "latest", iterations=1)
    running.begin()
    running.store.close()
    with RunStore.open(tmp_path, write=False) as store:
        reading = League(store, running.config, builder("latest"))
        with pytest.raises(GpuEnvsError, match="opened for reading"):
            reading.run()


def test_groups_train_for_their_share_of_the_steps(tmp_path):
    rules = FreezeRules(share_of_steps=0.25)
    config = AlphaStarConfig(main_exploiter=rules, league_exploiter=replace(rules, share_of_steps=0.5))
    running = league(tmp_path, AlphaStarLeagueBuilder(config), iterations=1, steps=128)
    with running.store:
        running.run()
    steps = {name.split("/")[-1]: result["steps"] for name, result in trained(tmp_path).items()}
    assert steps == {"main_0": 128, "main_exploiter_0": 32, "league_exploiter_0": 64}
    assert running.steps == 224


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan"), float("inf")])
def test_invalid_share_of_steps_is_refused(share, tmp_path):
    class Idle(NoLeagueBuilder):
        def share_of_steps(self, roster, group):
            return share

    running = league(tmp_path, Idle(), iterations=1)
    with running.store, pytest.raises(ConfigError, match=r"Idle\.share_of_steps: \('main_0',\): expected a number > 0"):
        running.run()
