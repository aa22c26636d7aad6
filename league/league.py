"""A league: players that learn from matches among themselves and their past, as a builder says.

Every iteration each learning player trains for a number of steps against the opponents that the builder names, in
worlds of its own: whoever asks for a match learns from it, and opponents are drawn anew for every episode. Opponents
that learn themselves are met as they were at the iteration's start. Then the builder says what changes.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gpu_envs.errors import CheckpointError, ConfigError
from league.builder import (
    Change,
    Copy,
    Enter,
    Freeze,
    LeagueBuilder,
    LeagueResult,
    Match,
    Player,
    Reset,
    Retire,
    Roster,
)
from league.matches import play_matchups
from league.matchmaking import WinRates
from league.payoffs import PayoffTable
from league.population import RandomPolicy
from league.response import Training
from league.run import Sampling, fill, table_of, training, write_summary
from league.seating import LEARNER, Draw
from league.store import Store, derived
from trainers.logs import Progress
from trainers.policy import Plays, Policy
from trainers.settings import check_settings, setting

RANDOM = 0
"""Where the random policy stands in every population."""
KEPT = ("settings", "steps", "total_steps", "begun", "even")
"""What a league remembers beside its players and their weights."""


@dataclass(frozen=True)
class LeagueConfig:
    """Settings of a league, beside those of its builder."""

    iterations: int = setting(20, ">= 0")
    """Times that every player trains, and that the league may change."""
    steps: int = setting(50_000, ">= 1")
    """Steps of worlds that a player trains for in an iteration, rounded up to whole rollouts."""
    decay: float = setting(0.99, "in (0, 1]")
    """What a game leaves of the weight of earlier games of the same two players in their win rate."""
    even: float | None = None
    """By how much the first seat earns more than the second in a draw. None: 0 where what they earn sums to 0, else
    what it is on average between the first players, so that win rates say something where the sides are unlike."""
    episodes: int = setting(1_000, ">= 1")
    """Episodes per cell of the payoff table of all frozen players, at the end."""
    max_envs: int = setting(16_384, ">= 1")
    """Worlds that play cells at once."""
    seed: int = setting(0, "in [0, 2**63)")
    """Of everything."""
    device: str = "cpu"
    """Where it all runs."""
    train: dict[str, Any] = field(default_factory=dict)
    """Settings of learners, see `league.run.training`."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)


