"""Tests of the league loop: matches, learning, and the effects of freezing, resetting and copying."""

import inspect
import math
import textwrap

import pytest
import torch
from scipy import stats
from small_league import RPS, STEPS, TINY, builder, league, train, trained, training

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.leagues import builder as league_builder
from league.leagues import builder_validation, player, transitions
from league.leagues.builder import LeagueBuilder, NoLeagueBuilder, learning_opponents, players_per_role, uniform_matches
from league.leagues.draw_margin import balanced_draw_margin
from league.leagues.league import League, LeagueConfig
from league.leagues.league_state import POLICY_KEYS
from league.leagues.player import Match, Player
from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
from league.leagues.train_player import cached_trainings
from league.leagues.transitions import Copy, Enter, Freeze, Reset, Retire
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import LEARNER
from league.rollout.matchups import simulate_matchups
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 10})


def weights(policy) -> dict[str, torch.Tensor]:
    return {f"net.{name}": tensor.clone() for name, tensor in policy.net.state_dict().items()}


def equal(one, other) -> bool:
    one, other = ({k: v for k, v in each.items() if k != "spec"} for each in (one, other))
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def of_policy(state) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state.items() if name.startswith(POLICY_KEYS)}


# ---------------------------------------------------------------- matches


@pytest.mark.parametrize("game", [RPS, KUHN])
def test_sampled_matches_follow_the_rules_in_both_seats(game, tmp_path):
    """Sample 100,000 matches of every player and iteration."""
    worlds = 12_500
    running = league(
        tmp_path, game=game, iterations=3, steps=8 * worlds, num_envs=worlds, **{"learner.rollout_length": 8}
    )
    tallies, write = {}, running._commit_training
    running._commit_training = lambda number, name, found: (
        tallies.update({name: found["tally"]}) or write(number, name, found)
    )
    running.begin()
    earlier = {name: set() for name in running.state.roster.learning()}
    for number in range(1, 4):
        rules = {
            name: {m.opponent: m.probability for m in running.builder.matches(running.state.roster, player)}
            for name, player in running.state.roster.players.items()
            if player.parent is None
        }
        running.iterate(number)
        for name, expected in rules.items():
            found = running.store.result(f"{number}/train/{name}")["matches"]
            begun = {who: count for who, _, _, count in found if count}
            total = sum(begun.values())
            assert total >= (100_000 if game is RPS else 30_000)
            assert begun.keys() == {who for who, share in expected.items() if share}
            shares = [total * expected[who] for who in begun]
            assert len(begun) == 1 or stats.chisquare(list(begun.values()), shares).pvalue > 1e-4
            ended = {who for who, count, *_ in found if count}
            assert ended <= begun.keys() | earlier[name]  # or opponents at the end of the last iteration
            earlier[name] = set(begun)
            if game is RPS:
                _both_seats_alike(tallies[name])
            else:
                own = 0 if "player_0" in name else 1
                assert all(row[own] == LEARNER and row[1 - own] != LEARNER for row in tallies[name].matchups.tolist())
    assert len(running.state.roster.frozen()) > 3
    running.store.close()


def _both_seats_alike(tally) -> None:
    begun = {tuple(row): n for row, n in zip(tally.matchups.tolist(), tally.begun.tolist(), strict=True) if n}
    for (first, second), count in begun.items():
        if first == second == LEARNER:
            continue
        assert LEARNER in (first, second)
        assert stats.binomtest(count, count + begun[second, first]).pvalue > 1e-5


def test_only_the_player_of_a_match_learns_from_it(tmp_path):
    running = league(tmp_path, game=KUHN, iterations=2, num_envs=8)
    running.begin()
    running.iterate(1)
    for number, name in ((2, name) for name in running.state.roster.learning()):
        before = {role: [weights(p) for p in pool[1:]] for role, pool in running.state.pools().items()}
        others = [n for n in running.state.roster.learning() if n != name]
        nets = {n: {k: v.clone() for k, v in running.state.trained_weights(n).items() if k != "spec"} for n in others}
        train(running, number, name)
        for role, pool in running.state.pools().items():
            assert all(equal(weights(p), b) for p, b in zip(pool[1:], before[role], strict=True))
        assert all(equal(running.state.trained_weights(other), net) for other, net in nets.items())
        assert not equal(of_policy(running.state.trained_weights(name)), weights(running.state.live[name]))
        assert list(training(running, name).learners.assignments) == [running.state.roster.players[name].role]
    running.store.close()


