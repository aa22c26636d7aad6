"""Asynchronous pipeline PSRO: a level does not wait for other levels.

Source: McAleer et al. 2020 (P2SRO), whose levels have their own workers and do not wait for each other. When a
segment of a level's training ends, its policy replaces the earlier one as an opponent of the levels above. The level
starts its next segment at once, while its payoff cells are simulated. Meta-strategies follow from the newest payoffs.

The last `num_segments` segments of a response are trained as the lowest level, against fixed policies only. A higher
level waits before them. A role trains `pipeline_depth` levels at once: while some wait, further levels above them
train, up to `MAX_DEPTHS` times `pipeline_depth`. When the lowest level of every role is finished, these policies become
fixed, and the iteration ends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.game import Game
from league.matchups.matchups import MatchupResults
from league.matchups.payoff_table import PayoffTable
from league.psro.config import PSROConfig
from league.psro.variants.pipeline import PipelineSegment, PipelineVariant, policy_state
from league.psro.work import ComputedUpdate, PSROContext, StoreUpdate, Work
from league.storage.run_config import table_of
from league.storage.run_store import RunStore

SEGMENT, PAYOFFS = "segment", "level-payoffs"
"""First words in the names of tasks: a segment of a level, and the payoffs of its policy after it."""
MAX_DEPTHS = 2
"""Largest number of levels of a role that train or wait, as a multiple of `pipeline_depth`."""
SEGMENT_FIELDS = {"return": float, "lowest": bool}
"""Fields of the result of a segment that are read, and their types."""
PAYOFF_FIELDS: dict[str, Any] = {
    "matchups": list[list[int]],
    **dict.fromkeys(("versions", "count"), list[int]),
    **dict.fromkeys(("total", "square", "score"), list[list[float]]),
}
"""Fields of the result of payoffs, see `MatchupResults`, and their types. A version is the number of segments of all
levels in the matchup."""
SUMS = ("count", "total", "square", "score")
"""Fields of `MatchupResults`."""
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
        self._newest: dict[tuple[int, ...], tuple[int, MatchupResults]] = {}  # versions and results with levels
        self._in_flight: dict[str, set[tuple[int, ...]]] = {}  # matchups by task

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work] | None]:
        """Yield the first segments; then no work, until the lowest levels are finished; then the fixed policies."""
        if self._context is None:
            self._read(context.store)
        self._context = context
        yield [work for role in self.game.roles for work in self._next_segments(role)]
        while not self._all_closed(context):
            yield None
        tasks = self.tasks(context)
        yield [self._fixed(context, task.name, task.role, self._lowest_index(context, task.role)) for task in tasks]

    def _read(self, store: RunStore) -> None:
        """Read the completed segments and payoffs of an interrupted run."""
        for task in store.tasks():
            word, *parts = task.split("/")
            if word == SEGMENT:
                role, index = "/".join(parts[:-2]), int(parts[-2])
                self._count(role, index, store.result(task, SEGMENT_FIELDS))
            elif word == PAYOFFS:
                self._note_payoffs(store.result(task, PAYOFF_FIELDS))

    def _count(self, role: str, index: int, result: Mapping[str, Any]) -> None:
        """Count a segment."""
        level = self._progress(role, index)
        level.segments += 1
        if result["lowest"]:
            level.returns.append(result["return"])

    def _all_closed(self, context: PSROContext) -> bool:
        """Return whether the lowest level of every role has finished its training."""
        return all(self._is_closed(role, self._lowest_index(context, role)) for role in self.game.roles)

    def _is_closed(self, role: str, index: int) -> bool:
        """Return whether the lowest level of a role, which has this place, has finished its training."""
        level, tolerance = self._progress(role, index), self.config.plateau_tolerance
        if index in self._running[role]:
            return False
        if len(level.returns) >= self.config.num_segments:
            return True
        return tolerance is not None and len(level.returns) > 1 and level.returns[-1] - level.returns[-2] <= tolerance

    # ---------------------------------------------------------------- segments

    def _next_segments(self, role: str) -> list[ComputedUpdate]:
        """Return the segments of levels of a role that may train, lowest first, so that `pipeline_depth` levels do."""
        context = self._context
        assert context is not None
        if context.iteration == self.config.iterations and self._all_closed(context):
            return []  # the run ends
        segments, lowest = [], self._lowest_index(context, role)
        for index in range(lowest, lowest + (MAX_DEPTHS * self.depth if self.depth > 1 else 1)):
            if len(self._running[role]) >= self.depth:
                break
            if index not in self._running[role] and self._may_train(role, index, lowest):
                self._running[role].add(index)
                segments.append(self._segment_of(context, role, index, index == lowest))
        return segments

    def _may_train(self, role: str, index: int, lowest: int) -> bool:
        """Return whether a level has segments left at its height."""
        if index == lowest:
            return not self._is_closed(role, index)
        return self._progress(role, index).segments < (self.depth - 1) * self.config.num_segments

    def _progress(self, role: str, index: int) -> LevelProgress:
        return self._levels.setdefault((role, index), LevelProgress())

    def _segment_of(self, context: PSROContext, role: str, index: int, lowest: bool) -> ComputedUpdate:
        """Return the next segment of a level, against the newest policies of the levels below."""
        step = f"{SEGMENT}/{role}/{index}/{self._progress(role, index).segments + 1}"
        fixed = torch.tensor([len(context.opponents.marginals[seat]) for seat in range(len(self.game.seats))])

        def update(learned: PipelineSegment) -> StoreUpdate:
            self._running[role].discard(index)
            self._count(role, index, {"return": learned.tally.mean_return(), "lowest": lowest})
            return self.segment_update(step, role, index, learned, fixed, lowest=lowest)

        marginals = context.opponents.marginals if lowest else self._opponents_of(context, index)
        pools = self._pools(context, policy_state, index)
        task = self.segment_task(context, step, role, index, marginals, pools)
        return ComputedUpdate(task, update, functools.partial(self._follow_up, role, index), lane=f"{role}/{index}")

    def _follow_up(self, role: str, index: int) -> list[ComputedUpdate]:
        """Return the next segments of a role, and the payoffs of the new policy of one of its levels."""
        return [*self._next_segments(role), *self._payoffs_of(role, index)]

    # ---------------------------------------------------------------- payoffs of levels

    def _opponents_of(self, context: PSROContext, index: int) -> Sequence[Tensor]:
        """Return the marginals over the policies below a place whose payoffs are all known."""
        least = max(len(marginal) for marginal in context.opponents.marginals)
        meta_game = self._table(context).meta_game()
        for size in range(min(index, *meta_game.shape[1:]), least, -1):
            below = meta_game[(slice(None), *[slice(size)] * len(self.game.seats))]
            if not bool(below.isnan().any()):
                return context.solve(below).marginals
        return context.opponents.marginals

    def _table(self, context: PSROContext, without: Level | None = None) -> PayoffTable:
        """Return the payoffs of fixed policies, and the newest ones of levels, all or all but one."""
        table = table_of(context.store)
        count = table.count
        for matchup in list(self._newest):
            if all(index < size for index, size in zip(matchup, count.shape, strict=True)) and count[matchup]:
                del self._newest[matchup]  # it is fixed
        newest = [key for key in self._newest if without is None or not _plays(self.game, key, without)]
        if newest:
            results = [self._newest[key][1] for key in newest]
            table.add(newest, MatchupResults(*(torch.cat([getattr(r, name) for r in results]) for name in SUMS)))
        return table

    def _payoffs_of(self, role: str, index: int) -> list[ComputedUpdate]:
        """Return the simulation of a level's new policy, and of other cells that were not simulated yet."""
        context, config = self._context, self.config
        assert context is not None
        pools = self._pools(context, policy_state)
        if len(pools[role]) <= index:  # a level below has no policy yet
            return []
        table = self._table(context, without=(role, index))
        table.grow({name: len(pool) for name, pool in pools.items()})
        matchups, episodes = table.missing(config.episodes_per_matchup)
        rows, in_flight = matchups.tolist(), set().union(*self._in_flight.values())
        selected = [_plays(self.game, row, (role, index)) or tuple(row) not in in_flight for row in rows]
        matchups, episodes = matchups[selected], episodes[selected]
        if not len(matchups):
            return []
        rows, key = matchups.tolist(), f"{PAYOFFS}/{role}/{index}/{self._progress(role, index).segments}"
        versions = [self._version(row) for row in rows]
        self._in_flight[key] = set(map(tuple, rows))

        def update(results: MatchupResults) -> StoreUpdate:
            del self._in_flight[key]
            sums = {name: getattr(results, name).tolist() for name in SUMS}
            result = {"matchups": rows, "versions": versions, **sums}
            self._note_payoffs(result)
            return StoreUpdate(key, result=result)

        sampling = PayoffSamplingConfig(config.episodes_per_matchup, None, config.device, config.eval_num_envs)
        task = payoff_task(key, self.game, pools, matchups, episodes, config.seed, sampling)  # its seed is of the key
        return [ComputedUpdate(task, update, lane=f"{PAYOFFS}/{role}/{index}")]

    def _version(self, matchup: Sequence[int]) -> int:
        """Return the number of completed segments of the levels in a matchup."""
        levels = {(seat.role, index) for seat, index in zip(self.game.seats, matchup, strict=True)}
        return sum(self._levels[level].segments for level in levels if level in self._levels)

    def _note_payoffs(self, result: Mapping[str, Any]) -> None:
        """Keep the results of matchups, unless newer ones are known."""
        count, *sums = (
            torch.tensor(result[name], dtype=torch.int64 if name == "count" else torch.float64) for name in SUMS
        )
        for row, (matchup, version) in enumerate(zip(result["matchups"], result["versions"], strict=True)):
            if version >= self._newest.get(tuple(matchup), (0, None))[0]:
                part = MatchupResults(count[row : row + 1], *(values[row : row + 1] for values in sums))
                self._newest[tuple(matchup)] = version, part


def _plays(game: Game, matchup: Sequence[int], level: Level) -> bool:
    """Return whether a level has a seat of a matchup."""
    return any(seat.role == level[0] and index == level[1] for seat, index in zip(game.seats, matchup, strict=True))
