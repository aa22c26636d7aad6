"""Fills the payoff table of a run: what is missing is planned, written down, and given out in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, GpuEnvsError
from league.executors import Call, Coordinator
from league.game import Game
from league.matches import Results, play_matchups
from league.records import MAX_EPISODES
from league.run import sizes, table_of
from league.seating import narrow
from league.store import Store, derived
from trainers.policy import Plays

MAX_ROUNDS = 100
"""In which cells of the payoff table are played on, until they are as sure as is asked for."""
LANE = "payoffs"
"""Of the coordinator: learners do not wait for payoffs."""


@dataclass(frozen=True)
class Sampling:
    """How payoffs are estimated."""

    episodes: int
    """Per cell."""
    tolerance: float | None
    """Half-width of the 95 % intervals, at most; None: any."""
    device: str
    """Where cells are played."""
    max_envs: int
    """Worlds at once."""
    even: float = 0.0
    """Of two seats: by how much the first earns more than the second in a draw."""


class Filling:
    """The payoff table of a run, and the calls that fill it.

    A plan says which cells are to be played and how often; it is a task of its own and is committed before anything of
    it is given out. So a run that goes on after a kill makes the same calls with the same seeds.
    """

    def __init__(self, store: Store, coordinator: Coordinator, sampling: Sampling, seed: int) -> None:
        """Reads what is there, and gives out what was planned and is not done.

        Args:
            store: Of the run.
            coordinator: Who gives out its calls.
            sampling: How much is played.
            seed: Of the run.
        """
        self.store, self.coordinator, self.sampling, self.seed = store, coordinator, sampling, seed
        self.table = table_of(store)
        self._due: dict[str, Tensor] = {}  # matchups of chunks that are given out
        for task in store.tasks():
            if task.endswith(_PLAN):
                self._give_out(task.removesuffix(_PLAN))

    def plan(self, name: str, least: int = 1) -> None:
        """Gives out the cells that are missing now; those that are given out already are not missing.

        Args:
            name: Of the plan, its own in the run.
            least: Episodes; nothing is given out while fewer are missing, as small batches cost as much as large ones.
        """
        self._plan(name, None, least)

    def finish(self, name: str) -> None:
        """Until every cell has its episodes, and is as sure as is asked for.

        Args:
            name: Before the names of its plans.

        Raises:
            GpuEnvsError: The tolerance is out of reach.
        """
        self.coordinator.wait(LANE)
        for number in range(MAX_ROUNDS):
            if not self._plan(f"{name}/{number}", self.sampling.tolerance):
                return
            self.coordinator.wait(LANE)
        tolerance = self.sampling.tolerance
        raise GpuEnvsError(f"tolerance = {tolerance}: not reached after {MAX_ROUNDS} rounds; expected a wider one")

    def _plan(self, name: str, tolerance: float | None, least: int = 1) -> bool:
        """Whether there is, or was, anything to play."""
        if self.store.done(name + _PLAN):
            return True
        self.table.grow(sizes(self.store))
        matchups, episodes = self.table.missing(self.sampling.episodes, tolerance)
        if self._due:
            due = {tuple(matchup) for chunk in self._due.values() for matchup in chunk.tolist()}
            there = torch.tensor([tuple(matchup) in due for matchup in matchups.tolist()], dtype=torch.bool)
            matchups, episodes = matchups[~there], episodes[~there]
        if int(episodes.sum()) < least:
            return False
        with self.store.step(name + _PLAN) as result:
            result |= {"matchups": matchups.tolist(), "episodes": episodes.tolist()}
        self._give_out(name)
        return True

    def _give_out(self, name: str) -> None:
        """Submits the chunks of a plan that are not done."""
        planned = self.store.result(name + _PLAN, {"matchups": list[list[int]], "episodes": list[int]})
        seats, episodes = len(self.store.game.seats), planned["episodes"]
        given = [each for each in planned["matchups"] if len(each) == seats]
        if not len(episodes) == len(given) == len(planned["matchups"]) or not all(
            0 < e < MAX_EPISODES for e in episodes
        ):
            raise CheckpointError(f"{self.store.file}: tasks: {name + _PLAN}: expected matchups and episodes of each")
        matchups = torch.from_numpy(self.store.matchups(torch.tensor(given, dtype=torch.int64).view(-1, seats)))
        episodes = torch.tensor(episodes, dtype=torch.int64)
        for number, chunk in enumerate(chunks(planned["episodes"], self.sampling.max_envs)):
            key = f"{name}/{number}"
            if not self.store.done(key):
                self._submit(key, matchups[chunk], episodes[chunk])

    def _submit(self, key: str, matchups: Tensor, episodes: Tensor) -> None:
        call = cells(key, self.store.game, self.store.populations, matchups, episodes, self.seed, self.sampling)

        def commit(results: Results) -> None:
            with self.store.step(key) as result:
                self.store.add_results(matchups, results)
                result["episodes"] = int(results.count.sum())
            self.table.add(matchups, results)
            del self._due[key]

        self._due[key] = matchups
        self.coordinator.submit(call, commit, lane=LANE)


_PLAN = "/cells"
"""Ends the names of plans."""


def cells(
    key: str,
    game: Game,
    pools: Mapping[str, Sequence[Plays]],
    matchups: Tensor,
    episodes: Tensor,
    seed: int,
    sampling: Sampling,
) -> Call:
    """A call that plays matchups (K, S), episodes (K,) of each; `seed` is the run's. It sends only who plays."""
    kept, narrowed = narrow(game, matchups)
    s = sampling
    arguments = {"game": game, "matchups": narrowed, "episodes": episodes, "seed": derived(seed, key)}
    arguments |= {"device": s.device, "max_envs": s.max_envs, "even": s.even}
    return Call(key, play, {r: [pools[r][i] for i in who] for r, who in kept.items()}, arguments, device=s.device)


def play(
    pools: Mapping[str, Sequence[Plays]],
    *,
    game: Game,
    matchups: Tensor,
    episodes: Tensor,
    seed: int,
    device: str,
    max_envs: int,
    even: float,
) -> Results:
    """What a call of payoff cells does, see `league.matches.play_matchups`."""
    return play_matchups(game, pools, matchups, episodes, seed, device, max_envs, even=even)


def chunks(episodes: Sequence[int], most: int) -> Iterator[slice]:
    """Neighbouring cells that one batch of worlds plays at once; the same whoever plays them."""
    first = total = 0
    for index, count in enumerate(episodes):
        if total and total + count > most:
            yield slice(first, index)
            first, total = index, 0
        total += count
    yield slice(first, len(episodes))
