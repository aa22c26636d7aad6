"""The protocol of PSRO's variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from torch import Tensor

from league.psro.best_response_task import BestResponseTask
from league.psro.context import PSROContext
from league.psro.store_update import ComputedUpdate, StoreUpdate
from league.solvers import MetaStrategy

__all__ = ["Variant", "Work"]

Work = BestResponseTask | ComputedUpdate | StoreUpdate
"""Work that the loop executes: a best response of the oracle, an update computed by a task, or a given update."""


class Variant(Protocol):
    """Decide which best responses an iteration computes, and its meta-strategy."""

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration."""
        ...

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work] | None]:
        """Yield the work of an iteration in batches. The loop commits a batch before it requests the next one.

        None waits for the next result of the work in other lanes, see `ComputedUpdate.lane`.
        """
        ...

    def meta_strategy(self, context: PSROContext, payoffs: Tensor) -> MetaStrategy:
        """Return the meta-strategy of payoffs (S, N_1, ..., N_S)."""
        ...
