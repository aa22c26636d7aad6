"""How exploitable small games' meta-strategies are: found out by calls of their own, while the league goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from league import solvers
from league.executors import Call, Coordinator
from league.game import Game
from league.small import Small
from league.solvers import MetaStrategy
from league.store import Store
from trainers.config import TrainConfig
from trainers.logs import Progress
from trainers.policy import Plays

LANE = "evaluation"
"""Of the coordinator: nobody waits for it but the end of a run."""
UNKNOWN: dict[str, Any] = {"nash_conv": None, "exploitability": None, "best_so_far": None}
"""What the summary of an iteration says before its evaluation is there, or where the game is too large for one."""


def remembers(train: TrainConfig) -> bool:
    """Whether policies are recurrent, and so no tables that could be evaluated."""
    return getattr(train.learner, "body", "") == "gru"


def of_league(game: Game, train: TrainConfig) -> bool:
    """Whether a league is evaluated: its game is small and sums to 0, and who learns remembers nothing."""
    return not remembers(train) and game.zero_sum and Small.of(game) is not None


class Evaluation:
    """Writes into the summaries of iterations what nobody needs to go on; in their order, whoever is fast.

    In this process nothing can go on meanwhile, so that a summary is whole at once there.
    """

    def __init__(
        self,
        store: Store,
        coordinator: Coordinator,
        strategy_of: Callable[[Mapping[str, Any]], MetaStrategy | None],
        progress: Progress | None = None,
    ) -> None:
        """Nothing is given out yet.

        Args:
            store: Of the run; its game is small.
            coordinator: Who gives out its calls.
            strategy_of: The meta-strategy that a summary tells; None: the Nash equilibrium among the policies then.
            progress: Told what was found.
        """
        self.store, self.coordinator, self.strategy_of, self.progress = store, coordinator, strategy_of, progress

    def give_out(self) -> None:
        """Has all iterations evaluated that are not, those too that a run was killed after."""
        for number, row in self.store.iterations().items():
            if row["nash_conv"] is None:
                self._submit(number, row)
        if not self.coordinator.executor.remote:
            self.coordinator.wait(LANE)

    def finish(self) -> None:
        """Until all iterations are evaluated."""
        self.give_out()
        self.coordinator.wait(LANE)

    def _submit(self, number: int, row: Mapping[str, Any]) -> None:
        key, store = f"{number}/evaluation", self.store
        pools = {}
        for role, population in store.populations.items():  # as they were; maybe more have come since
            pools[role] = [population[entry.index] for entry in population.entries if entry.iteration <= number]

        def commit(nash_conv: float) -> None:
            with store.step(key) as result:
                result["nash_conv"] = nash_conv
                store.put_iteration(number, evaluated(store.iterations(), number, nash_conv, len(store.game.seats)))
            if self.progress is not None:
                self.progress(number, f"NashConv {nash_conv:.4f}")

        call = Call(key, evaluate, pools, {"game": store.game, "strategy": self.strategy_of(row)})
        self.coordinator.submit(call, commit, lane=LANE)


def evaluate(pools: Mapping[str, Sequence[Plays]], *, game: Game, strategy: MetaStrategy | None) -> float:
    """What a call of an evaluation does: NashConv of a meta-strategy, or of the Nash equilibrium, among policies."""
    small = Small.of(game, required=True)
    assert small is not None
    if strategy is None:
        strategy = solvers.solve("nash", small.payoffs(pools))
    return small.nash_conv(pools, strategy.marginals, strategy.joint)


def evaluated(rows: Mapping[int, dict[str, Any]], number: int, nash_conv: float, seats: int) -> dict[str, Any]:
    """The summary of an iteration with what its evaluation gave; that of those before it is there."""
    known = {at: row["nash_conv"] for at, row in rows.items() if at < number and row["nash_conv"] is not None}
    known[number] = nash_conv
    row = rows[number] | {
        "nash_conv": nash_conv,
        "exploitability": nash_conv / seats,
        "best_so_far": min(known.values()),
    }
    if "best_iteration" in row:
        row["best_iteration"] = min(known, key=lambda at: (known[at], -at))
    return row