class League:
    """A run. Whatever it has done it finds in its store, after a kill too: a task that is done is not done again."""

    def __init__(
        self, store: Store, config: LeagueConfig, builder: LeagueBuilder, progress: Progress | None = None
    ) -> None:
        """Opens a run.

        Args:
            store: Of a game with two seats.
            config: As the run began with, `iterations` aside.
            builder: Likewise.
            progress: Called after the training of every player.
        """
        self.store, self.game, self.config, self.builder, self.progress = store, store.game, config, builder, progress
        self.populations = store.populations
        self.train = training(self.game, config.device, config.train)
        self.roster = Roster(self.game, WinRates(config.decay))
        self.live: dict[str, Policy] = {}  # learning players as they were when the iteration began
        self.settings: dict[str, dict[str, float]] = {}  # of learners, where a player has its own
        self.steps: dict[str, int] = {}
        self.total_steps: dict[str, int] = {}
        self.begun: dict[str, int] = {}  # how often a player began to learn, after resets too
        self.trainings: dict[str, Training] = {}
        self.even = 0.0
        self.finished = max(store.iterations(), default=-1)
        if self.finished >= 0:
            self._restore()

    def run(self) -> list[dict[str, Any]]:
        """All iterations that are left, and the payoff table; returns the summaries of all iterations."""
        if self.finished < 0:
            self.begin()
        while self.finished < self.config.iterations:
            self.iterate(self.finished + 1)
        self.evaluate()
        write_summary(self.store)
        return list(self.store.iterations().values())

    # ---------------------------------------------------------------- an iteration

    def begin(self) -> None:
        """The first players, and copies of some of them."""
        changes: list[Change] = []
        players = self.builder.players(self.game)
        for role in self.game.roles:
            if all(player.role != role for player in players):
                raise ConfigError(f"{type(self.builder).__name__}.players: expected one of every role, got no {role}")
        with self.store.step("0/begin"):
            for role in self.game.roles:
                self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", "random")
            for player in players:
                self._enter(player)
                changes += [Freeze(player.name)] if self.builder.frozen_at_start(player) else []
            self.even = self._even()
            self._apply(0, changes)
            self._keep(0, {})
        self.finished = 0

    def iterate(self, number: int) -> None:
        """Every player trains, and then the league changes."""
        began = time.perf_counter()
        for name in self.roster.learning():
            self._train(number, name)
        results = {name: self.store.result(self._task(number, name)) for name in self.roster.learning()}
        for name, result in results.items():
            self.steps[name] += result["steps"]
            self.total_steps[name] += result["steps"]
            for opponent, games, score in result["matches"]:
                self.roster.win_rates.add(name, opponent, games, score)
        rng = np.random.default_rng(derived(self.config.seed, number, "builder"))
        returns = {name: result["return"] for name, result in results.items()}
        told = LeagueResult(number, self.roster, dict(self.steps), dict(self.total_steps), returns, rng)
        changes = self.builder.build_league(told)
        if number == self.config.iterations:  # nothing that was learned is lost
            frozen = {change.player for change in changes if isinstance(change, Freeze)}
            changes = [*changes, *(Freeze(name) for name in self.roster.learning() if name not in frozen)]
        with self.store.step(f"{number}/change"):
            self.live |= {name: self._weights(name)[1] for name in results}
            self._apply(number, changes)
            self._keep(number, {**_summary(self.roster, results, changes), "seconds": time.perf_counter() - began})
        self.finished = number
        write_summary(self.store)

    def _task(self, number: int, name: str) -> str:
        return f"{number}/train/{name}"

    def _train(self, number: int, name: str) -> None:
        """One player's matches of an iteration, unless they are played already."""
        task, player = self._task(number, name), self.roster.players[name]
        if self.store.done(task):
            return
        matches = self.builder.matches(self.roster, player)
        self._check(player, matches)
        learner = self._training(name, self._draw(player, matches))
        target = learner.steps + self.config.steps
        with learner.config.in_force():
            while learner.steps < target:
                learner.iterate()
        tally = learner.tally()
        learner.tallies.clear()
        steps = learner.steps - (target - self.config.steps)
        found = self._by_opponent(player, tally)
        with self.store.step(task) as result:
            self.store.put_state(f"learner.{name}", learner.state_dict())
            result |= {"steps": steps, "matches": found, "return": tally.mean_return(), "score": tally.mean_score()}
            result["episodes"] = int(tally.count.sum())
        if self.progress is not None:
            done = sum(self.total_steps.values()) + steps
            self.progress(done, f"{name}: return {result['return']:.3f}  score {result['score']:.2f}")

    def _by_opponent(self, player: Player, tally: Any) -> list[list[Any]]:
        """[opponent, games, score of the player], of games that were not against itself."""
        found: dict[str, list[float]] = {}
        for matchup, learns, count, score in zip(
            tally.matchups.tolist(), tally.learns.tolist(), tally.count.tolist(), tally.score.tolist(), strict=True
        ):
            own = learns.index(True)
            opponent = matchup[1 - own]
            name = player.name if opponent == LEARNER else self._members(self.game.seats[1 - own].role)[opponent]
            entry = found.setdefault(name, [0, 0.0])
            entry[0] += count
            entry[1] += score[own]
        return [[name, *entry] for name, entry in found.items()]

    # ---------------------------------------------------------------- who sits where

    def _members(self, role: str) -> list[str]:
        """All who ever were of a role, in the order of the pools, the random policy first; nobody leaves."""
        return ["random", *(player.name for player in self.roster.players.values() if player.role == role)]

    def pools(self) -> dict[str, list[Plays]]:
        """Policies by role: of learning players as they were when the iteration began."""
        return {role: [self._plays(role, name) for name in self._members(role)] for role in self.game.roles}

    def _plays(self, role: str, name: str) -> Plays:
        """Who plays for a player; the random policy for one that is just entering."""
        if name in self.live:
            return self.live[name]
        population = self.populations[role]
        known = any(entry.name == name for entry in population.entries)
        return population[population.named(name).index if known else RANDOM]

    def _draw(self, player: Player, matches: list[Match]) -> Draw:
        """Matchups of a player: it sits in every seat of its role equally often."""
        seats = self.game.seats_of(player.role)
        rows, probability, learns = [], [], []
        for match in matches:
            if not match.probability:
                continue
            if match.opponent == player.name:  # both seats are its own
                rows.append([LEARNER, LEARNER])
                learns.append([True, True])
                probability.append(match.probability)
                continue
            for seat in seats:
                row, who = [LEARNER, LEARNER], [False, False]
                row[1 - seat] = self._members(self.game.seats[1 - seat].role).index(match.opponent)
                who[seat] = True
                rows.append(row)
                learns.append(who)
                probability.append(match.probability / len(seats))
        return Draw(torch.tensor(rows), torch.tensor(probability, dtype=torch.float64), torch.tensor(learns))

    def _check(self, player: Player, matches: list[Match]) -> None:
        """ConfigError where a builder's matches are none."""
        who, facing = type(self.builder).__name__, self.roster.facing(player)
        total = sum(match.probability for match in matches)
        if abs(total - 1) > 1e-6 or any(match.probability < 0 for match in matches):
            raise ConfigError(f"{who}.matches: {player.name}: expected probabilities that sum to 1, got {total:g}")
        for match in matches:
            opponent = self.roster.players.get(match.opponent)
            if opponent is None or opponent.role != facing:
                raise ConfigError(f"{who}.matches: {player.name}: expected opponents of {facing}, got {match.opponent}")

    def _even(self) -> float:
        """See `LeagueConfig.even`."""
        if self.config.even is not None or self.game.zero_sum or self.game.shared:
            return self.config.even or 0.0
        pools = self.pools()
        firsts = [[self._members(seat.role).index(self.roster.learning(seat.role)[0]) for seat in self.game.seats]]
        seed = derived(self.config.seed, "even")
        results = play_matchups(self.game, pools, firsts, self.config.episodes, seed, self.config.device)
        first, second = results.mean[0].tolist()
        return first - second

    # ---------------------------------------------------------------- players

    def _training(self, name: str, draw: Draw) -> Training:
        """The worlds and the learner of a player, with a draw from the next episodes on."""
        if name not in self.trainings:
            state = self.store.state(f"learner.{name}", self.config.device)
            start = None if state is not None else self.store.state(f"start.{name}", self.config.device)
            self.trainings[name] = self._made(name, start, draw)
            if state is not None:
                self.trainings[name].load_state_dict(state)
        self.trainings[name].seating.replace(draw, self.pools())
        return self.trainings[name]

    def _made(self, name: str, start: Mapping[str, Any] | None, draw: Draw) -> Training:
        """A training of a player that begins, with first weights of its own or with those of a state."""
        learner = dataclasses.replace(self.train.learner, **self.settings.get(name, {}))
        seed = derived(self.config.seed, "player", name, self.begun[name])
        config = dataclasses.replace(self.train, seed=seed, learner=learner)
        weights = None if start is None else {self.roster.players[name].role: dict(start)}
        return Training(self.game, draw, self.pools(), config, weights, even=self.even)

    def _weights(self, name: str, start: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], Policy]:
        """Of a learner, and as a policy: what a player that begins has, or one that learns has now."""
        role = self.roster.players[name].role
        if name in self.trainings:
            training = self.trainings[name]
        else:
            alone = [[LEARNER if seat.role == role else RANDOM for seat in self.game.seats]]
            training = self._made(name, start, Draw(torch.tensor(alone)))
            if start is None and (state := self.store.state(f"learner.{name}", self.config.device)) is not None:
                training.load_state_dict(state)
        learner = training.learner(role)
        return {key: value for key, value in learner.state_dict().items() if key.startswith("net.")}, learner.policy()

    # ---------------------------------------------------------------- changes

    def _apply(self, number: int, changes: Sequence[Change]) -> None:
        """Makes changes: who is frozen is frozen before anything else."""
        for change in sorted(changes, key=lambda change: not isinstance(change, Freeze)):
            name = change.player.name if isinstance(change, Enter) else change.player
            if not isinstance(change, Enter) and name not in self.roster.learning():
                raise ConfigError(
                    f"{type(self.builder).__name__}.build_league: {change}: no player of this name learns"
                )
            match change:
                case Freeze():
                    self._freeze(number, name)
                case Reset():
                    first = self.store.state(f"first.{name}", self.config.device)
                    assert first is not None
                    self._begin_from(name, first)
                case Copy(source=source, factors=factors):
                    weights = self._weights(source)[0]
                    self.settings[name] = self._copied(source, factors)
                    self._begin_from(name, weights)
                case Enter(player=player):
                    self._enter(player)
                case Retire():
                    self.roster.retire(name)
                    self.store.drop_state(f"learner.{name}")
                    self.trainings.pop(name, None)

    def _enter(self, player: Player) -> None:
        """A player begins to learn."""
        name = player.name
        self.roster.add(player)
        self.steps[name] = self.total_steps[name] = self.begun[name] = 0
        weights, self.live[name] = self._weights(name)
        for which in ("first", "start"):
            self.store.put_state(f"{which}.{name}", weights)

    def _freeze(self, number: int, name: str) -> None:
        player, before = self.roster.players[name], self.roster.frozen(parent=name)
        population = self.populations[player.role]
        parent = population.named(before[-1]).index if before else None
        copy, told = f"{name}:{len(before) + 1}", {"player": name, "kind": player.kind}
        self.store.add_policy(player.role, self.live[name], name=copy, parent=parent, iteration=number, meta=told)
        self.roster.add(Player(copy, player.role, player.kind, parent=name))
        self.steps[name] = 0

    def _begin_from(self, name: str, weights: Mapping[str, Any]) -> None:
        """A player goes on with other weights, in new worlds, and nobody has met it yet."""
        self.trainings.pop(name, None)
        self.store.drop_state(f"learner.{name}")
        self.store.put_state(f"start.{name}", weights)
        self.begun[name] += 1
        self.steps[name] = 0
        self.roster.win_rates.forget(name)
        self.live[name] = self._weights(name, weights)[1]

    def _copied(self, source: str, factors: Mapping[str, float]) -> dict[str, float]:
        """The settings of another player's learner, some of them multiplied; all where they differ from the run's."""
        own = self.settings.get(source, {})
        learner = dataclasses.replace(self.train.learner, **own)
        return {
            **own,
            **{key: getattr(learner, key) * factor for key, factor in factors.items() if hasattr(learner, key)},
        }

    # ---------------------------------------------------------------- records

    def _keep(self, number: int, summary: Mapping[str, Any]) -> None:
        """Writes what the next iteration depends on, beside what learners keep of themselves."""
        players = [dataclasses.asdict(player) for player in self.roster.players.values()]
        self.store.put("players", players)
        self.store.put("retired", sorted(self.roster.retired))
        self.store.put("win_rates", self.roster.win_rates.to_json())
        for name in KEPT:
            self.store.put(name, getattr(self, name))
        for name, policy in self.live.items():
            self.store.put_state(f"live.{name}", policy.state_dict())
        self.store.put_iteration(number, summary)

    def _restore(self) -> None:
        """Reads what `_keep` wrote."""
        self.roster = Roster(self.game, WinRates.from_json(self.store.get("win_rates")))
        for player in self.store.get("players"):
            self.roster.add(Player(**player))
        self.roster.retired = set(self.store.get("retired"))
        for name in KEPT:
            setattr(self, name, self.store.get(name))
        for name, player in self.roster.players.items():
            if player.parent is None:
                state = self.store.state(f"live.{name}", self.config.device)
                if state is None:
                    raise CheckpointError(f"{self.store.path}: player {name}: expected its weights, got none (damaged)")
                self.live[name] = Policy.from_state(state, self.config.device)

    def evaluate(self) -> PayoffTable:
        """Plays what is missing of the payoff table of all frozen players and the random one."""
        c, table = self.config, table_of(self.store)
        fill(self.store, table, Sampling(c.episodes, None, c.device, c.max_envs), c.seed, "payoffs")
        return table


def _summary(roster: Roster, results: Mapping[str, Mapping[str, Any]], changes: Sequence[Change]) -> dict[str, Any]:
    """What there is to say of an iteration: matches by pair and by kinds, win rates, changes."""
    matches = {name: {who: games for who, games, _ in result["matches"]} for name, result in results.items()}
    kinds: dict[str, int] = {}
    for name, met in matches.items():
        for who, games in met.items():
            one, other = roster.players[name], roster.players[who]
            pair = f"{one.kind} - {'frozen ' if other.parent else ''}{other.kind}"
            kinds[pair] = kinds.get(pair, 0) + games
    return {
        "players": len(roster.players),
        "matches": matches,
        "matches_by_kind": kinds,
        "win_rates": {n: {who: roster.win_rates.rate(n, who) for who in met} for n, met in matches.items()},
        "changes": [f"{type(each).__name__.lower()} {_named(each)}" for each in changes],
        **{
            key: {name: result[key] for name, result in results.items()}
            for key in ("return", "score", "steps", "episodes")
        },
    }


def _named(change: Change) -> str:
    return change.player.name if isinstance(change, Enter) else change.player
