"""Updates of a learner as CUDA graphs, which replay without Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpu_envs.runtime import cuda_graph


@dataclass
class _RecordedUpdate:
    """One captured function: its graph, the addresses that the graph uses, and its metrics."""

    graph: torch.cuda.CUDAGraph
    addresses: tuple[int, ...]
    names: tuple[str, ...]
    values: Tensor  # (metrics,), overwritten by every replay


class CapturedUpdates:
    """Functions that train one learner. With `enabled` each is captured once as a CUDA graph and then replayed.

    A captured function must do the same work on the same tensors at every call. It must not read from the device. If a
    tensor of the learner has moved since the capture, such as a moment of the optimizer, the function is captured
    again.
    """

    def __init__(
        self,
        enabled: bool,
        learner: Any,
        read: Callable[[], Iterable[Tensor]],
        changed: Callable[[], Iterable[Tensor]] = tuple,
    ) -> None:
        """Set what the functions work on.

        Args:
            enabled: Capture the functions. Otherwise they are called, on any device.
            learner: `trainers.algorithms.learner.Learner` whose networks and optimizers the functions change, and
                which keeps this object. They draw from no other generator than its own.
            read: Returns the other tensors, of any shapes, that the functions use and that could be replaced.
            changed: Returns the tensors outside the learner that the functions change.
        """
        self.enabled: bool = enabled and learner.device.type == "cuda"
        self._learner: Any = weakref.proxy(learner)
        self._read, self._changed_tensors = read, changed
        self.pool: Any = None
        """Memory pool that the graphs share with others that never run at the same time; None: one for each graph."""
        self._recorded: dict[str, _RecordedUpdate] = {}

    def captured(self, name: str, update: Callable[[], dict[str, Tensor]]) -> Callable[[], dict[str, Tensor]]:
        """Return a function that replays the graph of another, or that function itself if nothing is captured.

        Args:
            name: Name of the function; one graph is kept per name.
            update: Function without arguments. It returns metrics, scalars on the device by name.

        Returns:
            Function with the same results. Later replays do not change them.
        """
        if not (self.enabled and self._learner.reducer.can_capture):
            return update
        return partial(self._replay, name, update)

    def _replay(self, name: str, update: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Replay a graph, after its capture if there is none or a tensor has moved."""
        recorded = self._recorded.pop(name, None)  # the memory of an old graph is free for the new one
        if recorded is None or recorded.addresses != self._addresses():
            recorded = None
            recorded = self._capture(update)
        self._recorded[name] = recorded
        recorded.graph.replay()
        return dict(zip(recorded.names, recorded.values.clone().unbind(), strict=True))

    def _changed(self) -> Iterator[Tensor]:
        yield from self._learner.net.parameters()
        yield from self._learner.net.buffers()
        for optimizer in self._learner.optimizers.values():
            for state in optimizer.state.values():
                yield from (value for value in state.values() if isinstance(value, Tensor))
        yield from self._changed_tensors()

    def _addresses(self) -> tuple[int, ...]:
        groups = [group for optimizer in self._learner.optimizers.values() for group in optimizer.param_groups]
        rates = [group["lr"] for group in groups if isinstance(group["lr"], Tensor)]
        return tuple(tensor.data_ptr() for tensor in (*self._changed(), *self._read(), *rates))

    def _capture(self, update: Callable[[], dict[str, Tensor]]) -> _RecordedUpdate:
        """Capture a function; what its warm-up changes is restored."""
        metrics: dict[str, Tensor] = {}
        stacked: list[Tensor] = []

        def play() -> None:
            metrics.update(update())
            stacked[:] = [torch.stack([value.float() for value in metrics.values()])]

        copies: dict[int, Tensor] = {}

        def save() -> Mapping[str, Tensor]:
            copies.update((tensor.data_ptr(), tensor.detach().clone()) for tensor in self._changed())
            return {}

        def restore(_: Mapping[str, Tensor]) -> None:
            with torch.no_grad():
                for tensor in self._changed():
                    saved = copies.get(tensor.data_ptr())
                    tensor.copy_(torch.zeros_like(tensor) if saved is None else saved)

        graph = cuda_graph.capture(
            play,
            [self._learner.generator],
            device=self._learner.device,
            get_state=save,
            set_state=restore,
            raise_pending_errors=lambda: None,
            pool=self.pool,
        )
        return _RecordedUpdate(graph, self._addresses(), tuple(metrics), stacked[0])