def test_player_learns_in_both_seats_only_against_itself(tmp_path):
    running = league(tmp_path, iterations=1, num_envs=64)
    running.begin()
    running.run()
    draw = builder_validation.matchup_distribution(
        running.builder, running.state, running.state.roster.players["main_0"]
    )
    own = (draw.matchups == LEARNER).all(1)
    assert own.any()
    assert bool((draw.learns.sum(1) == 1 + own.long()).all())
    alone = training(running, "main_0")
    alone.seating.replace(draw, running.state.pools())
    for _ in range(3):
        alone.collector.collect()
        rollout, who = alone.learner("player").rollout, alone.seating.who
        learns = alone.seating.learns.sum(1)
        assert torch.equal(learns == 2, (who == LEARNER).all(1))
        assert set(rollout.valid.flatten(0, -2).sum(-1).tolist()) == {1, 2}
        alone.learners.update(1, str)
    running.store.close()


def test_learning_opponents_keep_their_weights_during_an_iteration(tmp_path):
    running = league(tmp_path, game=KUHN, which=NoLeagueBuilder(), iterations=2)
    running.begin()
    running.iterate(1)
    first, second = running.state.roster.learning()
    began = weights(running.state.live[first])
    train(running, 2, first)
    assert not equal(of_policy(running.state.trained_weights(first)), began)
    running.store.close()
    running = league(tmp_path, game=KUHN, which=NoLeagueBuilder(), iterations=2)
    (met,) = running.state.pools()["player_0"][1:]
    assert equal(weights(met), began)
    running.iterate(2)
    seen = training(running, second).seating.pools["player_0"]
    assert equal(weights(seen[1]), began)
    assert not equal(weights(running.state.live[first]), began)
    running.store.close()


# ---------------------------------------------------------------- transitions


class Scripted(NoLeagueBuilder):
    """Builder with given transitions by iteration."""

    def __init__(self, changes, count=2):
        self.changes, self.count = changes, count

    def players(self, game):
        return players_per_role(game, "main", self.count)

    def build_league(self, result):
        return self.changes.get(result.iteration, [])


def looked_at(training):
    learner = training.learner("player")
    net = {f"net.{name}": value.clone() for name, value in learner.net.state_dict().items()}
    return net, dict(learner.optimizer.state), (learner.steps, training.steps)


@pytest.mark.parametrize("changes", [[Freeze("main_0"), Reset("main_0")], [Reset("main_0"), Freeze("main_0")]])
def test_frozen_copy_is_made_before_its_player_is_reset(changes, tmp_path, monkeypatch):
    running = league(tmp_path, Scripted({1: changes}), iterations=9)
    running.begin()
    first = running.store.state("first.main_0")
    assert equal(of_policy(first), weights(running.state.live["main_0"]))
    train(running, 1, "main_0")
    learned = of_policy(running.state.trained_weights("main_0"))
    assert not equal(learned, of_policy(first))
    running.iterate(1)
    copy = running.populations["player"][1]
    assert running.state.roster.frozen() == ["main_0:1"]
    assert equal(weights(copy), learned)
    assert equal(weights(running.state.live["main_0"]), of_policy(first))
    assert (running.state.learning["main_0"].steps, running.state.learning["main_0"].total_steps) == (0, STEPS)
    assert running.state.roster.win_rates.rate("main_0", "main_1") == 0.5  # no games yet
    assert running.store.state("learner.main_0") is None
    begin, seen = BestResponseTraining.__init__, []
    monkeypatch.setattr(
        BestResponseTraining, "__init__", lambda self, *given: begin(self, *given) or seen.append(looked_at(self))
    )
    train(running, 2, "main_0")
    ((net, optimizer, steps),) = seen
    assert equal(net, first)  # with its critic
    assert not optimizer
    assert steps == (0, 0)
    running.store.close()


