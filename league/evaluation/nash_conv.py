"""NashConv of meta-strategies: exact in small games, computed in the background, and bounds within the meta-game."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.utils.progress import Progress
from league import solvers
from league.evaluation.tabular_game import TabularGame, is_tabular
from league.executors.coordinator import Coordinator
from league.executors.tasks import RemoteTask
from league.game import Game, is_two_player_zero_sum
from league.solvers import MetaStrategy
from league.storage.run_store import RunStore
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol

LANE = "evaluation"
"""Lane of the coordinator. Only the end of a run waits for it."""
UNKNOWN: dict[str, Any] = {"nash_conv": None, "exploitability": None, "best_nash_conv": None}
"""Summary fields of an iteration without evaluation, because it is not finished or the game is too large."""


def is_evaluated(game: Game, train: TrainConfig) -> bool:
    """Return whether a league computes NashConv: the game is tabular and zero-sum, its policies not recurrent.

    With more than two seats only the report computes it, for the meta-strategy that it chooses.
    """
    return is_two_player_zero_sum(game) and is_tabular(game, train)


class Evaluation:
    """Compute NashConv of past iterations in the background and store it in iteration order.

    An executor in this process computes it at once, so that every summary is complete.
    """

    def __init__(
        self,
        store: RunStore,
        coordinator: Coordinator,
        strategy_of: Callable[[Mapping[str, Any]], MetaStrategy | None],
        progress: Progress | None = None,
    ) -> None:
        """Create an evaluation without submitting tasks.

        Args:
            store: Store of a run whose game is tabular.
            coordinator: Coordinator of the run.
            strategy_of: Function from a summary to its meta-strategy; None: the Nash equilibrium of the policies.
            progress: Called with every result.
        """
        self.store: RunStore = store
        self.coordinator: Coordinator = coordinator
        self.strategy_of: Callable[[Mapping[str, Any]], MetaStrategy | None] = strategy_of
        self.progress: Progress | None = progress

    def submit(self) -> None:
        """Submit the evaluation of all iterations without one, including the iterations of an interrupted run."""
        for number, row in self.store.iterations().items():
            if row["nash_conv"] is None:
                self._submit(number, row)
        if not self.coordinator.executor.remote:
            self.coordinator.wait(LANE)

    def finish(self) -> None:
        """Wait until all iterations are evaluated."""
        self.submit()
        self.coordinator.wait(LANE)

    def _submit(self, number: int, row: Mapping[str, Any]) -> None:
        key, store = f"{number}/evaluation", self.store
        policies = {}
        for role, population in store.populations.items():  # without the policies of later iterations
            policies[role] = [population[entry.index] for entry in population.entries if entry.iteration <= number]

        def commit(gaps: Mapping[str, float]) -> None:
            with store.step(key) as result:
                result |= gaps
                store.put_iteration(number, evaluated(store.iterations(), number, len(store.game.seats), **gaps))
            if self.progress is not None:
                more = f"  CE gap {gaps['ce_gap']:.4f}" if "ce_gap" in gaps else ""
                self.progress(number, f"NashConv {gaps['nash_conv']:.4f}{more}")

        arguments = {"game": store.game, "strategy": self.strategy_of(row), "after_recommendation": "ce_gap" in row}
        task = RemoteTask(key, compute_gaps, policies, arguments)
        self.coordinator.submit(task, commit, lane=LANE)


def compute_gaps(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    strategy: MetaStrategy | None,
    after_recommendation: bool,
) -> dict[str, float]:
    """Return `nash_conv` of a meta-strategy over policies by role; None: of the Nash equilibrium of the meta-game.

    If seats deviate `after_recommendation` of a joint distribution, also return `ce_gap`.
    """
    tabular = TabularGame.of(game, required=True)
    assert tabular is not None
    strategy = strategy or solvers.solve("nash", tabular.payoffs(policies))
    gaps = {"nash_conv": tabular.nash_conv(policies, strategy.marginals, strategy.joint)}
    if after_recommendation and strategy.joint is not None:
        gaps["ce_gap"] = tabular.ce_gap(policies, strategy.joint)
    return gaps


def evaluated(
    rows: Mapping[int, dict[str, Any]], number: int, seats: int, nash_conv: float, ce_gap: float | None = None
) -> dict[str, Any]:
    """Return the summary of an iteration with its NashConv and CE gap; earlier iterations are already evaluated.

    Args:
        rows: Summaries by iteration.
        number: Iteration.
        seats: Number of seats.
        nash_conv: NashConv of the iteration's meta-strategy.
        ce_gap: CE gap of the iteration's meta-strategy; None: seats do not deviate after recommendations. With a CE
            gap, the best iteration is the one with the smallest CE gap.
    """
    values = {at: row["nash_conv"] for at, row in rows.items() if at < number and row["nash_conv"] is not None}
    values[number] = nash_conv
    row = rows[number] | {
        "nash_conv": nash_conv,
        "exploitability": nash_conv / seats,
        "best_nash_conv": min(values.values()),
    }
    if ce_gap is not None:
        row["ce_gap"] = ce_gap
        values = {at: rows[at]["ce_gap"] for at in values if at < number and rows[at].get("ce_gap") is not None}
        values[number] = ce_gap
    if "best_iteration" in row:
        row["best_iteration"] = min(values, key=lambda at: (values[at], -at))
    return row


def nash_conv_lower_bound(meta_game: Tensor, strategy: MetaStrategy) -> float:
    """Return the sum over seats of the gain by unilateral deviations to policies of the meta-game.

    It is a lower bound on NashConv, up to the errors of estimated payoffs. With a joint distribution a seat deviates
    before the profile is sampled.

    Args:
        meta_game: Payoffs (S, N_1, ..., N_S).
        strategy: Meta-strategy over the policies, or over the first ones of each seat.
    """
    sizes = meta_game.shape[1:]
    if strategy.joint is None:
        marginals = tuple(
            pad(marginal, (0, n - len(marginal))) for marginal, n in zip(strategy.marginals, sizes, strict=True)
        )
        return solvers.nash_gap(meta_game, MetaStrategy(marginals))
    joint, total = _padded(strategy.joint, sizes), 0.0
    for seat, payoffs in enumerate(meta_game):
        opponents = joint.sum(seat, keepdim=True)
        value = (payoffs * opponents).movedim(seat, 0).flatten(1).sum(1)
        total += float(value.max() - (payoffs * joint).sum())
    return total


def ce_gap_lower_bound(meta_game: Tensor, joint: Tensor) -> float:
    """Return the sum over seats of the gain by deviations after the recommendation to policies of the meta-game.

    It is a lower bound on the CE gap, up to the errors of estimated payoffs.

    Args:
        meta_game: Payoffs (S, N_1, ..., N_S).
        joint: Distribution over profiles of these policies, or of the first ones of each seat.
    """
    joint, total = _padded(joint, meta_game.shape[1:]), 0.0
    for seat, payoffs in enumerate(meta_game):
        recommended, value = (array.movedim(seat, 0).flatten(1) for array in (joint, payoffs))
        earned = recommended @ value.T  # [i, j]: return of policy j if i is recommended, times the probability of i
        total += float((earned.max(1).values - earned.diagonal()).sum())
    return total


def _padded(joint: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return a joint distribution over the first policies of each seat as one over all (N_1, ..., N_S)."""
    padding = [count for n, had in zip(sizes, joint.shape, strict=True) for count in (n - had, 0)]
    return pad(joint, padding[::-1])


def strategy_from_summary(row: Mapping[str, Any]) -> MetaStrategy:
    """Return the meta-strategy of an iteration's summary."""
    marginals: list[Tensor] = [torch.tensor(weights, dtype=torch.float64) for weights in row["meta_strategy"]]
    return MetaStrategy(
        tuple(marginals), None if row["joint"] is None else torch.tensor(row["joint"], dtype=torch.float64)
    )
