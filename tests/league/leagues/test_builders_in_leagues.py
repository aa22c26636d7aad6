"""Builders in running leagues: transitions of players, custom and invalid builders."""

import inspect
import math
import textwrap

import pytest
from small_league import STEPS, TINY, equal, league, of_policy, train, trained, training, weights

from gpu_envs.errors import ConfigError
from league.game import Game
from league.leagues import builder as league_builder
from league.leagues import player
from league.leagues.builder import LeagueBuilder, NoLeagueBuilder, players_per_role, uniform_matches
from league.leagues.league import League, LeagueConfig
from league.leagues.player import Copy, Enter, Freeze, Match, Player, Reset, Retire
from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
from league.leagues.training_group import cached_trainings
from league.matchups.best_response import BestResponseTraining
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

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
    begin, states = BestResponseTraining.__init__, []
    monkeypatch.setattr(
        BestResponseTraining,
        "__init__",
        lambda self, *arguments: begin(self, *arguments) or states.append(looked_at(self)),
    )
    train(running, 2, "main_0")
    ((net, optimizer, steps),) = states
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
    settings = running.state.learning["main_0"].settings
    assert settings == {"learning_rate": pytest.approx(0.075), "gamma": 1.0, "gae_lambda": 0.475, "rollout_length": 5}
    assert running.state.learning["main_2"].settings == {"gamma": running.train.learner.gamma * 0.5}
    running.iterate(2)
    assert training(running, "main_2").config.learner.gamma == running.state.learning["main_2"].settings["gamma"]
    assert equal(running.store.state("live.main_0"), running.state.trained_weights("main_1"))
    state = running.state.learning["main_0"]
    assert state.settings["learning_rate"] == pytest.approx(0.075)  # of the setting of main_1
    assert state.restarts == 3
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

    def matches(self, roster, player, role):
        if player.kind == "champion":
            opponents = [*roster.frozen(role), *roster.learning(role, "newcomer")]
            return uniform_matches(opponents or ["champion"])
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
    matches = trained(tmp_path)["4/train/champion"]["matches"]
    assert {opponent for opponent, *_, count in matches if count} == {"newcomer_1:1", "newcomer_2", "newcomer_3"}
    assert rows[4]["matches_by_kind"].keys() == {
        "champion - newcomer",
        "champion - frozen newcomer",
        "newcomer - champion",
    }
    running.store.close()
    reopened = league(tmp_path, Openers(), iterations=5)
    reopened.run()
    assert reopened.state.roster.retired == {f"newcomer_{i}" for i in (1, 2, 3)}
    reopened.store.close()


def test_builder_example_of_the_documentation_runs(tmp_path, monkeypatch):
    text = inspect.getdoc(LeagueBuilder).split("::\n", 1)[1].replace("100_000", "64").replace("=10)", "=3, **SMALL)")
    names = {
        **vars(league_builder),
        **vars(player),
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


# ---------------------------------------------------------------- invalid builders


class Wrong(NoLeagueBuilder):
    """Builder with the given answers."""

    def __init__(self, players=None, matches=None, changes=None):
        self.answers = players, matches, changes

    def players(self, game):
        return self.answers[0] or super().players(game)

    def matches(self, roster, player, role):
        return super().matches(roster, player, role) if self.answers[1] is None else self.answers[1]

    def build_league(self, result):
        return self.answers[2]


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
        (
            Wrong(matches=[Match("main_7", 1.0)]),
            "opponents of player, or 'random', got 'main_7'",
        ),
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
    with pytest.raises(ConfigError, match=text) as caught:
        running.run()
    assert "\n" not in str(caught.value)
    running.builder = NoLeagueBuilder()
    if running.finished < 0:
        assert not running.store.tasks()
        running.begin()
    running.run()
    assert [row["steps"] for row in running.store.iterations().values()][1:] == [{"main_0": STEPS}] * 3
    assert running.state.learning["main_0"].total_steps == 3 * STEPS
    running.store.close()
