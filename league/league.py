"""A league: players that learn from matches among themselves and their past, as a builder says.

Every iteration each learning player trains for a number of steps against the opponents that the builder names, in
worlds of its own: whoever asks for a match learns from it, and opponents are drawn anew for every episode. Opponents
that learn themselves are met as they were at the iteration's start. Then the builder says what changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from league import solvers
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
    check_numeric,
)
from league.executors import Call, Coordinator, Executor, Later, gather
from league.filling import Filling, Sampling, cells
from league.matchmaking import WinRates
from league.payoffs import PayoffTable
from league.player import forget, train_player
from league.population import RandomPolicy
from league.response import Training
from league.run import training, write_summary
from league.seating import LEARNER, Draw, Tally
from league.small import Small
from league.store import Store, derived
from trainers.config import TrainConfig
from trainers.learner import part_of
from trainers.logs import Progress
from trainers.policy import Plays, Policy
from trainers.settings import check_settings, setting

RANDOM, RANDOM_NAME = 0, "random"
"""Where the random policy stands in every population, and its name there."""
OF_POLICY = ("net.normalizer.", "net.actor.", "net.head.", "spec")
"""What of a learner's weights is its policy; the rest is critics and targets."""
BOUNDS = {"in [0, 1]": (0, 1), "in (0, 1]": (0, 1), ">= 0": (0, math.inf), ">= 1": (1, math.inf), ">= 2": (2, math.inf)}
"""Between what settings stay that are multiplied, by what they allow."""


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
    """By how much the first seat earns more than the second in a draw. None: 0 where what they earn sums to 0 or both
    seats are alike, else measured between the first players, so that at the start both win as often."""
    episodes: int = setting(1_000, ">= 1")
    """Episodes per cell of the payoff table of all frozen players, at the end."""
    max_envs: int = setting(16_384, ">= 1")
    """Worlds that play cells at once."""
    seed: int = setting(0, "in [0, 2**63)")
    """Of everything."""
    device: str = "cpu"
    """Where it all runs."""
    train: dict[str, Any] = field(default_factory=dict)
    """Settings of learners, see `league.run.training`; schedules end after `total_steps`, `iterations * steps` if it is
    not given."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)


@dataclass
class Learning:
    """What a league remembers of a player that learns, beside its weights."""

    steps: int = 0
    """Of worlds, since it was last frozen or began anew."""
    total_steps: int = 0
    """Since it entered."""
    begun: int = 0
    """How often it began anew."""
    settings: dict[str, float] = field(default_factory=dict)
    """Of its learner, where they are not the run's."""


