"""Draw margin of asymmetric games: the difference of returns that counts as a draw."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.executors import Coordinator, RemoteTask, gather
from league.leagues.league_state import LeagueState
from league.rollout.matchups import MatchupResults

__all__ = ["MARGIN_TASK", "DrawMargins", "balanced_draw_margin", "measured_draw_margin"]

MARGIN_TASK = "even"
"""Last word in the names of tasks that measure draw margins; seeds of their episodes are derived from the names."""


class DrawMargins:
    """The draw margins of a league: one at its start, and in asymmetric games one per iteration.

    It is measured if none is given, the game is not zero-sum, and its two seats have different populations. The
    episodes are between the first learning, or latest, player of each seat.
    """

    def __init__(
        self,
        state: LeagueState,
        coordinator: Coordinator,
        margin: float | None,
        episodes: int,
        sampling: PayoffSamplingConfig,
    ) -> None:
        """Use the players of a league.

        Args:
            state: State of the league.
            coordinator: Coordinator of the run.
            margin: Draw margin of the configuration; None: 0, or measured.
            episodes: Number of episodes of a measurement.
            sampling: Settings of the simulation.

        Raises:
            ConfigError: A margin is given in a game with more than two seats.
        """
        if margin is not None and len(state.game.seats) > 2:
            raise ConfigError(f"draw_margin = {margin}: expected None in a game of more than two seats; leave it out")
        self.state: LeagueState = state
        self.coordinator: Coordinator = coordinator
        self.margin: float | None = margin
        self.episodes: int = episodes
        self.sampling: PayoffSamplingConfig = sampling
        game = state.game
        self.measured: bool = margin is None and len(game.seats) == 2 and not game.zero_sum and not game.shared
        """Whether the margin is measured."""

    def first(self) -> float:
        """Return the given draw margin, or measure it between the first players; no other task may run."""
        if not self.measured:
            return self.margin or 0.0
        task = self._task(MARGIN_TASK)
        return measured_draw_margin(gather(self.coordinator.executor, [task])[task.key])

    def submit(self, number: int, lane: str) -> None:
        """Submit the measurement of an iteration; in the first one, no player has trained since `first`."""
        if number == 1 or not self.measured:
            return
        task = self._task(f"{number}/{MARGIN_TASK}")

        def commit(results: MatchupResults) -> None:
            with self.state.store.step(task.key) as result:
                result["draw_margin"] = measured_draw_margin(results)

        self.coordinator.submit(task, commit, lane=lane)

    def of(self, number: int) -> float:
        """Return the draw margin of an iteration, or the latest one before it that is measured."""
        for iteration in range(number, 1, -1) if self.measured else ():
            key = f"{iteration}/{MARGIN_TASK}"
            if self.state.store.done(key):
                return self.state.store.result(key, {"draw_margin": float})["draw_margin"]
        return self.state.draw_margin

    def _task(self, key: str) -> RemoteTask:
        """Return a task that plays single episodes."""
        state, pair = self.state, []
        for seat in state.game.seats:
            members = state.members(seat.role)
            pair.append(members.index([*state.roster.learning(seat.role), members[-1]][0]))
        ones = torch.ones(self.episodes, dtype=torch.int64)
        matchups = torch.tensor([pair] * self.episodes)
        return payoff_task(key, state.game, state.pools(), matchups, ones, state.seed, self.sampling)


def balanced_draw_margin(difference: Tensor) -> float:
    """Compute the draw margin for which both seats win equally often.

    The mean is unsuitable if some episodes have large differences, and the median if many episodes have the same one.

    Args:
        difference: (N,) return of the first seat minus the return of the second, for each episode.
    """
    values = difference.double().sort().values
    distinct = values.unique()
    lines = torch.cat([distinct, (distinct[1:] + distinct[:-1]) / 2])
    lost, won = torch.searchsorted(values, lines), len(values) - torch.searchsorted(values, lines, right=True)
    return float(lines[(won - lost).abs().argmin()])


def measured_draw_margin(results: MatchupResults) -> float:
    """Compute the draw margin from the results of single episodes."""
    first, second = results.total.T
    return balanced_draw_margin(first - second)
