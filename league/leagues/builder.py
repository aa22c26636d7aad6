"""How a league grows: its players, whom they meet, and what changes between two iterations."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpu_envs.errors import ConfigError
from league.game import Game
from league.matchmaking import WinRates


@dataclass(frozen=True)
class Player:
    """Somebody who can be met: one that learns, or a frozen copy of one."""

    name: str
    """Unique in a league."""
    role: str
    """The population it belongs to."""
    kind: str
    """What its builder calls those like it, such as "main"; a frozen copy has the kind of its parent."""
    parent: str | None = None
    """Of a frozen copy, the player that it was; None: it learns."""


@dataclass(frozen=True)
class Match:
    """An opponent and how often it is met."""

    opponent: str
    """Name of a player."""
    probability: float
    """Share of episodes; those of a player's matches sum to 1."""


@dataclass(frozen=True)
class Freeze:
    """A copy of a learning player, as it is now, joins its population for good."""

    player: str
    """Name of the learning player."""


@dataclass(frozen=True)
class Reset:
    """A learning player goes back to its first weights, after it was frozen if it is frozen now too."""

    player: str
    """Name of the learning player."""


@dataclass(frozen=True)
class Copy:
    """A learning player takes the weights of another, and the settings of its learner, some of them changed."""

    player: str
    """Name of the one that takes the weights."""
    source: str
    """Name of the learning player that it takes them from."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """By name of a numeric setting: what it is multiplied by."""


@dataclass(frozen=True)
class Enter:
    """A new player begins to learn."""

    player: Player
    """Who it is; it has no parent."""


@dataclass(frozen=True)
class Retire:
    """A learning player learns no more, and is drawn no more; copies of it stay, see `Freeze`."""

    player: str
    """Name of the learning player."""


Change = Freeze | Reset | Copy | Enter | Retire  # what a builder can ask for after an iteration


class Roster:
    """All players of a league at one moment, and what is known of their games."""

    def __init__(self, game: Game, win_rates: WinRates) -> None:
        """Begins without players; ConfigError if the game has other than two seats."""
        if len(game.seats) != 2:
            raise ConfigError(f"{game.env_id}: a league needs two seats, got {len(game.seats)}; psro takes any number")
        self.game, self.win_rates = game, win_rates
        self.players: dict[str, Player] = {}
        self.retired: set[str] = set()

    def add(self, player: Player) -> None:
        """ConfigError if the name is taken or the role is none of the game's."""
        if player.name in self.players:
            raise ConfigError(f"player {player.name}: there is one of this name already")
        if player.role not in self.game.roles:
            raise ConfigError(f"player {player.name}: expected a role of {self.game.roles}, got {player.role!r}")
        self.players[player.name] = player

    def facing(self, player: Player) -> str:
        """The role of its opponents."""
        return next((role for role in self.game.roles if role != player.role), player.role)

    def retire(self, name: str) -> None:
        """A player learns no more, and is met no more."""
        self.retired.add(name)

    def learning(self, role: str | None = None, *kinds: str) -> list[str]:
        """Those who learn, of a role and of kinds (none: all), oldest first."""
        return [
            p.name
            for p in self.players.values()
            if p.parent is None and p.name not in self.retired and _is(p, role, kinds)
        ]

    def frozen(self, role: str | None = None, *kinds: str, parent: str | None = None) -> list[str]:
        """Frozen copies, oldest first, of a role, of kinds, of one parent."""
        return [
            p.name
            for p in self.players.values()
            if p.parent is not None and _is(p, role, kinds) and parent in (None, p.parent)
        ]


def _is(player: Player, role: str | None, kinds: Sequence[str]) -> bool:
    return role in (None, player.role) and (not kinds or player.kind in kinds)


@dataclass(frozen=True)
class LeagueResult:
    """What a builder goes by after an iteration."""

    iteration: int
    """Iterations that are over."""
    roster: Roster
    """Who is there."""
    steps: Mapping[str, int]
    """By learning player: steps of worlds that it has learned from since it was last frozen or reset."""
    total_steps: Mapping[str, int]
    """By learning player: since it entered."""
    returns: Mapping[str, float]
    """By learning player: mean return of its episodes in this iteration, NaN if none ended."""
    rng: np.random.Generator
    """For whatever a builder draws: the same in a resumed run."""