def test_copy_takes_trained_weights_and_clipped_settings(tmp_path):
    """All copies apply at once: a source that also copies gives its weights from before."""
    factors = {"learning_rate": 1.5, "gamma": 1.5, "gae_lambda": 0.5, "rollout_length": 1.3}
    copies = [Copy("main_0", "main_1", factors), Copy("main_1", "main_0"), Copy("main_2", "main_0", {"gamma": 0.5})]
    running = league(tmp_path, Scripted({1: [*copies, Reset("main_0")], 2: copies[:1]}, 3), iterations=9)
    running.begin()
    names = running.state.roster.learning()
    for name in names:
        train(running, 1, name)
    learned = {name: running.state.trained_weights(name) for name in names}
    running.iterate(1)
    assert equal(running.store.state("live.main_1"), learned["main_0"])
    assert equal(running.store.state("live.main_2"), learned["main_0"])
    assert equal(running.store.state("live.main_0"), running.store.state("first.main_0"))  # the reset is applied last
    found = running.state.learning["main_0"].settings
    assert found == {"learning_rate": pytest.approx(0.075), "gamma": 1.0, "gae_lambda": 0.475, "rollout_length": 5}
    assert running.state.learning["main_2"].settings == {"gamma": running.train.learner.gamma * 0.5}
    running.iterate(2)
    assert training(running, "main_2").config.learner.gamma == running.state.learning["main_2"].settings["gamma"]
    assert equal(running.store.state("live.main_0"), running.state.trained_weights("main_1"))
    again = running.state.learning["main_0"]
    assert again.settings["learning_rate"] == pytest.approx(0.075)  # of the setting of main_1
    assert again.restarts == 3
    running.store.close()


def test_unknown_perturbed_setting_is_refused_at_the_start(tmp_path):
    pbt = PopulationBasedBuilder(PopulationBasedConfig(size=2, perturb={"temperature": 1.2}))
    with pytest.raises(ConfigError, match="temperature: expected a numeric setting of the learner to multiply, one of"):
        league(tmp_path, pbt)


class Openers(LeagueBuilder):
    """Custom builder: one permanent champion, and a newcomer per iteration that leaves after a while."""

    def __init__(self, patience: int = 2 * STEPS) -> None:
        self.patience = patience

    def players(self, game):
        return [Player("champion", role, "champion") for role in game.roles]

    def matches(self, roster, player):
        if player.kind == "champion":
            everybody = [*roster.frozen(roster.facing(player)), *learning_opponents(roster, player, "newcomer")]
            return uniform_matches(everybody or ["champion"])
        return [Match("champion", 1.0)]

    def build_league(self, result):
        changes = [Enter(Player(f"newcomer_{result.iteration}", "player", "newcomer"))]
        for name in result.roster.learning("player", "newcomer"):
            if result.total_steps[name] >= self.patience:
                changes += [Freeze(name), Retire(name)]
        return changes


def test_custom_builder_adds_and_retires_players(tmp_path):
    running = league(tmp_path, Openers(), iterations=4)
    rows = running.run()
    assert rows[1]["changes"] == ["enter newcomer_1"]
    assert rows[3]["changes"] == ["enter newcomer_3", "freeze newcomer_1", "retire newcomer_1"]
    assert running.state.roster.learning() == ["champion", "newcomer_3", "newcomer_4"]
    assert rows[4]["matches"]["champion"].keys() >= {"newcomer_1:1", "newcomer_2", "newcomer_3"}
    assert running.store.state("learner.newcomer_1") is None
    assert not cached_trainings(running.id).keys() & running.state.roster.retired
    begun = trained(tmp_path)["4/train/champion"]["matches"]
    assert {who for who, *_, count in begun if count} == {"newcomer_1:1", "newcomer_2", "newcomer_3"}
    assert rows[4]["matches_by_kind"].keys() == {
        "champion - newcomer",
        "champion - frozen newcomer",
        "newcomer - champion",
    }
    running.store.close()
    again = league(tmp_path, Openers(), iterations=5)
    again.run()
    assert again.state.roster.retired == {f"newcomer_{i}" for i in (1, 2, 3)}
    again.store.close()


def test_builder_example_of_the_documentation_runs(tmp_path, monkeypatch):
    text = inspect.getdoc(LeagueBuilder).split("::\n", 1)[1].replace("100_000", "64").replace("=10)", "=3, **SMALL)")
    names = {
        **vars(league_builder),
        **vars(player),
        **vars(transitions),
        "Path": lambda _: tmp_path,
        "Game": Game,
        "open_run": open_run,
    }
    names |= {
        "League": League,
        "LeagueConfig": LeagueConfig,
        "SMALL": {"steps": STEPS, "episodes_per_matchup": 9, "train_overrides": TINY},
    }
    exec(textwrap.dedent(text), names)
    with RunStore.open(tmp_path, write=False) as store:
        assert {row["players"] for row in store.iterations().values()} == {2, 4, 6, 14}
        assert "newcomer_player_0_1:1" in {entry.name for entry in store.populations["player_0"].entries}


# ---------------------------------------------------------------- stored results


