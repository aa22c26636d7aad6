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
from league.rollout.payoff_table import PayoffTable, kept_policies
from league.solvers import MetaStrategy
from league.storage.records import SUMMARY_FIELDS, check_strategy
from league.storage.run_config import sizes, table_of
from league.storage.run_store import RunStore

__all__ = ["RunTables"]

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
                most = [self.sizes(number)[seat.role] for seat in self.game.seats]
                check_strategy(f"{store.file}: iterations: summary of {number}", row, most)
        self.left_out: dict[str, str] = {}
        self.tabular: TabularGame | None = self.measure(
            "exact NashConv", lambda: TabularGame.of(self.game, required=True)
        )
        self.exact: bool = store.config.get("payoff_estimation") == "exact" and self.tabular is not None
        limit = store.config.get("max_payoff_cells")
        self.kept: dict[str, list[int]] | None = kept_policies(self.game, sizes(store), limit)
        if self.kept is not None:
            shown = ", ".join(f"{len(own)} of {sizes(store)[role]} {role}" for role, own in self.kept.items())
            self.left_out["payoffs of other policies"] = f"max_payoff_cells = {limit}: the table has {shown}"
        self.table: PayoffTable = table_of(store, self.kept)
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
        if self.kept is None:
            return counts
        return {role: sum(index < counts[role] for index in own) for role, own in self.kept.items()}

    @property
    def rated(self) -> dict[str, int]:
        """Number of the first policies of the payoff table of each role whose payoffs are all known."""
        return dict.fromkeys(self.game.roles, 0) if self.last is None else self.rated_sizes(self.last)

    def in_table(self, strategy: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the probabilities (n,) of the policies in the payoff table from those of all policies, per seat."""
        if self.kept is None:
            return tuple(strategy)
        kept = [self.kept[seat.role] for seat in self.game.seats]
        return tuple(
            each[[index for index in own if index < len(each)]] for each, own in zip(strategy, kept, strict=True)
        )

    def by_index(self, role: str, values: Sequence[float]) -> list[float | None]:
        """Return values of the first policies of the payoff table by the policies' indices; None for other policies."""
        if self.kept is None:
            return list(values)
        known = dict(zip(self.kept[role], values, strict=False))
        return [known.get(index) for index in range(max(known, default=-1) + 1)]

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
        """Return the meta-strategy of each iteration: that of the run, else an equilibrium of its policies so far."""
        found: dict[int, tuple[Tensor, ...]] = {}
        for number, row in self.rows.items():
            if "meta_strategy" in row:
                found[number] = tuple(torch.tensor(each, dtype=torch.float64) for each in row["meta_strategy"])
            elif self.last is not None and number <= self.last:
                before = found.get(number - 1)
                sizes = self.sizes(number)
                if before is not None and all(
                    len(each) == sizes[seat.role] for each, seat in zip(before, self.game.seats, strict=True)
                ):
                    found[number] = before
                else:
                    found[number] = self._of_all(sizes, self._equilibrium(self.sub_game(self.rated_sizes(number))))
        return found

    def _of_all(self, sizes: Mapping[str, int], strategy: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the probabilities (N,) of all policies from those of the policies in the payoff table, per seat."""
        if self.kept is None:
            return strategy
        found = []
        for seat, own in zip(self.game.seats, strategy, strict=True):
            whole = own.new_zeros(sizes[seat.role])
            whole[self.kept[seat.role][: len(own)]] = own
            found.append(whole)
        return tuple(found)

    def _equilibrium(self, payoffs: Tensor) -> tuple[Tensor, ...]:
        if self.solver == "prd":  # scaled payoffs suit a fixed step size, and few steps are enough for every iteration
            axes = tuple(range(1, payoffs.dim()))
            least, most = payoffs.amin(axes, keepdim=True), payoffs.amax(axes, keepdim=True)
            scaled = (payoffs - least) / (most - least).clamp(min=1e-12)
            strategy = solvers.solve("prd", scaled, iterations=10_000, dt=0.01)
        else:
            strategy = solvers.solve(self.solver, payoffs)
        if not self.game.shared:
            return strategy.marginals
        by_role = self.game.marginals_by_role(strategy.marginals)
        return tuple(by_role[seat.role] for seat in self.game.seats)