class LeagueBuilder(ABC):
    """Decides who learns, against whom, and how the league changes. Subclass it.

    It keeps nothing but its settings: what it needs of the past is in the roster and in the result, so that a run that
    was killed goes on as if it had not been. One champion for ever, and newcomers that try to beat it::

        class Challenges(LeagueBuilder):
            def players(self, game):
                return [Player(f"champion_{role}", role, "champion") for role in game.roles]

            def matches(self, roster, player):
                champion = f"champion_{roster.facing(player)}"
                past = roster.frozen(roster.facing(player))
                if player.kind == "newcomer" or not past:
                    return [Match(champion, 1.0)]
                return uniformly(past, 0.5) + [Match(champion, 0.5)]

            def build_league(self, result):
                changes = []
                for role in result.roster.game.roles:
                    changes.append(Enter(Player(f"newcomer_{role}_{result.iteration}", role, "newcomer")))
                    for name in result.roster.learning(role, "newcomer"):
                        if result.total_steps[name] >= 100_000:
                            changes += [Freeze(name), Retire(name)]
                return changes

        game, config = Game.of("KuhnPoker-v0"), LeagueConfig(iterations=10)
        with opened(Path("runs/challenges"), game, "challenges", config) as store:
            League(store, config, Challenges()).run()
    """

    @abstractmethod
    def players(self, game: Game) -> list[Player]:
        """Who learns at the start; one of each role at least."""

    def check(self, game: Game, learner: Any) -> None:  # noqa: B027  # not every builder has something to say
        """Called before anything else; raises ConfigError where the builder does not fit.

        Args:
            game: What is played.
            learner: Settings of all learners, a dataclass of their algorithm.
        """

    def frozen_at_start(self, player: Player) -> bool:
        """Whether a copy of its first weights can be met from the beginning."""
        return False

    @abstractmethod
    def matches(self, roster: Roster, player: Player) -> list[Match]:
        """Whom a learning player meets in the next iteration, with probabilities that sum to 1.

        An opponent that learns itself is met as it is at the iteration's start; only who is named here as the player
        learns from the match. Where one population plays all seats, oneself can be met: then both seats learn.
        """

    @abstractmethod
    def build_league(self, result: LeagueResult) -> list[Change]:
        """What changes before the next iteration. Copies are frozen before anything else changes."""


def check_numeric(learner: Any, name: str) -> float:
    """The value of a learner's setting that can be multiplied; ConfigError where it has none of that name."""
    numeric = [
        field.name for field in dataclasses.fields(learner) if type(getattr(learner, field.name)) in (int, float)
    ]
    if name not in numeric:
        raise ConfigError(f"{name}: expected a numeric setting of the learner to multiply, one of {', '.join(numeric)}")
    return getattr(learner, name)


def live(roster: Roster, player: Player, kind: str) -> list[str]:
    """Learning opponents of a kind: only itself where one population plays all seats and it is of that kind."""
    return roster.learning(roster.facing(player), kind)


def uniformly(opponents: Sequence[str], share: float = 1.0) -> list[Match]:
    """Each as often as the others, together `share`."""
    return [Match(opponent, share / len(opponents)) for opponent in opponents]


def weighted(opponents: Sequence[str], probabilities: Sequence[float] | np.ndarray, share: float) -> list[Match]:
    """With probabilities (opponents,) that sum to 1, together `share`."""
    return [Match(opponent, share * float(p)) for opponent, p in zip(opponents, probabilities, strict=True) if p > 0]


def merged(matches: Sequence[Match]) -> list[Match]:
    """Each opponent once; its probabilities summed."""
    total: dict[str, float] = {}
    for match in matches:
        total[match.opponent] = total.get(match.opponent, 0.0) + match.probability
    return [Match(opponent, probability) for opponent, probability in total.items()]


class NoLeagueBuilder(LeagueBuilder):
    """One player per role, against the other as it is, for ever: nobody is frozen. Independent learners."""

    def players(self, game: Game) -> list[Player]:
        """`main`, or one per role."""
        return one_each(game, "main", 1)

    def matches(self, roster: Roster, player: Player) -> list[Match]:
        """The other role's player, or itself."""
        return uniformly(live(roster, player, "main"))

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Nothing."""
        return []


def one_each(game: Game, kind: str, count: int) -> list[Player]:
    """`count` learning players of a kind for every role: "main_0", or "main_tagger_0" where there are roles."""
    return [
        Player("_".join((kind, *([] if len(game.roles) == 1 else [role]), str(index))), role, kind)
        for role in game.roles
        for index in range(count)
    ]
