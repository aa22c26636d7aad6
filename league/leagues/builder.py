"""Interface of league builders: players, matches and transitions of a league."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_envs.errors import ConfigError
from league.game import Game
from league.leagues.matchmaking import WinRates
from league.leagues.player import Change, Match, Player
from league.leagues.training_group import TrainingGroup


class Roster:
    """Players of a league and their win rates at one moment."""

    def __init__(self, game: Game, win_rates: WinRates) -> None:
        """Start without players; raise ConfigError if the game has a single seat."""
        if len(game.seats) < 2:
            raise ConfigError(
                f"{game.env_id}: expected two or more seats, got {len(game.seats)}; divide its agents with --roles, or "
                "train them with gpu-envs train"
            )
        self.game: Game = game
        self.win_rates: WinRates = win_rates
        self.players: dict[str, Player] = {}
        self.retired: set[str] = set()

    def add(self, player: Player) -> None:
        """Add a player; raise ConfigError if its name is taken or its role unknown."""
        if player.name in self.players:
            raise ConfigError(f"player {player.name}: expected a new name, got one that is taken")
        if player.role not in self.game.roles:
            raise ConfigError(f"player {player.name}: expected a role of {self.game.roles}, got {player.role!r}")
        self.players[player.name] = player

    def facing(self, player: Player) -> tuple[str, ...]:
        """Return the roles of the other seats of a player's games: its own role, too, if several seats have it."""
        return tuple(
            role for role in self.game.roles if role != player.role or len(self.game.seats_of(player.role)) > 1
        )

    def retire(self, name: str) -> None:
        """Retire a player: it neither trains nor plays anymore."""
        self.retired.add(name)

    def learning(self, role: str | Sequence[str] | None = None, *kinds: str) -> list[str]:
        """Return the names of learning players of one or several roles and of kinds (none: all), oldest first."""
        return [
            p.name
            for p in self.players.values()
            if p.parent is None and p.name not in self.retired and _is(p, role, kinds)
        ]

    def frozen(self, role: str | Sequence[str] | None = None, *kinds: str, parent: str | None = None) -> list[str]:
        """Return the names of frozen players of one or several roles, of kinds and of one parent, oldest first."""
        return [
            p.name
            for p in self.players.values()
            if p.parent is not None and _is(p, role, kinds) and parent in (None, p.parent)
        ]


def _is(player: Player, role: str | Sequence[str] | None, kinds: Sequence[str]) -> bool:
    roles = (role,) if isinstance(role, str) else role
    return (roles is None or player.role in roles) and (not kinds or player.kind in kinds)


@dataclass(frozen=True)
class LeagueResult:
    """State of a league after an iteration, as given to a builder."""

    iteration: int
    """Number of completed iterations; in an asynchronous league, number of the iteration in progress."""
    roster: Roster
    """Players and win rates."""
    steps: Mapping[str, int]
    """Environment steps of each learning player since it was last frozen or reset."""
    total_steps: Mapping[str, int]
    """Environment steps of each learning player since it entered."""
    returns: Mapping[str, float]
    """Mean episode return of each learning player in this iteration, NaN if none of its episodes has ended."""
    rng: np.random.Generator
    """Random generator of the builder, which gives the same numbers in a resumed run."""
    trained: Sequence[str]
    """Names of the players whose training has ended: all learning players, in an asynchronous league one group."""


