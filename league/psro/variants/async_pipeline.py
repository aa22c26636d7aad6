"""Asynchronous pipeline PSRO: every level trains on, whatever the others do.

Source: McAleer et al. 2020 (P2SRO), whose levels have workers of their own and do not wait for each other. When a
segment of a level's training ends, its policy replaces the earlier one as an opponent of the levels above. The level
starts its next segment at once, while its payoff cells are simulated. Meta-strategies follow from the newest payoffs.

A level that is not the lowest trains for all segments except the last `num_segments`, which it trains as the lowest
against fixed policies only. A role trains `pipeline_depth` levels at any time: when a level has to wait, the next level
above begins. When the lowest level of every role is finished, these policies become fixed, and the iteration ends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.executors import LazyValue, RemoteTask
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.context import PSROContext
from league.psro.store_update import ComputedUpdate, StoreUpdate
from league.psro.variants.base import Work
from league.psro.variants.pipeline import PipelineSegment, PipelineVariant, learner_state, policy_state, train_segment
from league.rollout.matchup_distribution import MatchupDistribution
from league.rollout.matchups import MatchupResults
from league.rollout.payoff_table import PayoffTable
from league.storage.run_config import table_of
from league.storage.run_store import derive_named_seed
from league.storage.store_reader import StoreReader

__all__ = ["AsyncPipelineVariant", "LevelProgress"]

SEGMENT, MEET = "segment", "meet"
"""First words in the names of tasks: a segment of a level, and the payoffs of its policy after it."""
SEGMENT_FIELDS = {"return": float, "lowest": bool}
"""Fields of the result of a segment that are read, and their types."""
MEET_FIELDS: dict[str, Any] = {
    "matchups": list[list[int]],
    "count": list[int],
    **dict.fromkeys(("total", "square", "score"), list[list[float]]),
}
"""Fields of the result of payoffs, see `MatchupResults`, and their types."""
Level = tuple[str, int]  # role, and place in its population


@dataclasses.dataclass
class LevelProgress:
    """Completed segments of a level."""

    segments: int = 0
    """Number of segments."""
    returns: list[float] = dataclasses.field(default_factory=list)
    """Mean returns of the segments in which it was the lowest level."""


class AsyncPipelineVariant(PipelineVariant):
    """Asynchronous pipeline PSRO, see the documentation of the module. One object serves one run."""

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant; raise ConfigError if responses are exact, since these need no training."""
        super().__init__(game, config)
        self._context: PSROContext | None = None
        self._levels: dict[Level, LevelProgress] = {}
        self._running: dict[str, set[int]] = {role: set() for role in game.roles}
        self._meets: dict[tuple[int, ...], MatchupResults] = {}  # newest results of matchups with levels

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work]]:
        """Yield the first segments; then no work, until the lowest levels are finished; then the fixed policies."""
        if self._context is None:
            self._read(context.store)
        self._context = context
        yield [work for role in self.game.roles for work in self._next_segments(role)]
        while not self._all_closed(context):
            yield []
        tasks = self.tasks(context)
        yield [self._fixed(context, task.name, task.role, self._place(context, task.role)) for task in tasks]

    def _read(self, store: StoreReader) -> None:
        """Read the completed segments and payoffs of an interrupted run."""
        for task in store.tasks():
            word, *parts = task.split("/")
            if word == SEGMENT:
                role, place = "/".join(parts[:-2]), int(parts[-2])
                self._count(role, place, store.result(task, SEGMENT_FIELDS))
            elif word == MEET:
                self._note_payoffs(store.result(task, MEET_FIELDS))

    def _count(self, role: str, place: int, result: Mapping[str, Any]) -> None:
        """Count a segment."""
        level = self._levels.setdefault((role, place), LevelProgress())
        level.segments += 1
        if result["lowest"]:
            level.returns.append(result["return"])

    def _all_closed(self, context: PSROContext) -> bool:
        """Return whether the lowest level of every role has finished its training."""
        return all(self._is_closed(role, self._place(context, role)) for role in self.game.roles)

    def _is_closed(self, role: str, place: int) -> bool:
        """Return whether the lowest level of a role, which has this place, has finished its training."""
        level, tolerance = self._levels.get((role, place), LevelProgress()), self.config.plateau_tolerance
        if place in self._running[role]:
            return False
        if len(level.returns) >= self.config.num_segments:
            return True
        return tolerance is not None and len(level.returns) > 1 and level.returns[-1] - level.returns[-2] <= tolerance

    # ---------------------------------------------------------------- segments

    def _next_segments(self, role: str) -> list[ComputedUpdate]:
        """Return segments for the lowest levels of a role that may train, so that `pipeline_depth` levels do."""
        context = self._context
        assert context is not None
        if context.iteration == self.config.iterations and self._all_closed(context):
            return []  # the run ends
        found, lowest = [], self._place(context, role)
        most, place = (self.depth - 1) * self.config.num_segments, lowest
        while len(self._running[role]) < self.depth:
            if place == lowest:
                may_train = not self._is_closed(role, place)
            else:
                may_train = self._levels.get((role, place), LevelProgress()).segments < most
            if may_train and place not in self._running[role]:
                self._running[role].add(place)
                found.append(self._segment_of(context, role, place, place == lowest))
            if not most and place > lowest:
                break
            place += 1
        return found

    def _segment_of(self, context: PSROContext, role: str, place: int, lowest: bool) -> ComputedUpdate:
        """Return the next segment of a level, against the newest policies of the levels below."""
        assert context.train is not None
        step = f"{SEGMENT}/{role}/{place}/{self._levels.get((role, place), LevelProgress()).segments + 1}"
        train = dataclasses.replace(context.train, seed=derive_named_seed(self.config.seed, "pipeline", role, place))
        fixed = torch.tensor([len(context.opponents.marginals[seat]) for seat in range(len(self.game.seats))])

        def update(learned: PipelineSegment) -> StoreUpdate:
            self._running[role].discard(place)
            self._count(role, place, {"return": learned.tally.mean_return(), "lowest": lowest})
            return self.segment_update(step, role, place, learned, fixed, lowest=lowest)

        marginals = context.opponents.marginals if lowest else self._opponents_of(context, place)
        pools = self._pools(context, policy_state, place)
        arguments = {
            "game": self.game,
            "role": role,
            "draw": MatchupDistribution.against(self.game, role, marginals),
            "train": train,
            "state": LazyValue(lambda: context.store.state(learner_state(role, place))),
            "iterations": self.segment_iterations(context.train),
        }
        task = RemoteTask(step, train_segment, pools, arguments, learns=True, device=self.config.device)
        return ComputedUpdate(task, update, functools.partial(self._follow_up, role, place), lane=f"{role}/{place}")

    def _follow_up(self, role: str, place: int) -> list[ComputedUpdate]:
        """Return the next segments of a role, and the payoffs of the new policy of one of its levels."""
        return [*self._next_segments(role), *self._meet(role, place)]

    # ---------------------------------------------------------------- payoffs of levels

    def _opponents_of(self, context: PSROContext, place: int) -> Sequence[Tensor]:
        """Return the marginals over the policies below a place whose payoffs are all known."""
        least = max(len(marginal) for marginal in context.opponents.marginals)
        meta_game = self._table(context).meta_game()
        for size in range(min(place, *meta_game.shape[1:]), least, -1):
            below = meta_game[(slice(None), *[slice(size)] * len(self.game.seats))]
            if not bool(below.isnan().any()):
                return context.solve(below).marginals
        return context.opponents.marginals

    def _table(self, context: PSROContext, without: Level | None = None) -> PayoffTable:
        """Return the payoffs of fixed policies, and the newest ones of levels, all or without those of one level."""
        table = table_of(context.store)
        known = table.count
        for matchup, results in self._meets.items():
            fixed = all(index < size for index, size in zip(matchup, known.shape, strict=True))
            if without is not None and _plays(self.game, matchup, without):
                continue
            if not (fixed and known[matchup]):
                table.add([matchup], results)
        return table

    def _meet(self, role: str, place: int) -> list[ComputedUpdate]:
        """Return the simulation of a level's new policy against all others, if a level above needs it."""
        context, config = self._context, self.config
        assert context is not None
        if all(place >= other for _, other in self._levels):
            return []
        pools = self._pools(context, policy_state)
        table = self._table(context, without=(role, place))
        table.grow({each: len(pool) for each, pool in pools.items()})
        matchups, episodes = table.missing(config.episodes_per_matchup)
        own = torch.tensor([_plays(self.game, matchup, (role, place)) for matchup in matchups.tolist()])
        if not len(matchups) or not bool(own.any()):
            return []
        matchups, episodes = matchups[own], episodes[own]
        number = self._levels[role, place].segments
        key = f"{MEET}/{role}/{place}/{number}"  # the seed of the episodes follows from it

        def update(results: MatchupResults) -> StoreUpdate:
            sums = {name: getattr(results, name).tolist() for name in ("count", "total", "square", "score")}
            result = {"matchups": matchups.tolist(), **sums}
            self._note_payoffs(result)
            return StoreUpdate(key, result=result)

        sampling = PayoffSamplingConfig(config.episodes_per_matchup, None, config.device, config.eval_num_envs)
        task = payoff_task(key, self.game, pools, matchups, episodes, config.seed, sampling)
        return [ComputedUpdate(task, update, lane=f"{MEET}/{role}/{place}")]

    def _note_payoffs(self, result: Mapping[str, Any]) -> None:
        """Keep the newest results of matchups."""
        count, *sums = (
            torch.tensor(result[name], dtype=torch.int64 if name == "count" else torch.float64)
            for name in ("count", "total", "square", "score")
        )
        for row, matchup in enumerate(result["matchups"]):
            kept = MatchupResults(count[row : row + 1], *(each[row : row + 1] for each in sums))
            self._meets[tuple(matchup)] = kept


def _plays(game: Game, matchup: Sequence[int], level: Level) -> bool:
    """Return whether a level has a seat of a matchup."""
    return any(seat.role == level[0] and index == level[1] for seat, index in zip(game.seats, matchup, strict=True))
