"""Who plays whom while learners train: matchups drawn at every reset of a world, on the device, never in between."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError
from league.ensemble import Ensemble
from league.game import Game
from league.matches import scores
from trainers.agents import members_of
from trainers.learner import State, part_of, restore_generator
from trainers.policy import Plays
from trainers.settings import derived_seed

LEARNER = -1
"""In a matchup: the policy that the seat's role is learning."""
NEGLIGIBLE = 1e-12
"""Probabilities below are taken for a solver's rounding, and are never drawn."""


@dataclass(frozen=True, eq=False)
class Draw:
    """A distribution over K matchups: whom a world seats at its next reset."""

    matchups: Tensor
    """(K, S) int64: index into the population of each seat's role, or LEARNER."""
    probability: Tensor | None = None
    """(K,) float64; None: all the same."""
    learns: Tensor | None = None
    """(K, S) bool, whose steps are learned from; None: those of all learners."""

    def __post_init__(self) -> None:
        """Copies to the host; ConfigError where shapes or values make no distribution."""
        matchups = torch.as_tensor(self.matchups).to("cpu", torch.int64, copy=True)
        if matchups.dim() != 2 or not len(matchups) or bool((matchups < LEARNER).any()):
            raise ConfigError(f"matchups: expected (K, S) indices or {LEARNER} for the learner, got {matchups!r:.200}")
        count = len(matchups)
        given = torch.ones(count) if self.probability is None else torch.as_tensor(self.probability)
        probability = given.detach().to("cpu", torch.float64, copy=True)
        if probability.shape != (count,) or not bool((probability.isfinite() & (probability >= 0)).all()):
            raise ConfigError(f"probability: expected {count} finite numbers >= 0, got {probability!r:.200}")
        if not float(probability.sum()) > 0:
            raise ConfigError("probability: expected some matchup to be possible, all are 0")
        sits = matchups == LEARNER
        learns = sits if self.learns is None else torch.as_tensor(self.learns).to("cpu", torch.bool, copy=True)
        if learns.shape != matchups.shape or bool((learns & ~sits).any()):
            raise ConfigError("learns: expected (K, S) bool, True only where the matchup seats the learner")
        for name, value in (("matchups", matchups), ("learns", learns)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "probability", probability / probability.sum())

    @classmethod
    def against(
        cls,
        game: Game,
        role: str,
        marginals: Sequence[Tensor] | None = None,
        *,
        joint: Tensor | None = None,
        given: int | None = None,
    ) -> Draw:
        """What a best response of a role to a meta-strategy trains with.

        The learner sits in every seat of its role equally often, and others play all other seats.

        Args:
            game: Names roles and seats.
            role: Whose best response it is.
            marginals: (N_s,) per seat, from which the others are drawn independently; or
            joint: (N_1, ..., N_S), a distribution over profiles, such as a (coarse) correlated equilibrium. The others
                are drawn from its marginal, as in JPSRO (Marris et al. 2021).
            given: With `joint`, what it recommends to the learner's seat: the others are drawn from the joint given
                that. There is one best response for each recommendation of a correlated equilibrium.

        Raises:
            ConfigError: No such role, or not one distribution of this many seats.
        """
        seats, count = game.seats_of(role), len(game.seats)
        if not seats:
            raise ConfigError(f"{game.env_id}: no role {role!r}, only {', '.join(game.roles)}")
        if (marginals is None) == (joint is None) or (given is not None and joint is None):
            raise ConfigError("best response: expected marginals, or joint (and given, of a joint), not both")
        if (axes := len(marginals) if marginals is not None else joint.dim() if joint is not None else 0) != count:
            raise ConfigError(f"best response: expected a meta-strategy of {count} seats, got one of {axes}")
        parts = []
        for seat in seats:
            weight = torch.ones((), dtype=torch.float64)
            if joint is not None:
                weight = joint.double().cpu()
                weight = weight.sum(seat) if given is None else weight.select(seat, given)
            elif marginals is not None:
                for other, marginal in enumerate(marginals):
                    if other != seat:
                        weight = weight.unsqueeze(-1) * torch.as_tensor(marginal).double().cpu()
            if not bool(weight.isfinite().all()) or float(weight.min()) < -1e-6 or not float(weight.sum()) > NEGLIGIBLE:
                raise ConfigError("best response: expected probabilities of the others, some above 0")
            others = (weight > NEGLIGIBLE).nonzero()
            learner = torch.full((len(others), 1), LEARNER)
            matchups = torch.cat([others[:, :seat], learner, others[:, seat:]], 1)
            parts.append((1.0, cls(matchups, weight[tuple(others.T)])))
        return cls.mix(parts)

    @classmethod
    def self_play(cls, game: Game) -> Draw:
        """Learners in all seats."""
        return cls(torch.full((1, len(game.seats)), LEARNER))

    @classmethod
    def mix(cls, parts: Iterable[tuple[float, Draw]]) -> Draw:
        """One of several draws, with probabilities in proportion to the numbers before them.

        Raises:
            ConfigError: All numbers are 0.
        """
        parts = [(weight, draw) for weight, draw in parts if weight]
        if not parts:
            raise ConfigError("draws to mix: expected some with a weight above 0, got none")
        return cls(
            torch.cat([draw.matchups for _, draw in parts]),
            torch.cat([weight * _there(draw.probability) for weight, draw in parts]),
            torch.cat([_there(draw.learns) for _, draw in parts]),
        )