class LeagueBuilder(ABC):
    """Base class of builders, which decide who learns, against whom, and how the league changes.

    A builder has no state except its settings: the roster and the result hold the past, so that a run can be resumed.
    Example with a permanent champion and newcomers that try to beat it::

        class Challenges(LeagueBuilder):
            def players(self, game):
                return [Player(f"champion_{role}", role, "champion") for role in game.roles]

            def matches(self, roster, player, role):
                champion, past = f"champion_{role}", roster.frozen(role)
                if player.kind == "newcomer" or not past:
                    return [Match(champion, 1.0)]
                return uniform_matches(past, 0.5) + [Match(champion, 0.5)]

            def build_league(self, result):
                changes = []
                for role in result.roster.game.roles:
                    changes.append(Enter(Player(f"newcomer_{role}_{result.iteration}", role, "newcomer")))
                    for name in result.roster.learning(role, "newcomer"):
                        if result.total_steps[name] >= 100_000:
                            changes += [Freeze(name), Retire(name)]
                return changes

        game, config = Game.of("KuhnPoker-v0"), LeagueConfig(iterations=10)
        with open_run(Path("runs/challenges"), game, "challenges", config) as store:
            League(store, config, Challenges()).run()
    """

    @abstractmethod
    def players(self, game: Game) -> list[Player]:
        """Return the learning players at the start, at least one of each role."""

    def check(self, game: Game, learner: Any) -> None:  # noqa: B027  # optional method
        """Check that the builder fits the game and the learner; called before anything else.

        Args:
            game: Game of the league.
            learner: Settings of all learners, a dataclass of their algorithm.

        Raises:
            ConfigError: The builder does not fit.
        """

    def frozen_at_start(self, player: Player) -> bool:
        """Return whether a frozen copy of the player's first weights is added at the start."""
        return False

    @abstractmethod
    def matches(self, roster: Roster, player: Player, role: str) -> list[Match]:
        """Return the opponents of a learning player in the next iteration, with probabilities that sum to 1.

        Opponents are learning players, frozen players, or the random policy under the name "random".

        A learning opponent plays with its weights from the start of the iteration. Only `player` learns from the
        match, except in a group (`training_groups`). If several seats have the player's role, a player may be its own
        opponent; then all seats that it plays learn.

        Args:
            roster: Players and win rates.
            player: Learning player, which plays every seat of its role equally often.
            role: Role of the opponents, one of `roster.facing(player)`. Every other seat with this role has an
                own opponent, sampled independently of the other seats.
        """

    def training_groups(self, roster: Roster) -> list[TrainingGroup]:
        """Return the learning players as groups that learn in the same worlds; by default every player is alone.

        Players of a group have different roles and equal training settings. When they meet, all of them learn. A player
        plays its partners with their current weights. If a group changes, or a player of it restarts, it starts in new
        worlds.
        """
        return [(name,) for name in roster.learning()]

    def share_of_steps(self, roster: Roster, group: TrainingGroup) -> float:
        """Return the environment steps of a group per iteration, as a share of `LeagueConfig.steps`; by default 1."""
        return 1.0

    @abstractmethod
    def build_league(self, result: LeagueResult) -> list[Change]:
        """Return the transitions before the next iteration; freezes are applied first.

        An asynchronous league calls this after every training. It applies the transitions of the players in
        `result.trained`, and `Enter` if the name is new. It ignores the transitions of other players, which are
        training: the builder returns them again when the training of the player ends.
        """


def check_numeric(learner: Any, name: str) -> float:
    """Return the value of a numeric learner setting; raise ConfigError if there is none of that name."""
    numeric = [
        field.name for field in dataclasses.fields(learner) if type(getattr(learner, field.name)) in (int, float)
    ]
    if name not in numeric:
        raise ConfigError(f"{name}: expected a numeric setting of the learner to multiply, one of {', '.join(numeric)}")
    return getattr(learner, name)


def uniform_matches(opponents: Sequence[str], share: float = 1.0) -> list[Match]:
    """Return matches against each opponent with equal probabilities that sum to `share`."""
    return [Match(opponent, share / len(opponents)) for opponent in opponents]


def weighted_matches(
    opponents: Sequence[str], probabilities: Sequence[float] | np.ndarray, share: float
) -> list[Match]:
    """Return matches with the given probabilities (opponents,), scaled to sum to `share`."""
    return [Match(opponent, share * float(p)) for opponent, p in zip(opponents, probabilities, strict=True) if p > 0]


def merge_matches(matches: Sequence[Match]) -> list[Match]:
    """Return each opponent once, with its probabilities added."""
    total: dict[str, float] = {}
    for match in matches:
        total[match.opponent] = total.get(match.opponent, 0.0) + match.probability
    return [Match(opponent, probability) for opponent, probability in total.items()]


class NoLeagueBuilder(LeagueBuilder):
    """Builder of independent learners: one player per role against the current opponents, without frozen players."""

    def players(self, game: Game) -> list[Player]:
        """Return one player per role, `main_0` or `main_ROLE_0`."""
        return players_per_role(game, "main", 1)

    def matches(self, roster: Roster, player: Player, role: str) -> list[Match]:
        """Return the learning player of the role, which may be the player itself."""
        return uniform_matches(roster.learning(role, "main"))

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Return no transitions."""
        return []


def groups_across_roles(roster: Roster, kind: str) -> list[TrainingGroup]:
    """Return the learning players as groups: players of a kind with one player of every role, all others alone."""
    names, roles = roster.learning(), roster.game.roles
    groups = zip(*(roster.learning(role, kind) for role in roles), strict=False)
    partners = {name: group for group in groups for name in group}
    return list(dict.fromkeys(partners.get(name, (name,)) for name in names))


def players_per_role(game: Game, kind: str, count: int) -> list[Player]:
    """Return `count` learning players of a kind per role: "main_0", or "main_tagger_0" if there are several roles."""
    return [
        Player("_".join((kind, *([] if len(game.roles) == 1 else [role]), str(index))), role, kind)
        for role in game.roles
        for index in range(count)
    ]
