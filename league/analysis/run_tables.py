"""Tables of a run as they are at one moment: payoffs, summaries of iterations and meta-strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league import solvers
from league.evaluation.tabular_game import TabularGame
from league.game import Game
from league.matchups.payoff_table import PayoffTable, kept_policies
from league.solvers import MetaStrategy
from league.storage.records import SUMMARY_FIELDS, check_strategy
from league.storage.run_config import sizes, table_of
from league.storage.run_store import RunStore

T = TypeVar("T")


class RunTables:
    """Payoffs, iterations and meta-strategies of a run, read once.

    Policies are loaded only if the game is small enough for exact payoffs.
    """

    def __init__(self, store: RunStore) -> None:
        """Read the tables of a run.

        Raises:
            CheckpointError: A value is damaged.
        """
        self.store: RunStore = store
        self.game: Game = store.game
        self.rows: dict[int, dict[str, Any]] = store.iterations(SUMMARY_FIELDS)
        for number, row in self.rows.items():
            if "meta_strategy" in row:
                counts = [self.sizes(number)[seat.role] for seat in self.game.seats]
                check_strategy(f"{store.file}: iterations: summary of {number}", row, counts)
        self.left_out: dict[str, str] = {}
        self.tabular: TabularGame | None = self.measure(
            "exact NashConv", lambda: TabularGame.of(self.game, required=True)
        )
        self.exact: bool = store.config.get("payoff_estimation") == "exact" and self.tabular is not None
        limit = store.config.get("max_payoff_cells")
        self.indices: dict[str, list[int]] | None = kept_policies(self.game, sizes(store), limit)
        if self.indices is not None:
            shares = ", ".join(
                f"{len(indices)} of {sizes(store)[role]} {role}" for role, indices in self.indices.items()
            )
            self.left_out["payoffs of other policies"] = f"max_payoff_cells = {limit}: the table has {shares}"
        self.table: PayoffTable = table_of(store, self.indices)
        self.payoffs: Tensor = self.table.meta_game()
        if self.exact and self.tabular is not None and all(sizes(store).values()):
            self.payoffs = self.tabular.payoffs(store.populations)
        self.solver = "nash" if self.game.zero_sum and len(self.game.seats) == 2 else "prd"
        self.last: int | None = max((n for n in self.rows if self._complete(self.rated_sizes(n))), default=None)
        self.strategies: dict[int, tuple[Tensor, ...]] = self._strategies()

    def measure(self, name: str, compute: Callable[[], T]) -> T | None:
        """Return a computed value, or None if it raises ConfigError; the reason is noted in `left_out`."""
        try:
            return compute()
        except ConfigError as error:
            self.left_out[name] = str(error)
            return None

    def sizes(self, iteration: int) -> dict[str, int]:
        """Return the number of policies of each role after an iteration."""
        return {
            role: sum(entry.iteration <= iteration for entry in population.entries)
            for role, population in self.store.populations.items()
        }

    def rated_sizes(self, iteration: int) -> dict[str, int]:
        """Return the number of policies of each role after an iteration that are in the payoff table."""
        counts = self.sizes(iteration)
        if self.indices is None:
            return counts
        return {role: sum(index < counts[role] for index in indices) for role, indices in self.indices.items()}

    @property
    def rated(self) -> dict[str, int]:
        """Number of the first policies of the payoff table of each role whose payoffs are all known."""
        return dict.fromkeys(self.game.roles, 0) if self.last is None else self.rated_sizes(self.last)

    def in_table(self, strategy: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Select the probabilities (n,) of the payoff table's policies from those of all policies, per seat."""
        if self.indices is None:
            return tuple(strategy)
        axes = [self.indices[seat.role] for seat in self.game.seats]
        return tuple(
            marginal[[index for index in indices if index < len(marginal)]]
            for marginal, indices in zip(strategy, axes, strict=True)
        )

    def by_index(self, role: str, values: Sequence[float]) -> list[float | None]:
        """Return values of the first policies of the payoff table by the policies' indices; None for other policies."""
        if self.indices is None:
            return list(values)
        value_of = dict(zip(self.indices[role], values, strict=False))
        return [value_of.get(index) for index in range(max(value_of, default=-1) + 1)]

    def final_iteration(self) -> int | None:
        """Return the iteration whose meta-strategy is the result of the run; None: there is none yet."""
        end = max(self.strategies, default=None)
        if self.store.config.get("keep_best_strategy"):
            best = [row["best_iteration"] for row in self.rows.values() if row.get("best_iteration") is not None]
            end = best[-1] if best else end
        return end

    def strategy(self, iteration: int) -> MetaStrategy:
        """Return the meta-strategy of an iteration, with the joint distribution of the run if it has one."""
        row = self.rows[iteration]
        if "meta_strategy" in row and row.get("joint") is not None:
            return MetaStrategy(self.strategies[iteration], torch.tensor(row["joint"], dtype=torch.float64))
        return MetaStrategy(self.strategies[iteration])

    def sub_game(self, sizes: Mapping[str, int], table: Tensor | None = None) -> Tensor:
        """Return the payoffs (S, n_1, ..., n_S), or another table, of the first policies of each role."""
        return (self.payoffs if table is None else table)[
            (slice(None), *(slice(sizes[seat.role]) for seat in self.game.seats))
        ]

    def _complete(self, sizes: Mapping[str, int]) -> bool:
        return all(sizes.values()) and bool(self.sub_game(sizes).isfinite().all())

    def _strategies(self) -> dict[int, tuple[Tensor, ...]]:
        """Return the meta-strategy of each iteration: the run's, else an equilibrium of its policies so far."""
        strategies: dict[int, tuple[Tensor, ...]] = {}
        for number, row in self.rows.items():
            if "meta_strategy" in row:
                strategies[number] = tuple(
                    torch.tensor(marginal, dtype=torch.float64) for marginal in row["meta_strategy"]
                )
            elif self.last is not None and number <= self.last:
                previous = strategies.get(number - 1)
                sizes = self.sizes(number)
                if previous is not None and all(
                    len(marginal) == sizes[seat.role] for marginal, seat in zip(previous, self.game.seats, strict=True)
                ):
                    strategies[number] = previous
                else:
                    strategies[number] = self._of_all(sizes, self._equilibrium(self.sub_game(self.rated_sizes(number))))
        return strategies

    def _of_all(self, sizes: Mapping[str, int], strategy: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Extend the probabilities of the policies in the payoff table to all policies (N,), per seat."""
        if self.indices is None:
            return strategy
        result = []
        for seat, marginal in zip(self.game.seats, strategy, strict=True):
            padded = marginal.new_zeros(sizes[seat.role])
            padded[self.indices[seat.role][: len(marginal)]] = marginal
            result.append(padded)
        return tuple(result)

    def _equilibrium(self, payoffs: Tensor) -> tuple[Tensor, ...]:
        if self.solver == "prd":  # scaled payoffs suit a fixed step size, and few steps are enough for every iteration
            axes = tuple(range(1, payoffs.dim()))
            lowest, highest = payoffs.amin(axes, keepdim=True), payoffs.amax(axes, keepdim=True)
            scaled = (payoffs - lowest) / (highest - lowest).clamp(min=1e-12)
            strategy = solvers.solve("prd", scaled, iterations=10_000, dt=0.01)
        else:
            strategy = solvers.solve(self.solver, payoffs)
        if not self.game.shared:
            return strategy.marginals
        by_role = self.game.marginals_by_role(strategy.marginals)
        return tuple(by_role[seat.role] for seat in self.game.seats)