@dataclass(frozen=True, eq=False)
class Tally:
    """What episodes gave, by matchup; on the host."""

    matchups: Tensor
    """(K, S) int64, as in `Draw`, and so the next."""
    learns: Tensor
    """(K, S) bool."""
    begun: Tensor
    """(K,) int64, episodes that began."""
    count: Tensor
    """(K,) int64, episodes that ended."""
    total: Tensor
    """(K, S) float64, sum over episodes of what each seat's agents earned together."""
    square: Tensor
    """(K, S) float64, sum of the squares of that."""
    score: Tensor
    """(K, S) float64, sum over episodes of wins, draws half, see `league.matches.scores`."""

    @classmethod
    def sum(cls, tallies: Sequence[Tally]) -> Tally:
        """All of one or more together."""
        keys = torch.cat([torch.cat([tally.matchups, tally.learns.long()], 1) for tally in tallies])
        rows, place = torch.unique(keys, dim=0, return_inverse=True)
        matchups, learns = rows.chunk(2, 1)
        found = []
        for name in ("begun", "count", "total", "square", "score"):
            values = torch.cat([getattr(tally, name) for tally in tallies])
            found.append(values.new_zeros((len(rows), *values.shape[1:])).index_add_(0, place, values))
        return cls(matchups, learns.bool(), *found)

    def mean_return(self) -> float:
        """What a learning seat earned per episode; NaN where none ended."""
        return self._of_learners(self.total)

    def mean_score(self) -> float:
        """The same of scores: 1 is to win always."""
        return self._of_learners(self.score)

    def _of_learners(self, sums: Tensor) -> float:
        episodes = float((self.learns * self.count.unsqueeze(1)).sum())
        return float(sums[self.learns].sum()) / episodes if episodes else math.nan


