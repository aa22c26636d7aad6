"""Restarts, changing groups and interrupts in asynchronous leagues."""

from collections import Counter

import pytest
from async_leagues import Ordered, Players, Restarting, check_counts, trainings
from shuffled import Shuffled
from small_league import equal, league, of_policy, weights

from league.game import Game
from league.leagues.builder import groups_across_roles, players_per_role, uniform_matches
from league.leagues.player import Copy, Freeze, Reset

KUHN = Game.of("KuhnPoker-v0")


def test_win_rates_have_no_games_against_weights_before_a_restart(tmp_path):
    order = iter(["1/train/main_1", "1/train/main_0", "2/train/main_0"])
    running = league(
        tmp_path / "run", Restarting(), iterations=2, executor=Ordered(order), asynchronous=True, num_envs=2
    )
    running.begin()
    games, report = [], running._report

    def watching(steps, results):
        games.append(running.state.roster.win_rates.games.get(("main_0", "main_1"), 0.0))
        report(steps, results)

    running._report = watching
    running.run()
    assert games[0] == 0  # the player's own games went with its restart
    assert games[1] == 0  # games against the weights before the restart
    assert games[2] > 0
    running.store.close()


class Copying(Restarting):
    """Two players: the second restarts after its trainings, and the first copies it after its own."""

    def build_league(self, result):
        return [Reset("main_1"), Copy("main_0", "main_1")]


def test_copy_of_a_restarted_player_has_its_first_weights(tmp_path):
    order = iter(["1/train/main_1", "1/train/main_0"])
    running = league(tmp_path / "run", Copying(), iterations=1, executor=Ordered(order), asynchronous=True)
    running.run()
    first = of_policy(running.store.state("first.main_1"))
    assert equal(weights(running.state.live["main_1"]), first)
    assert equal(weights(running.state.live["main_0"]), first)
    running.store.close()


class Merging(Players):
    """Players of two roles that train alone in the first iteration, and then as pairs."""

    def players(self, game):
        return players_per_role(game, "main", 2)

    def matches(self, roster, player, role):
        return uniform_matches(roster.learning(role))

    def training_groups(self, roster):
        return super().training_groups(roster) if not roster.frozen() else groups_across_roles(roster, "main")

    def build_league(self, result):
        return [Freeze(result.trained[0])] if result.iteration == 1 else []


@pytest.mark.variations
@pytest.mark.parametrize("seed", range(3))
def test_groups_that_merge_are_trained_to_the_end_also_after_an_interrupt(seed, tmp_path):
    for stop in (2, 4, 5, None):
        running = league(
            tmp_path / "run", Merging(), game=KUHN, iterations=2, executor=Shuffled(seed=seed), asynchronous=True
        )
        report, counts = running._report, Counter()

        def counting(steps, results, report=report, counts=counts, stop=stop):
            report(steps, results)
            counts["trainings"] += 1
            if counts["trainings"] == stop:
                raise KeyboardInterrupt

        running._report = counting
        try:
            running.run()
            break
        except KeyboardInterrupt:
            running.store.close()
    assert running.finished == 2
    names = [name.partition("/train/")[2] for name in trainings(tmp_path / "run")]
    assert any("+" in name for name in names)
    assert any("+" not in name for name in names)
    running.store.close()


def test_training_lost_by_an_interrupt_is_not_continued(tmp_path):
    """The workers' caches may have a training with the name of one that was repeated after an interrupt."""
    workers = Shuffled()
    running = league(tmp_path / "run", Players(), iterations=2, executor=workers, asynchronous=True)
    commit, done, previous = running._commit_and_apply, [], running.id

    def interrupted(*arguments):
        done.append(arguments)
        if len(done) == 3:
            raise KeyboardInterrupt
        commit(*arguments)

    running._commit_and_apply = interrupted
    with pytest.raises(KeyboardInterrupt):
        running.run()
    assert running.id != previous
    lost = {key for cached, _ in workers.caches for key in cached if key[0] == previous}
    assert len(lost) >= 3
    running.run()
    check_counts(tmp_path / "run", 2, 4)
    running.store.close()


def test_interrupt_in_the_last_iteration_leaves_no_player_untrained(tmp_path):
    """After an interrupt, players with the fewest trainings train first."""
    order = iter([f"{number}/train/main_{index}" for number in (1, 2, 3) for index in range(3)][:7])
    running = league(tmp_path / "run", Players(), iterations=2, executor=Ordered(order), asynchronous=True)
    report, done = running._report, []

    def interrupting(steps, results):
        report(steps, results)
        done.append(steps)
        if len(done) == 7:
            raise KeyboardInterrupt

    running._report = interrupting
    with pytest.raises(KeyboardInterrupt):
        running.run()
    assert all("main_3" not in name for name in trainings(tmp_path / "run"))
    running.run()
    check_counts(tmp_path / "run", 2, 4)
    assert "1/train/main_3" in trainings(tmp_path / "run")
    running.store.close()
