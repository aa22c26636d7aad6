"""State of the pretended GPUs: current device and streams, counted events, and the capture in progress."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pretended_gpu.claims import CPU

if TYPE_CHECKING:
    from pretended_gpu.graphs import Capture
    from pretended_gpu.streams import Stream

ROOT = Path(__file__).parents[2]
HERE = str(Path(__file__).parent)
NOT_PERMITTED = "operation not permitted when stream is capturing"


class Event(NamedTuple):
    """A counted event and the lines of the project that caused it, innermost first."""

    kind: str
    location: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.location}"


@dataclass
class Observed:
    """Events between two points, see `GPUState.observe`."""

    synchronizations: list[Event]
    """Waits of the host for the device."""
    graph_launches: list[Event]
    """Replays of CUDA graphs."""
    kernel_launches: int = 0
    """Operations of torch and kernels of Warp that were launched outside of graphs."""
    allocations: int = 0
    """Tensors of the device that were allocated."""


class GPUState:
    """State of the pretended GPUs.

    Attributes:
        num_devices: Number of GPUs.
        capture: The capture of a CUDA graph in progress, if any.
        sync_debug_mode: "default" or "error", as in torch.cuda.set_sync_debug_mode.
        synchronizations: Waits of the host for the device so far.
        graph_launches: Replays of CUDA graphs so far.
        kernel_launches: Number of launches outside of graphs so far.
        allocations: Number of allocated tensors of GPUs so far.
    """

    def __init__(self, num_devices: int) -> None:
        self.num_devices = num_devices
        self.default_streams: list[Stream] = []
        self.default_generators: list[Any] = []
        self.reset()

    def reset(self) -> None:
        """Return to the state of a new process, except for the default streams and generators."""
        self.initialized = False
        self.capture: Capture | None = None
        self.sync_debug_mode = "default"
        self.synchronizations: list[Event] = []
        self.graph_launches: list[Event] = []
        self.kernel_launches = 0
        self.allocations = 0
        self._local = threading.local()  # device, streams and requested device of each thread

    # ---------------------------------------------------------------- devices and streams

    @property
    def current_device(self) -> int:
        """Index of the current device of this thread."""
        return getattr(self._local, "device", 0)

    @current_device.setter
    def current_device(self, index: int) -> None:
        self.initialized = True
        self._local.device = index

    def resolve(self, device: Any) -> torch.device:
        """Return a device with its index; None is the current GPU.

        Raises:
            RuntimeError: There is no such GPU.
        """
        if device is None or isinstance(device, int):
            index = self.current_device if device is None or device < 0 else device
        else:
            target = torch.device(device)
            if target.type != "cuda":
                return CPU if target.type == "cpu" else target
            index = self.current_device if target.index is None else target.index
        if index >= self.num_devices:
            raise RuntimeError(
                f"CUDA error: invalid device ordinal {index}, the number of devices is {self.num_devices}"
            )
        return torch.device("cuda", index)

    def current_stream(self, device: torch.device) -> Stream:
        """Return the current stream of a GPU in this thread."""
        return getattr(self._local, "streams", {}).get(device.index, self.default_streams[device.index])

    def set_stream(self, stream: Stream) -> None:
        """Make a stream the current one of its GPU in this thread."""
        streams = self._local.__dict__.setdefault("streams", {})
        streams[stream.device.index] = stream

    @property
    def requested_device(self) -> torch.device | None:
        """Device argument of the torch function that this thread is in."""
        return getattr(self._local, "requested", None)

    @contextlib.contextmanager
    def requesting(self, device: torch.device | None) -> Iterator[None]:
        """Allocate on a device what a torch function allocates; None: where it says itself."""
        previous, self._local.requested = self.requested_device, device
        try:
            yield
        finally:
            self._local.requested = previous

    # ---------------------------------------------------------------- events

    def synchronize(self, kind: str, flagged: bool = True) -> None:
        """Count a wait of the host for the device.

        Args:
            kind: Name of the operation that waits.
            flagged: Whether torch.cuda.set_sync_debug_mode notices this kind.

        Raises:
            RuntimeError: A graph is being captured, or the debug mode is "error".
        """
        event = Event(kind, call_site())
        self.synchronizations.append(event)
        if self.capture is not None:
            raise RuntimeError(f"CUDA error: {NOT_PERMITTED}: synchronization by {event}")
        if flagged and self.sync_debug_mode == "error":
            raise RuntimeError(f"called a synchronizing CUDA operation: {event}")

    def copy(self, source: torch.device, target: torch.device, asynchronous: bool) -> None:
        """Count a copy between devices.

        Args:
            source: Device of the source.
            target: Device of the target.
            asynchronous: The copy is non-blocking, and its host memory, if any, is pinned.

        Raises:
            RuntimeError: A graph is being captured, and the copy waits or is between two GPUs.
        """
        kind = f"copy from {source} to {target}"
        host = CPU in (source, target)
        if self.capture is not None and not (asynchronous and host):
            raise RuntimeError(f"CUDA error: {NOT_PERMITTED}: {kind} at {call_site()}")
        if host and not asynchronous:
            self.synchronize(kind)

    @contextlib.contextmanager
    def observe(self) -> Iterator[Observed]:
        """Return the events of the block; they are complete at its end."""
        observed = Observed([], [])
        waits, graphs = len(self.synchronizations), len(self.graph_launches)
        kernels, allocations = self.kernel_launches, self.allocations
        try:
            yield observed
        finally:
            observed.synchronizations += self.synchronizations[waits:]
            observed.graph_launches += self.graph_launches[graphs:]
            observed.kernel_launches = self.kernel_launches - kernels
            observed.allocations = self.allocations - allocations


def call_site(depth: int = 3) -> str:
    """Return the innermost lines of the project that are running: "trainers/runner/collector.py:64 < ..."."""
    lines: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(lines) < depth:
        file = frame.f_code.co_filename
        is_internal = file.startswith(HERE) and not file.startswith(f"{HERE}/test_")
        if file.startswith(str(ROOT)) and not is_internal and "site-packages" not in file:
            lines.append(f"{Path(file).relative_to(ROOT)}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(lines) or "unknown"