class Seating:
    """The opposition of a training (see `trainers.opposition`): who sits in every world, and what came of it.

    Each world draws a matchup when it resets and keeps it for the whole episode, across rollouts and across changes of
    the draw. What episodes gave is added up on the device, and read once per iteration.
    """

    def __init__(
        self,
        core: Core,
        game: Game,
        draw: Draw,
        pools: Mapping[str, Sequence[Plays]],
        seed: int = 0,
        even: float = 0.0,
    ) -> None:
        """Seats the first matchup of every world.

        Args:
            core: Worlds of the game that reset themselves.
            game: Its seats.
            draw: Whom to seat; roles that it seats a learner of have one, now and later.
            pools: Policies by role, in the order of `Draw.matchups`. Roles that nobody is drawn from may be left out.
            seed: Of the draws and of what the policies sample.
            even: Of two seats: by how much the first earns more than the second in a draw.

        Raises:
            ConfigError: The draw does not fit the game or the pools.
        """
        self.core, self.game, self.seed = core, game, seed
        self.even = torch.tensor(even, dtype=torch.float64, device=core.device)  # a graph that was captured reads it
        self.learners = tuple(
            role
            for role in game.roles
            if draw.matchups.shape[1] == len(game.seats)
            and bool((draw.matchups[:, list(game.seats_of(role))] == LEARNER).any())
        )
        device, seats = core.device, len(game.seats)
        shape = (core.num_envs, core.num_agents)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.side = torch.zeros(core.num_agents, dtype=torch.int64, device=device)  # the seat of each agent
        for index, seat in enumerate(game.seats):
            self.side[members_of(core, seat.members)] = index
        self.drawn = torch.zeros(core.num_envs, dtype=torch.int64, device=device)  # rows of the table
        self.who = torch.full((core.num_envs, seats), LEARNER, device=device)
        self.learns = torch.zeros(shape, dtype=torch.bool, device=device)
        self.rows: dict[tuple[tuple[int, ...], tuple[bool, ...]], int] = {}  # of the table: matchup, who learns
        self.stale = True  # the ensembles have not heard yet who sits where
        self.version, self.pools = 0, {role: list(pools.get(role, ())) for role in game.roles}
        self.ensembles: dict[int, Ensemble] = {}
        self.playing: dict[int, list[Plays]] = {}  # what each was made of
        # by row: matchup, the agents that learn, probability of it or one before, and what `Tally` has
        self.matchups, self.learning, self.cumulative = self.who[:0], self.learns[:0], self.drawn[:0]
        self.kept = torch.zeros((0, 2 + 3 * seats), dtype=torch.float64, device=device)
        self.replace(draw)
        self._seat(torch.ones(core.num_envs, dtype=torch.bool, device=device))

    @property
    def waits(self) -> bool:
        """Weights of policies have to be brought from the host while a rollout goes on."""
        return any(ensemble.paged for ensemble in self.ensembles.values())

    @property
    def generators(self) -> list[torch.Generator]:
        """Of the draws, and of the policies' samples."""
        drawn = [each for ensemble in self.ensembles.values() for each in ensemble.generators]
        return list({id(each): each for each in (self.generator, *drawn)}.values())

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Writes the actions of all who are no learners into those of all agents (E, A[, K])."""
        for seat, ensemble in self.ensembles.items():
            if self.stale or core.device.type != "cpu":  # on a GPU always: every replay of a graph begins here
                ensemble.seat(self.who[:, seat])
            ensemble.act(core.obs, info, into=into)
        self.stale = False

    def observe(self, core: Core, info: Mapping[str, Tensor], restarted: Tensor) -> None:
        """Counts the episodes that ended, and seats anew where one begins, (E,) bool."""
        if core.device.type == "cpu" and not bool(restarted.any()):
            return
        ended = restarted.unsqueeze(1)
        earned = torch.zeros_like(self.who, dtype=torch.float64).index_add_(
            1, self.side, info["episode_return"].double()
        )
        found = torch.cat([ended, earned, earned.square(), scores(earned, self.even)], 1).masked_fill_(~ended, 0.0)
        self.kept[:, 1:].index_add_(0, self.drawn, found)
        self._seat(restarted)

    def _seat(self, where: Tensor) -> None:
        """Draws a matchup for the worlds (E,) bool."""
        dice = torch.rand(len(where), generator=self.generator, dtype=torch.float64, device=self.core.device)
        rows = torch.searchsorted(self.cumulative, dice, right=True)  # the first whose cumulative is greater
        self.drawn.copy_(torch.where(where, rows, self.drawn))
        self.kept[:, 0].index_add_(0, self.drawn, where.double())
        self._settle()

    def _settle(self) -> None:
        """Makes everything as the rows of the worlds say."""
        torch.index_select(self.matchups, 0, self.drawn, out=self.who)
        torch.index_select(self.learning, 0, self.drawn, out=self.learns)
        self.stale = True

    # ---------------------------------------------------------------- between rollouts

    def replace(
        self, draw: Draw, pools: Mapping[str, Sequence[Plays]] | None = None, even: float | None = None
    ) -> None:
        """Another draw from now on, which each world takes up at its next reset.

        Args:
            draw: It seats learners of no other roles than the first one did.
            pools: Policies by role, where there are more now, or other ones at the places of those from before: they
                take over in the middle of an episode.
            even: See there; None: as before.

        Raises:
            ConfigError: The draw does not fit the game or the pools, which then stay as they were.
        """
        pools = {**self.pools, **{role: list(pool) for role, pool in (pools or {}).items()}}
        self._check(draw, pools)
        keys = _keys(draw.matchups, _there(draw.learns))
        for key in keys:
            self.rows.setdefault(key, len(self.rows))
        self._lay_out()
        rows = torch.tensor([self.rows[key] for key in keys])
        weight = torch.zeros(len(self.cumulative), dtype=torch.float64).index_add_(0, rows, _there(draw.probability))
        self.cumulative.copy_(weight.cumsum(0) / weight.cumsum(0)[-1])
        for seat, each in enumerate(self.game.seats):
            self._fill(seat, pools[each.role], bool((draw.matchups[:, seat] != LEARNER).any()))
        self.pools = pools
        if even is not None:
            self.even.fill_(even)

    def reseed(self, seed: int) -> None:
        """Restarts the streams that the policies of others sample from, not that of the draws."""
        for seat, ensemble in self.ensembles.items():
            ensemble.seed(derived_seed(seed, 1 + seat))

    def read(self) -> Tally:
        """What happened since the last reading; waits for the device."""
        kept = self.kept[: len(self.rows)].to("cpu", copy=True)
        self.kept.zero_()
        seen = kept[:, :2].any(1)
        matchups, learns = self._table()
        (begun, count), sums = kept[seen, :2].long().T, kept[seen, 2:].chunk(3, 1)
        return Tally(matchups[seen], learns[seen], begun, count, *sums)

    def state_dict(self) -> State:
        """Who sits where, the draw, what was counted since the last reading, streams and memories."""
        count, (matchups, learns) = len(self.rows), self._table()
        state: State = {"matchups": matchups, "learns": learns, "drawn": self.drawn.clone()}
        state |= {"cumulative": self.cumulative[:count].clone(), "kept": self.kept[:count].clone()}
        state["generator"] = self.generator.get_state()
        for seat, ensemble in self.ensembles.items():
            state |= {f"ensemble.{seat}.{name}": each for name, each in ensemble.state_dict().items()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`, with equal pools or larger ones; CheckpointError where it does not fit."""
        found: dict[str, Tensor] = {}
        for name in ("matchups", "learns", "drawn", "cumulative", "kept", "generator"):
            value = state.get(name)
            if not isinstance(value, Tensor):
                raise CheckpointError(f"opposition {name}: expected a tensor, got {value!r:.80}")
            found[name] = value
        if found["drawn"].shape != self.drawn.shape or found["matchups"].shape[1:] != self.who.shape[1:]:
            worlds, seats = self.who.shape
            raise CheckpointError(f"opposition: expected {worlds} worlds of {seats} seats, got another number")
        for each, most in zip(self.game.seats, found["matchups"].amax(0).tolist(), strict=True):
            if most >= (size := len(self.pools[each.role])):
                raise CheckpointError(
                    f"opposition: seat {each.name}: expected over {most} policies, got a pool of {size}"
                )
        count, drawn = len(found["matchups"]), found["drawn"]
        shapes = {"matchups": (count, len(self.game.seats)), "learns": (count, len(self.game.seats))}
        shapes |= {"cumulative": (count,), "kept": (count, *self.kept.shape[1:])}
        for name, shape in shapes.items():
            if found[name].shape != shape:
                raise CheckpointError(f"opposition {name}: expected shape {shape}, got {tuple(found[name].shape)}")
        if found["matchups"].min() < LEARNER or drawn.min() < 0 or drawn.max() >= count:
            raise CheckpointError(f"opposition: expected matchups >= {LEARNER}, drawn in [0, {count}), got others")
        restore_generator("opposition generator", self.generator, found["generator"])
        self.rows = {key: row for row, key in enumerate(_keys(found["matchups"], found["learns"]))}
        self._lay_out()
        self.cumulative.fill_(1.0)[: len(self.rows)].copy_(found["cumulative"])
        self.kept.zero_()[: len(self.rows)].copy_(found["kept"])
        self.drawn.copy_(found["drawn"])
        for seat, each in enumerate(self.game.seats):
            self._fill(seat, self.pools[each.role], bool((found["matchups"][:, seat] != LEARNER).any()))
        self._settle()
        for seat, ensemble in self.ensembles.items():
            _carry_on(ensemble, part_of(state, f"ensemble.{seat}."))

    def _table(self) -> tuple[Tensor, Tensor]:
        """(R, S) int64 and bool: all matchups that ever were in the draw, and who learns in them."""
        matchups, learns = zip(*self.rows, strict=True)
        return torch.tensor(matchups), torch.tensor(learns)

    def _lay_out(self) -> None:
        """Brings the device's tables up to date with `rows`; makes larger ones where there is no room."""
        device, seats, capacity = self.core.device, len(self.game.seats), len(self.cumulative)
        if len(self.rows) > capacity:
            capacity, before = max(64, 1 << (len(self.rows) - 1).bit_length()), self.kept
            self.matchups = torch.full((capacity, seats), LEARNER, device=device)
            self.learning = torch.zeros((capacity, len(self.side)), dtype=torch.bool, device=device)
            self.cumulative = torch.ones(capacity, dtype=torch.float64, device=device)
            self.kept = torch.zeros((capacity, 2 + 3 * seats), dtype=torch.float64, device=device)
            self.kept[: len(before)].copy_(before)
            self.version += 1
        matchups, learns = self._table()
        self.matchups[: len(matchups)].copy_(matchups)
        self.learning[: len(learns)].copy_(learns[:, self.side.cpu()])

    def _fill(self, seat: int, pool: Sequence[Plays], needed: bool) -> None:
        """Sees that those who may be drawn for a seat are there to play."""
        known, there = self.ensembles.get(seat), self.game.seats[seat]
        if known is None and not needed:
            return
        if known is not None and known.size == len(pool) and all(map(operator.is_, self.playing[seat], pool)):
            return
        self.playing[seat] = list(pool)
        self.ensembles[seat] = ensemble = Ensemble(pool, self.core, there)
        ensemble.seed(derived_seed(self.seed, 1 + seat))
        if known is not None:  # who plays already goes on with what it remembers
            _carry_on(ensemble, known.state_dict())
        self.version, self.stale = self.version + 1, True

    def _check(self, draw: Draw, pools: Mapping[str, Sequence[Plays]]) -> None:
        """Raises ConfigError where a draw does not fit."""
        seats = self.game.seats
        if draw.matchups.shape[1] != len(seats):
            got = draw.matchups.shape[1]
            raise ConfigError(f"{self.game.env_id}: expected matchups of {len(seats)} seats, got {got}")
        for index, seat in enumerate(seats):
            drawn, size = draw.matchups[:, index], len(pools[seat.role])
            if seat.role not in self.learners and bool((drawn == LEARNER).any()):
                raise ConfigError(f"role {seat.role}: the draw seats its learner, but it has none")
            if int(drawn.max()) >= size:
                raise ConfigError(f"role {seat.role}: the draw seats policy {int(drawn.max())} of a pool of {size}")
            if size < len(self.pools[seat.role]):
                raise ConfigError(
                    f"role {seat.role}: expected its pool to keep its {len(self.pools[seat.role])} policies"
                )


