"""Simulation of the missing cells of a run's payoff table: planned, recorded, and submitted in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.executors.coordinator import Coordinator
from league.executors.tasks import RemoteTask
from league.game import Game
from league.matchups.matchup_distribution import narrow, widen
from league.matchups.matchups import MatchupResults, simulate_matchups
from league.matchups.payoff_table import PayoffTable, kept_policies
from league.storage.records import MAX_EPISODES
from league.storage.run_config import add_to_table, sizes, table_of
from league.storage.run_store import RunStore, derive_named_seed
from trainers.models.policy import PolicyProtocol

MAX_ROUNDS = 100
"""Largest number of rounds of simulation until the confidence intervals are narrow enough."""
LANE = "payoffs"
"""Lane of the coordinator, so that trainings do not wait for payoffs."""
_PLAN = "/cells"  # suffix of the names of plans


@dataclass(frozen=True)
class PayoffSamplingConfig:
    """Settings of payoff estimation."""

    episodes: int
    """Number of episodes per cell."""
    ci_half_width: float | None
    """Largest half-width of the 95 % confidence intervals; None: no limit."""
    device: str
    """Device of the simulation."""
    max_envs: int
    """Largest number of simultaneous worlds."""
    draw_margin: float = 0.0
    """Two seats: return difference (first minus second seat) that counts as a draw."""


class PayoffFiller:
    """The payoff table of a run and the tasks that fill it.

    A plan names the cells to simulate and their numbers of episodes. It is a separate step, committed before any of
    its tasks is submitted. So a resumed run submits the same tasks with the same seeds.
    """

    def __init__(
        self,
        store: RunStore,
        coordinator: Coordinator,
        sampling: PayoffSamplingConfig,
        seed: int,
        max_cells: int | None = None,
    ) -> None:
        """Read the payoff table.

        Args:
            store: Store of the run.
            coordinator: Coordinator of the run.
            sampling: Settings of payoff estimation.
            seed: Random seed of the run.
            max_cells: Largest number of cells with more than two seats, see `kept_policies`; None: no limit.
        """
        self.store: RunStore = store
        self.max_cells: int | None = max_cells
        self.coordinator: Coordinator = coordinator
        self.sampling: PayoffSamplingConfig = sampling
        self.seed: int = seed
        self._read_table()
        self._submitted: dict[str, Tensor] = {}  # matchups of the submitted tasks

    def resume(self) -> None:
        """Read the payoff table again, and submit the planned tasks of an interrupted run that are not done.

        The coordinator must have no tasks of this table.
        """
        self._read_table()
        self._submitted = {}
        for step in self.store.tasks():
            if step.endswith(_PLAN):
                self._submit_plan(step.removesuffix(_PLAN))

    def _read_table(self) -> None:
        """Read the payoff table: of all policies, or of those that a limited table keeps."""
        self.indices: dict[str, list[int]] | None = kept_policies(self.store.game, sizes(self.store), self.max_cells)
        self.table: PayoffTable = table_of(self.store, self.indices)

    def plan(self, name: str, least: int = 1) -> None:
        """Plan and submit the missing cells that are not submitted yet; of a limited table, only `fill` does.

        Args:
            name: Unique name of the plan in the run.
            least: Smallest number of missing episodes; with fewer, nothing is planned. Small batches cost as much as
                large ones.
        """
        if kept_policies(self.store.game, sizes(self.store), self.max_cells) is None:
            self._plan(name, None, least)

    def fill(self, name: str) -> None:
        """Simulate until every cell has its episodes and its confidence intervals are narrow enough.

        Args:
            name: Prefix of the names of the plans.

        Raises:
            GpuEnvsError: The intervals are too wide after `MAX_ROUNDS` rounds.
        """
        self.coordinator.wait(LANE)
        for number in range(MAX_ROUNDS):
            if not self._plan(f"{name}/{number}", self.sampling.ci_half_width):
                return
            self.coordinator.wait(LANE)
        limit = self.sampling.ci_half_width
        raise GpuEnvsError(f"ci_half_width = {limit}: not reached after {MAX_ROUNDS} rounds; use a larger value")

    def _plan(self, name: str, ci_half_width: float | None, least: int = 1) -> bool:
        """Commit a plan and submit its tasks; return whether the plan has any cells, or was committed before."""
        if self.store.done(name + _PLAN):
            return True
        if kept_policies(self.store.game, sizes(self.store), self.max_cells) != self.indices:
            self._read_table()
        if self.indices is None:
            self.table.grow(sizes(self.store))
        matchups, episodes = self.table.missing(self.sampling.episodes, ci_half_width)
        if self.indices is not None:
            matchups = widen(self.store.game, self.indices, matchups)
        if self._submitted:
            submitted = {tuple(matchup) for batch in self._submitted.values() for matchup in batch.tolist()}
            is_submitted = torch.tensor(
                [tuple(matchup) in submitted for matchup in matchups.tolist()], dtype=torch.bool
            )
            matchups, episodes = matchups[~is_submitted], episodes[~is_submitted]
        if int(episodes.sum()) < least:
            return False
        with self.store.step(name + _PLAN) as result:
            result |= {"matchups": matchups.tolist(), "episodes": episodes.tolist()}
        self._submit_plan(name)
        return True

    def _submit_plan(self, name: str) -> None:
        """Submit the batches of a plan that are not done."""
        plan = self.store.result(name + _PLAN, {"matchups": list[list[int]], "episodes": list[int]})
        seats, episodes = len(self.store.game.seats), plan["episodes"]
        planned = [matchup for matchup in plan["matchups"] if len(matchup) == seats]
        valid = all(0 < count < MAX_EPISODES for count in episodes)
        if not len(episodes) == len(planned) == len(plan["matchups"]) or not valid:
            raise CheckpointError(f"{self.store.file}: tasks: {name + _PLAN}: expected matchups and episodes of each")
        matchups = torch.from_numpy(self.store.matchups(torch.tensor(planned, dtype=torch.int64).view(-1, seats)))
        counts = torch.tensor(episodes, dtype=torch.int64)
        for number, batch in enumerate(batches_of_cells(episodes, self.sampling.max_envs)):
            key = f"{name}/{number}"
            if not self.store.done(key):
                self._submit(key, matchups[batch], counts[batch])

    def _submit(self, key: str, matchups: Tensor, episodes: Tensor) -> None:
        task = payoff_task(key, self.store.game, self.store.populations, matchups, episodes, self.seed, self.sampling)

        def commit(results: MatchupResults) -> None:
            with self.store.step(key) as result:
                self.store.add_results(matchups, results)
                result["episodes"] = int(results.count.sum())
            add_to_table(self.table, matchups, results, self.indices)
            del self._submitted[key]

        self._submitted[key] = matchups
        self.coordinator.submit(task, commit, lane=LANE)


def payoff_task(
    key: str,
    game: Game,
    pools: Mapping[str, Sequence[PolicyProtocol]],
    matchups: Tensor,
    episodes: Tensor,
    seed: int,
    sampling: PayoffSamplingConfig,
) -> RemoteTask:
    """Return the task that simulates matchups. Only the policies of these matchups travel.

    Args:
        key: Unique name of the task in the run.
        game: Game to play.
        pools: Policies by role.
        matchups: (K, S), policies of each seat.
        episodes: (K,), number of episodes of each matchup.
        seed: Random seed of the run.
        sampling: Settings of payoff estimation.
    """
    indices, narrowed = narrow(game, matchups)
    arguments = {"game": game, "matchups": narrowed, "episodes": episodes, "seed": derive_named_seed(seed, key)}
    arguments |= {"device": sampling.device, "max_envs": sampling.max_envs, "draw_margin": sampling.draw_margin}
    policies = {role: [pools[role][index] for index in members] for role, members in indices.items()}
    return RemoteTask(key, simulate_matchups, policies, arguments, device=sampling.device)


def batches_of_cells(episodes: Sequence[int], limit: int) -> Iterator[slice]:
    """Yield slices of adjacent cells with at most `limit` episodes, or one cell; each is one task."""
    first = total = 0
    for index, count in enumerate(episodes):
        if total and total + count > limit:
            yield slice(first, index)
            first, total = index, 0
        total += count
    yield slice(first, len(episodes))