class League:
    """A run. Whatever it has done it finds in its store, after a kill too: a task that is done is not done again.

    In the store are, by player that learns: `live.NAME`, weights as they were when the iteration began, which is how
    others meet it; `first.NAME`, those that it entered with; `learner.NAME`, its worlds and all of its learner after
    its last training, none where it is yet to begin from `live.NAME`.
    """

    def __init__(
        self,
        store: Store,
        config: LeagueConfig,
        builder: LeagueBuilder,
        progress: Progress | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Opens a run.

        Args:
            store: Of a game with two seats.
            config: As the run began with, `iterations` aside.
            builder: Likewise.
            progress: Called after the training of every player.
            executor: Where players train and payoffs are played; None: in this process. The run comes out the same.

        Raises:
            ConfigError: Something of these does not fit the others.
            CheckpointError: The run began with another builder, or is damaged.
        """
        self.store, self.game, self.config, self.builder, self.progress = store, store.game, config, builder, progress
        self.populations = store.populations
        self.coordinator, self.id = Coordinator(store, executor), uuid.uuid4().hex
        weakref.finalize(self, forget, self.id)
        self.device = self.coordinator.device(config.device)
        for population in self.populations.values():  # anybody may be met at any time
            population.device, population.keep = self.device, sys.maxsize
        length = int(store.config.get("iterations", config.iterations)) * config.steps  # as it began, if longer now
        self.train = training(self.game, config.device, {"total_steps": max(length, 1), **config.train})
        self.train.prepare()
        builder.check(self.game, self.train.learner)
        recurrent = getattr(self.train.learner, "body", "") == "gru"  # what remembers is no table
        self.small = None if recurrent else Small.of(self.game)
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
        who, players = _name(self.builder), self.builder.players(self.game)
        for role in self.game.roles:
            if all(player.role != role for player in players):
                raise ConfigError(f"{who}.players: expected one of every role, got no {role}")
        with self._whole(), self.store.step("0/begin"):
            for role in self.game.roles:
                self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", RANDOM_NAME)
            for player in players:
                self._enter(player)
            self.even = self._even()
            changes = [Freeze(player.name) for player in players if self.builder.frozen_at_start(player)]
            self._change(0, changes)
            self._keep(0, {**_summary(self.roster, {}, changes), **self._exploitability(), "even": self.even})
        self.finished = 0

    def iterate(self, number: int) -> None:
        """Every player trains, and then the league changes."""
        began, names = time.perf_counter(), self.roster.learning()
        with self._whole():
            self._payoffs().plan(f"{number - 1}/payoffs", self.config.max_envs)  # they are played while others learn
            pools = self.pools()
            for name in names:
                self._submit(number, name, pools, functools.partial(self._count, number, name))
            self.coordinator.wait("learn")
            results = {name: self.store.result(_task(number, name)) for name in names}
            for name, result in results.items():
                for opponent, games, score, _ in result["matches"]:
                    self.roster.win_rates.add(name, opponent, games, score)
            changes = self._changes(number, results)
            with self.store.step(f"{number}/change"):
                for name in names:
                    self._put_live(name, self._learned(name))
                self._change(number, changes)
                row = {**_summary(self.roster, results, changes), **self._exploitability()}
                self._keep(number, {**row, "seconds": time.perf_counter() - began})
        self.finished = number
        self.learned.clear()
        write_summary(self.store)

    def _submit(
        self, number: int, name: str, pools: Mapping[str, Sequence[Plays]], then: Callable[[], None] | None = None
    ) -> None:
        """Gives out one player's matches of an iteration, unless they are played already."""
        task, player = _task(number, name), self.roster.players[name]
        before = _task(number - 1, name) if self.store.has_state(f"learner.{name}") else None
        state = f"live.{name}" if before is None else f"learner.{name}"
        arguments = {
            "run": self.id,
            "player": name,
            "role": player.role,
            "before": before,
            "task": task,
            "game": self.game,
            "draw": self.draw(player),
            "config": self._config(name),
            "state": Later(functools.partial(self.store.state, state, self.device)),
            "even": self.even,
            "seed": derived(self.config.seed, task),
            "steps": self.config.steps,
        }
        call = Call(task, train_player, pools, arguments, learns=True, device=self.config.device)
        self.coordinator.submit(call, functools.partial(self._trained, number, name), then, "learn")

    def _trained(self, number: int, name: str, found: Mapping[str, Any]) -> None:
        """Writes down what a player's matches gave."""
        player, tally = self.roster.players[name], found["tally"]
        with self.store.step(_task(number, name)) as result:
            self.store.put_state(f"learner.{name}", found["state"])
            result |= {"steps": found["steps"], "matches": self._by_opponent(player, tally)}
            result |= {"return": found["return"], "score": found["score"], "episodes": int(tally.count.sum())}
        self.learned[name] = _weights(part_of(found["state"], f"learner.{player.role}."), self.live[name])
        if self.progress is not None:
            done = sum(each.total_steps for each in self.learning.values()) + found["steps"]
            self.progress(done, f"{name}: return {result['return']:.3f}  score {result['score']:.2f}")

    def _count(self, number: int, name: str) -> None:
        """The steps of a player's matches, once they are written down."""
        steps = self.store.result(_task(number, name))["steps"]
        self.learning[name].steps += steps
        self.learning[name].total_steps += steps

    def _by_opponent(self, player: Player, tally: Tally) -> list[list[Any]]:
        """[opponent, games that ended, score of the player in them, games that began]."""
        found: dict[str, list[Any]] = {}
        sums = zip(tally.count.tolist(), tally.score.tolist(), tally.begun.tolist(), strict=True)
        for matchup, learns, (count, score, begun) in zip(
            tally.matchups.tolist(), tally.learns.tolist(), sums, strict=True
        ):
            own = learns.index(True)
            opponent = matchup[1 - own]
            name = player.name if opponent == LEARNER else self._members(self.game.seats[1 - own].role)[opponent]
            entry = found.setdefault(name, [name, 0, 0.0, 0])
            entry[1:] = entry[1] + count, entry[2] + score[own], entry[3] + begun
        return list(found.values())

    def _changes(self, number: int, results: Mapping[str, Mapping[str, Any]]) -> list[Change]:
        """What the builder says."""
        learning = {name: self.learning[name] for name in results}
        told = LeagueResult(
            number,
            self.roster,
            {name: each.steps for name, each in learning.items()},
            {name: each.total_steps for name, each in learning.items()},
            {name: result["return"] for name, result in results.items()},
            np.random.default_rng(derived(self.config.seed, number, "builder")),
        )
        changes, who = self.builder.build_league(told), f"{_name(self.builder)}.build_league"
        if not isinstance(changes, Sequence) or any(not isinstance(change, Change) for change in changes):
            raise ConfigError(f"{who}: expected a list of changes such as Freeze('main_0'), got {changes!r:.200}")
        frozen = {change.player for change in changes if isinstance(change, Freeze)}
        if number == self.config.iterations:  # nothing that was learned is lost
            changes = [*changes, *(Freeze(name) for name in results if name not in frozen)]
        return list(changes)

    def _exploitability(self) -> dict[str, Any]:
        """NashConv of the Nash equilibrium among all frozen policies, where the game is small and sums to 0."""
        if self.small is None or not self.game.zero_sum:
            return {"nash_conv": None, "exploitability": None, "best_so_far": None}
        strategy = solvers.solve("nash", self.small.payoffs(self.populations))
        nash_conv = self.small.nash_conv(self.populations, strategy.marginals)
        earlier = [row["nash_conv"] for row in self.store.iterations().values()]
        return {
            "nash_conv": nash_conv,
            "exploitability": nash_conv / len(self.game.seats),
            "best_so_far": min([nash_conv, *earlier]),
        }

    # ---------------------------------------------------------------- who sits where

    def _members(self, role: str) -> list[str]:
        """All who ever were of a role, in the order of the pools, the random policy first; nobody leaves."""
        return [RANDOM_NAME, *(player.name for player in self.roster.players.values() if player.role == role)]

    def pools(self) -> dict[str, list[Plays]]:
        """Policies by role: of learning players as they were when the iteration began."""
        found: dict[str, list[Plays]] = {}
        for role, population in self.populations.items():
            place = {entry.name: entry.index for entry in population.entries}
            found[role] = [
                self.live[name] if name in self.live else population[place[name]] for name in self._members(role)
            ]
        return found

    def draw(self, player: Player) -> Draw:
        """Matchups of a learning player in the next iteration: it sits in every seat of its role equally often.

        Raises:
            ConfigError: The builder's matches are none.
        """
        matches, facing, seats = self._matches(player), self.roster.facing(player), self.game.seats_of(player.role)
        place = {name: index for index, name in enumerate(self._members(facing))}
        rows, probability, learns = [], [], []
        for match in matches:
            if match.opponent == player.name:  # both seats are its own
                rows.append([LEARNER, LEARNER])
                learns.append([True, True])
                probability.append(match.probability)
                continue
            for seat in seats:
                row, who = [place[match.opponent]] * 2, [False, False]
                row[seat], who[seat] = LEARNER, True
                rows.append(row)
                learns.append(who)
                probability.append(match.probability / len(seats))
        return Draw(torch.tensor(rows), torch.tensor(probability, dtype=torch.float64), torch.tensor(learns))

    def _matches(self, player: Player) -> list[Match]:
        """Those that the builder names and that are possible."""
        who, facing = f"{_name(self.builder)}.matches: {player.name}", self.roster.facing(player)
        matches = self.builder.matches(self.roster, player)
        if not isinstance(matches, Sequence) or any(not isinstance(match, Match) for match in matches):
            raise ConfigError(f"{who}: expected a list of Match(opponent, probability), got {matches!r:.200}")
        there = {*self.roster.learning(facing), *self.roster.frozen(facing)}
        for match in matches:
            if match.opponent not in there:
                raise ConfigError(
                    f"{who}: expected opponents of {facing} that learn or are frozen, got {match.opponent!r}"
                )
            if not match.probability >= 0:
                raise ConfigError(f"{who}: expected probabilities >= 0, got {match.probability} of {match.opponent}")
        total = sum(match.probability for match in matches)
        if not abs(total - 1) <= 1e-6:
            raise ConfigError(f"{who}: expected probabilities that sum to 1, got {total:g}")
        return [match for match in matches if match.probability]

    def _even(self) -> float:
        """See `LeagueConfig.even`."""
        c = self.config
        if c.even is not None or self.game.zero_sum or self.game.shared:
            return c.even or 0.0
        firsts = [[self._members(seat.role).index(self.roster.learning(seat.role)[0]) for seat in self.game.seats]]
        one_by_one, sampling = torch.tensor(firsts * c.episodes), Sampling(1, None, c.device, c.max_envs)
        ones = torch.ones(c.episodes, dtype=torch.int64)
        call = cells("even", self.game, self.pools(), one_by_one, ones, c.seed, sampling)
        first, second = gather(self.coordinator.executor, [call])[call.key].total.T  # at the start, when nothing runs
        return fair_line(first - second)

    # ---------------------------------------------------------------- learners

    def _config(self, name: str) -> TrainConfig:
        """How a player learns."""
        own = self.learning[name]
        learner = dataclasses.replace(self.train.learner, **own.settings)
        return dataclasses.replace(
            self.train, seed=derived(self.config.seed, "player", name, own.begun), learner=learner
        )

    def _learned(self, name: str) -> dict[str, Any]:
        """The weights of a player after its last training, as they are stored."""
        if name not in self.learned:  # it was trained before a kill
            state = self.store.state(f"learner.{name}", self.device) or {}
            role = self.roster.players[name].role
            self.learned[name] = _weights(part_of(state, f"learner.{role}."), self.live[name])
        return self.learned[name]

    def _put_live(self, name: str, weights: Mapping[str, Any]) -> None:
        """Others meet a player with these weights from now on."""
        self.store.put_state(f"live.{name}", weights)
        self.live[name] = self._policy(weights)

    def _policy(self, weights: Mapping[str, Any]) -> Policy:
        of_policy = {key: value for key, value in weights.items() if key.startswith(OF_POLICY)}
        return Policy.from_state(of_policy, self.device)

    # ---------------------------------------------------------------- changes

    def _change(self, number: int, changes: Sequence[Change]) -> None:
        """Makes changes: who is frozen is frozen before anything else, and sources of copies are as they learned."""
        for change in changes:
            self._check(change)
        sources = {change.source for change in changes if isinstance(change, Copy)}
        learned = {name: self._learned(name) for name in sources}
        settings = {name: dict(self.learning[name].settings) for name in sources}
        for change in sorted(changes, key=lambda change: not isinstance(change, Freeze)):
            match change:
                case Freeze(name):
                    self._freeze(number, name)
                case Reset(name):
                    first = self.store.state(f"first.{name}", self.device)
                    assert first is not None
                    self._begin_from(name, first)
                case Copy(name, source, factors):
                    self.learning[name].settings = self._multiplied(settings[source], factors)
                    self._begin_from(name, learned[source])
                case Enter(player):
                    self._enter(player)
                case Retire(name):
                    self.roster.retire(name)
                    self.store.drop_state(f"learner.{name}")
                    forget(self.id, name)

    def _check(self, change: Change) -> None:
        """ConfigError where a change cannot be made."""
        who, learning = f"{_name(self.builder)}.build_league: {change}", self.roster.learning()
        if isinstance(change, Enter):
            return
        if change.player not in learning:
            raise ConfigError(f"{who}: no player of this name learns, only {', '.join(learning):.200}")
        if isinstance(change, Copy):
            role = self.roster.players[change.player].role
            if change.source not in (known := self.roster.learning(role)):
                raise ConfigError(f"{who}: expected a source among those who learn, {', '.join(known):.200}")

    def _enter(self, player: Player) -> None:
        """A player begins to learn."""
        name = player.name
        if player.parent is not None or name == RANDOM_NAME or ":" in name:
            raise ConfigError(
                f"player {name}: expected one that learns (parent = None), whose name is not {RANDOM_NAME!r} and has "
                f"no ':', got {player}"
            )
        self.roster.add(player)
        self.learning[name] = Learning()
        alone = Draw(torch.tensor([[LEARNER if seat.role == player.role else RANDOM for seat in self.game.seats]]))
        pools = {role: [population[RANDOM]] for role, population in self.populations.items()}
        config = dataclasses.replace(self._config(name), device=self.device)
        learner = Training(self.game, alone, pools, config, even=self.even).learner(player.role)
        weights = _weights(learner.state_dict(), learner.policy())
        self.store.put_state(f"first.{name}", weights)
        self._put_live(name, weights)

    def _freeze(self, number: int, name: str) -> None:
        player, before = self.roster.players[name], self.roster.frozen(parent=name)
        population, own = self.populations[player.role], self.learning[name]
        parent = population.named(before[-1]).index if before else None
        told = {"player": name, "kind": player.kind, "steps": own.total_steps}
        copy = f"{name}:{len(before) + 1}"
        self.store.add_policy(player.role, self.live[name], name=copy, parent=parent, iteration=number, meta=told)
        self.roster.add(Player(copy, player.role, player.kind, parent=name))
        own.steps = 0

    def _begin_from(self, name: str, weights: Mapping[str, Any]) -> None:
        """A player goes on with other weights, in new worlds, and nobody has met it yet."""
        self.store.drop_state(f"learner.{name}")
        self.learning[name].begun += 1
        self.learning[name].steps = 0
        self.roster.win_rates.forget(name)
        self._put_live(name, weights)

    def _multiplied(self, settings: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
        """A learner's own settings, some of them multiplied: those that would leave what they allow stay at its end."""
        learner, found = dataclasses.replace(self.train.learner, **settings), dict(settings)
        allowed = {each.name: str(each.metadata.get("allowed")) for each in dataclasses.fields(learner)}
        for key, factor in factors.items():
            value = check_numeric(learner, key)
            if not 0 < factor < math.inf:
                raise ConfigError(
                    f"{_name(self.builder)}.build_league: Copy: {key}: expected a factor > 0, got {factor}"
                )
            least, most = BOUNDS.get(allowed[key], (-math.inf, math.inf))
            changed = value * factor
            found[key] = min(max(round(changed) if isinstance(value, int) else changed, least), most)
        dataclasses.replace(self.train, learner=dataclasses.replace(learner, **found))  # what else they ask for
        return found

    # ---------------------------------------------------------------- records

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What fails, or is interrupted, leaves nothing behind that the store does not have."""
        try:
            yield
        except BaseException:
            self._restore()
            raise

    def _keep(self, number: int, summary: Mapping[str, Any]) -> None:
        """Writes what the next iteration depends on, beside weights and worlds."""
        self.store.put("builder", _told(self.builder))
        self.store.put("players", [dataclasses.asdict(player) for player in self.roster.players.values()])
        self.store.put("retired", sorted(self.roster.retired))
        self.store.put("win_rates", self.roster.win_rates.to_json())
        self.store.put("learning", {name: dataclasses.asdict(each) for name, each in self.learning.items()})
        self.store.put("even", self.even)
        self.store.put_iteration(number, summary)

    def _restore(self) -> None:
        """Reads what `_keep` wrote, if there is anything."""
        store = self.store
        self.finished = max(store.iterations(), default=-1)
        self.coordinator.cancel()
        forget(self.id)
        self.filling: Filling | None = None
        self.learned: dict[str, dict[str, Any]] = {}  # weights of those who trained in this iteration
        self.live: dict[str, Policy] = {}  # learning players as they were when the iteration began
        self.even: float = store.get("even", 0.0)
        self.learning = {name: Learning(**each) for name, each in store.get("learning", {}).items()}
        rates = store.get("win_rates")
        self.roster = Roster(self.game, WinRates(self.config.decay) if rates is None else WinRates.from_json(rates))
        if (began := store.get("builder", _told(self.builder))) != _told(self.builder):
            raise CheckpointError(f"{store.path}: began with {began}, got {_told(self.builder)}")
        for each in store.get("players", []):
            self.roster.add(Player(**each))
        self.roster.retired = set(store.get("retired", []))
        for name in self.learning:
            weights = store.state(f"live.{name}", self.device)
            if weights is None:
                raise CheckpointError(f"{store.path}: player {name}: expected its weights, got none (damaged)")
            self.live[name] = self._policy(weights)

    def evaluate(self) -> PayoffTable:
        """Plays what is missing of the payoff table of all frozen players and the random one."""
        with self._whole():
            self._payoffs().finish("payoffs")
            return self._payoffs().table

    def _payoffs(self) -> Filling:
        """The payoff table; what was planned of it is given out when it is first asked for."""
        if self.filling is None:
            c = self.config
            sampling = Sampling(c.episodes, None, c.device, c.max_envs, self.even)
            self.filling = Filling(self.store, self.coordinator, sampling, c.seed)
        return self.filling


def fair_line(difference: Tensor) -> float:
    """Where to draw the line between wins of one and of the other so that both win as often as can be.

    The mean is no such line where some episodes give much, nor is the median where many give the same.

    Args:
        difference: (N,), by how much one earned more than the other in each of several episodes.
    """
    values = difference.double().sort().values
    seen = values.unique()
    lines = torch.cat([seen, (seen[1:] + seen[:-1]) / 2])
    lost, won = torch.searchsorted(values, lines), len(values) - torch.searchsorted(values, lines, right=True)
    return float(lines[(won - lost).abs().argmin()])


def _task(number: int, name: str) -> str:
    return f"{number}/train/{name}"


def _name(builder: LeagueBuilder) -> str:
    return type(builder).__name__


def _told(builder: LeagueBuilder) -> str:
    """A builder in words, as far as its settings are known."""
    return f"{_name(builder)}({getattr(builder, 'config', '')!r})"


def _weights(state: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """What of a learner's state makes up its networks, and the shape of its policy."""
    weights = {key: value for key, value in state.items() if key.startswith("net.")}
    return {**weights, "spec": json.dumps(policy.spec)}


def _summary(roster: Roster, results: Mapping[str, Mapping[str, Any]], changes: Sequence[Change]) -> dict[str, Any]:
    """What there is to say of an iteration: matches by pair, by role and by kinds, win rates, changes."""
    matches = {name: {who: games for who, games, *_ in result["matches"]} for name, result in results.items()}
    roles, kinds = dict.fromkeys(roster.game.roles, 0), dict[str, int]()
    for name, met in matches.items():
        for who, games in met.items():
            one, other = roster.players[name], roster.players[who]
            pair = f"{one.kind} - {'frozen ' if other.parent else ''}{other.kind}"
            kinds[pair] = kinds.get(pair, 0) + games
            roles[one.role] += games
    return {
        "players": len(roster.players),
        "matches": matches,
        "matches_by_role": roles,
        "matches_by_kind": kinds,
        "win_rates": {n: {who: roster.win_rates.rate(n, who) for who in met} for n, met in matches.items()},
        "changes": [f"{type(each).__name__.lower()} {_named(each)}" for each in changes],
        **{
            key: {name: None if math.isnan(result[key]) else result[key] for name, result in results.items()}
            for key in ("return", "score", "steps", "episodes")
        },
    }


def _named(change: Change) -> str:
    return change.player.name if isinstance(change, Enter) else change.player