def test_every_iteration_counts_matches_by_pair_and_role(tmp_path):
    told = []
    running = league(tmp_path, game=KUHN, iterations=2, num_envs=8)
    running.progress = lambda steps, text: told.append((steps, text))
    rows = running.run()
    for row in rows:
        assert row["matches_by_role"].keys() == {"player_0", "player_1"}
    for row in rows[1:]:
        for name, met in row["matches"].items():
            assert sum(met.values()) == row["episodes"][name] > 0
        assert sum(row["matches_by_role"].values()) == sum(row["matches_by_kind"].values()) > 0
        assert row["win_rates"].keys() == row["matches"].keys()
    names = [name for row in rows[1:] for name in row["matches"]]
    assert [text.split(":")[0] for _, text in told] == names
    assert [steps for steps, _ in told] == [32 * (i + 1) for i in range(len(told))]
    running.store.close()


def test_draw_margin_of_asymmetric_game_is_measured_once_at_start(tmp_path):
    running = league(tmp_path, game=TAG, which=NoLeagueBuilder(), iterations=1, episodes=400)
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
    assert training(running, agent).seating.draw_margin == running.state.draw_margin
    running.store.close()
    again = league(tmp_path, game=TAG, which=NoLeagueBuilder(), iterations=1, episodes=400)
    assert again.state.draw_margin == running.state.draw_margin
    again.run()
    assert adversary in again.state.live
    table = again.evaluate()  # with the same draw margin
    rows = (
        simulate_matchups(
            again.populations, game=TAG, matchups=[[0, 0]], episodes=400, seed=6, draw_margin=again.state.draw_margin
        ).score[0, 0]
        / 400
    )
    plain = simulate_matchups(again.populations, game=TAG, matchups=[[0, 0]], episodes=400, seed=6).score[0, 0] / 400
    assert abs(float(table.win_rate()[0, 0]) - float(rows)) < 0.12
    assert abs(float(plain) - float(rows)) > 0.15
    again.store.close()
    for game, margin in ((RPS, 0.0), (KUHN, 0.0)):
        other = league(tmp_path / game.env_id, game=game, which=NoLeagueBuilder())
        other.begin()
        assert other.state.draw_margin == margin
        other.store.close()


def test_draw_margin_is_measured_again_in_every_iteration(tmp_path):
    running = league(tmp_path, game=TAG, which=NoLeagueBuilder(), iterations=2, steps=400, episodes=400)
    running.begin()
    adversary, agent = running.state.roster.learning()
    running.iterate(1)
    train(running, 2, agent)
    margin = running.store.result("2/even")["draw_margin"]
    assert margin == training(running, agent).seating.draw_margin != running.state.draw_margin
    who = [[running.state.members(role).index(name) for role, name in zip(TAG.roles, (adversary, agent), strict=True)]]
    won = (
        simulate_matchups(
            running.state.pools(), game=TAG, matchups=who, episodes=4000, seed=5, draw_margin=margin
        ).score[0, 0]
        / 4000
    )
    assert abs(float(won) - 0.5) < 0.06, "of equal strength as they are now"
    running.store.close()
    again = league(tmp_path, game=TAG, which=NoLeagueBuilder(), iterations=2, steps=400, episodes=400)
    again.run()
    assert [row["draw_margin"] for row in again.store.iterations().values()] == [*2 * [again.state.draw_margin], margin]
    again.store.close()


@pytest.mark.parametrize(
    ("difference", "least", "most"),
    [
        ([0.0, 1.0, 100.0], 1.0, 1.0),
        ([-5.0, 5.0], -5.0 + 1e-9, 5.0 - 1e-9),
        ([0.0] * 6 + [1.0] * 5, 1e-9, 1 - 1e-9),  # with the median, 0, the first seat would win 0.73
        ([2.0], 2.0, 2.0),
    ],
)
def test_balanced_draw_margin_gives_both_seats_equal_wins(difference, least, most):
    assert least <= balanced_draw_margin(torch.tensor(difference)) <= most


@pytest.mark.parametrize("which", ["alphastar", "pbt", "pfsp"])
@pytest.mark.parametrize("game", [KUHN, TAG])
def test_league_of_two_roles_completes(game, which, tmp_path):
    running = league(tmp_path, which, game=game, iterations=2)
    rows = running.run()
    table = running.evaluate()
    assert bool(table.mean.isfinite().all())
    assert min(table.shape) >= 2
    for name, met in rows[2]["matches"].items():
        facing = running.state.roster.facing(running.state.roster.players[name])
        assert {running.state.roster.players[who].role for who in met} <= {facing}
    running.store.close()


