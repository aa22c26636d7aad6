"""The one who owns a run: gives out its calls, and writes down what they gave, each once and in order."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from league.executors.calls import Call
from league.executors.executor import Executor, LocalExecutor
from league.store import Store

GATHER = 0.1
"""Seconds in which results that come one after the other are written at once, if more is to come."""


def gather(executor: Executor, calls: Sequence[Call]) -> dict[str, Any]:
    """The results of calls by their keys, where nothing is to be written down; nobody else uses the executor."""
    for call in calls:
        executor.submit(call)
    try:
        return dict(found for _ in calls if (found := executor.next()))
    except BaseException:
        executor.cancel()
        raise


@dataclass
class _Order:
    """A call that was given out."""

    key: str
    commit: Callable[[Any], None] | None
    """None: it is committed."""
    then: Callable[[], None] | None
    result: Any = None
    there: bool = False


class Coordinator:
    """Gives the calls of a run to an executor and commits their results.

    Workers end calls in any order. Results are committed in the order of their submission within a lane, so that a run
    comes out the same however many workers there are and however fast; lanes do not wait for each other. A call whose
    key is done in the store is not made again, and a result that comes twice is written once.
    """

    def __init__(self, store: Store, executor: Executor | None = None) -> None:
        """None: everything is done in this process."""
        self.store, self.executor = store, executor or LocalExecutor()
        self._lanes: dict[str, deque[_Order]] = {}
        self._orders: dict[str, _Order] = {}

    def home(self, device: str) -> str:
        """Where this process keeps policies, of a run that computes on a device: it may have none itself.

        Raises:
            DeviceError: Those who compute have none.
        """
        if not self.executor.remote:
            return device
        self.executor.device(device)
        return "cpu"

    def submit(
        self,
        call: Call,
        commit: Callable[[Any], None],
        then: Callable[[], None] | None = None,
        lane: str = "learn",
    ) -> None:
        """Gives out a call, unless it is done or given out already.

        Args:
            call: Its key is that of the step in the store in which `commit` writes.
            commit: Called with the result, here; it writes in `store.step(call.key)`.
            then: Called when the call is committed, in the order of its lane; also if it was committed before.
            lane: Of calls whose order counts.
        """
        if call.key in self._orders:
            return
        done = self.store.done(call.key)
        order = _Order(call.key, None if done else commit, then, there=done)
        self._orders[call.key] = order
        self._lanes.setdefault(lane, deque()).append(order)
        if not done:
            self.executor.submit(call)

    def wait(self, lane: str | None = None) -> None:
        """Until all calls of a lane are committed, and those that follow from them; None: of all lanes."""
        with self.whole():
            self._commit()
            while any(orders for name, orders in self._lanes.items() if lane in (None, name)):
                self._take()
                try:
                    self._take_more(lane)
                finally:  # what has come is kept, whatever comes next
                    self._commit()

    def _take_more(self, lane: str | None) -> None:
        """Takes what comes soon, too; what has come already, if nothing of the lane is lacking."""
        until = time.monotonic() + GATHER
        while self.executor.pending:
            given = (order for name, orders in self._lanes.items() if lane in (None, name) for order in orders)
            left = 0.0 if all(order.there for order in given) else max(0.0, until - time.monotonic())
            if not self._take(left):
                return

    def _take(self, within: float | None = None) -> bool:
        """Whether a call has ended."""
        found = self.executor.next(within)
        if found is None:
            return False
        key, result = found
        order = self._orders.get(key)
        if order is not None and not order.there:  # else it came twice
            order.result, order.there = result, True
        return True

    def _commit(self) -> None:
        """Writes what is there and whose turn it is; the more there is, the less each waits for the disk."""
        if not any(orders and orders[0].there for orders in self._lanes.values()):
            return
        with self.store.together():
            for orders in list(self._lanes.values()):
                while orders and orders[0].there:
                    order = orders.popleft()
                    if order.commit is not None:
                        order.commit(order.result)
                    del self._orders[order.key]
                    if order.then is not None:
                        order.then()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """What fails, or is interrupted, leaves no call behind."""
        try:
            yield
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Forgets all calls that are not committed."""
        self._lanes.clear()
        self._orders.clear()
        self.executor.cancel()