def narrow(game: Game, matchups: Tensor) -> tuple[dict[str, list[int]], Tensor]:
    """By role who is named in matchups (K, S), ascending, and the matchups with places among them instead."""
    narrowed, kept = matchups.clone(), dict[str, list[int]]()
    for role in game.roles:
        seats = list(game.seats_of(role))
        own = matchups[:, seats]
        who = own[own != LEARNER].unique()
        narrowed[:, seats] = torch.where(own == LEARNER, LEARNER, torch.searchsorted(who, own))
        kept[role] = who.tolist()
    return kept, narrowed


def widen(game: Game, kept: Mapping[str, Sequence[int]], narrowed: Tensor) -> Tensor:
    """The matchups (K, S) that were narrowed."""
    matchups = narrowed.clone()
    for index, seat in enumerate(game.seats):
        who, own = torch.tensor([LEARNER, *kept[seat.role]]), narrowed[:, index]
        matchups[:, index] = who[own + 1]
    return matchups


def _carry_on(ensemble: Ensemble, state: Mapping[str, object]) -> None:
    """Gives an ensemble the streams and memories of one with as many policies, or fewer."""
    own = ensemble.state_dict()
    for name, value in state.items():
        if name in own and isinstance(value, Tensor) and value.shape == own[name].shape:
            own[name] = value
    ensemble.load_state_dict({**own})


def _keys(matchups: Tensor, learns: Tensor) -> list[tuple[tuple[int, ...], tuple[bool, ...]]]:
    return [(tuple(who), tuple(flags)) for who, flags in zip(matchups.tolist(), learns.tolist(), strict=True)]


def _there(value: Tensor | None) -> Tensor:
    """What `Draw` has filled in."""
    assert value is not None
    return value