def test_iteration_without_completed_episodes_has_no_return(tmp_path):
    running = league(tmp_path, NoLeagueBuilder(), game=Game.of("SimpleTag-v0"), iterations=1, steps=4)
    running.begin()
    running.iterate(1)
    row = running.store.iterations()[1]
    assert set(row["return"].values()) == set(row["score"].values()) == {None}
    assert "NaN" not in (tmp_path / "summary.json").read_text()
    running.store.close()


# ---------------------------------------------------------------- invalid builders


class Wrong(NoLeagueBuilder):
    """Builder with the given answers."""

    def __init__(self, players=None, matches=None, changes=None):
        self.given = players, matches, changes

    def players(self, game):
        return self.given[0] or super().players(game)

    def matches(self, roster, player):
        return super().matches(roster, player) if self.given[1] is None else self.given[1]

    def build_league(self, result):
        return self.given[2]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Wrong([Player("a", "other", "main")]), "Wrong.players: expected one of every role, got no player"),
        (Wrong([Player("a", "player", "main")] * 2), "player a: expected a new name, got one that is taken"),
        (Wrong([Player("random", "player", "main")]), "player random: expected a learning player .* not 'random'"),
        (Wrong([Player("a:1", "player", "main")]), "player a:1: expected a learning player .* has no ':'"),
        (Wrong([Player("a", "player", "main", "b")]), "player a: expected a learning player"),
        (Wrong(matches=[Match("main_0", 0.5)]), "Wrong.matches: main_0: expected probabilities that sum to 1, got 0.5"),
        (Wrong(matches=[Match("main_0", math.nan)]), "main_0: expected probabilities >= 0, got nan of main_0"),
        (Wrong(matches=[Match("main_0", 2.0), Match("main_0", -1.0)]), "expected probabilities >= 0, got -1.0 of"),
        (Wrong(matches=[]), "main_0: expected probabilities that sum to 1, got 0"),
        (Wrong(matches=[Match("main_7", 1.0)]), "expected learning or frozen opponents of player, got 'main_7'"),
        (Wrong(matches=["main_0"]), "Wrong.matches: main_0: expected a list of Match"),
        (
            Wrong(changes=None),
            r"Wrong.build_league: expected a list of transitions .*, got None",
        ),
        (Wrong(changes=["main_0"]), "Wrong.build_league: expected a list of transitions"),
        (Wrong(changes=[Freeze("main_1")]), "Freeze.*main_1.*: expected a learning player, one of main_0"),
        (Wrong(changes=[Copy("main_0", "x")]), "Copy.*: expected a learning source, one of main_0"),
        (Wrong(changes=[Copy("main_0", "main_0", {"gammma": 2.0})]), "gammma: expected a numeric setting of the"),
        (
            Wrong(changes=[Copy("main_0", "main_0", {"hidden_sizes": 2.0})]),
            "hidden_sizes: expected a numeric setting of the",
        ),
        (Wrong(changes=[Copy("main_0", "main_0", {"gamma": 0.0})]), "gamma: expected a factor > 0, got 0.0"),
        (Wrong(changes=[Enter(Player("main_0", "player", "main"))]), "player main_0: expected a new name"),
        (Wrong(changes=[Enter(Player("b", "tagger", "main"))]), "player b: expected a role of .*, got 'tagger'"),
    ],
)
def test_invalid_builder_gives_one_line_and_keeps_the_run(wrong, text, tmp_path):
    running = league(tmp_path, wrong, iterations=3)
    with pytest.raises(ConfigError, match=text) as told:
        running.run()
    assert "\n" not in str(told.value)
    running.builder = NoLeagueBuilder()
    if running.finished < 0:
        assert not running.store.tasks()
        running.begin()
    running.run()
    assert [row["steps"] for row in running.store.iterations().values()][1:] == [{"main_0": STEPS}] * 3
    assert running.state.learning["main_0"].total_steps == 3 * STEPS
    running.store.close()


def test_game_of_three_seats_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected two seats, got 3; use psro"):
        league(tmp_path, game=Game.of("KuhnPoker-v0", {"num_players": 3}))


def test_run_opened_for_reading_cannot_be_resumed(tmp_path):
    running = league(tmp_path, "latest", iterations=1)
    running.begin()
    running.store.close()
    with RunStore.open(tmp_path, write=False) as store:
        reading = League(store, running.config, builder("latest"))
        with pytest.raises(GpuEnvsError, match="opened for reading"):
            reading.run()
