"""Streams and events of torch.cuda. Work runs at once; a stream only says where it belongs."""

from __future__ import annotations

import itertools
import time
from typing import Any, ClassVar

import torch

from pretended_gpu.state import GPUState


class Stream:
    """Stand-in for torch.cuda.Stream."""

    gpu: ClassVar[GPUState]
    _numbers = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = self.gpu.resolve(device)
        self.priority = priority
        self.cuda_stream = next(self._numbers)

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing: earlier work has ended."""

    def wait_event(self, event: TimingEvent) -> None:
        """Do nothing: earlier work has ended."""

    def record_event(self, event: TimingEvent | None = None) -> TimingEvent:
        """Record an event, or a new one."""
        event = event or TimingEvent()
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Count a wait of the host."""
        self.gpu.synchronize("Stream.synchronize")

    def is_capturing(self) -> bool:
        """Return whether a graph is captured on this stream."""
        return self.gpu.capture is not None and self.gpu.capture.stream is self


class TimingEvent:
    """Stand-in for torch.cuda.Event, with times of the host."""

    gpu: ClassVar[GPUState]

    def __init__(self, enable_timing: bool = False, external: bool = False, **_: Any) -> None:
        self.enable_timing, self.external = enable_timing, external
        self.device: torch.device | None = None
        self.seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Take the time now or, while a graph is captured, at every replay.

        Raises:
            RuntimeError: The event was recorded on another GPU before.
        """
        stream = stream or self.gpu.current_stream(self.gpu.resolve(None))
        if self.device not in (None, stream.device):
            raise RuntimeError(f"Event device {self.device} does not match recording stream's device {stream.device}.")
        self.device = stream.device
        if not stream.is_capturing():
            self._take()
        elif self.external:
            self.gpu.capture.record_host_function(self._take)

    def _take(self) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: TimingEvent) -> float:
        """Return the time until another event [ms].

        Raises:
            RuntimeError: An event has no time (it was not recorded, or in a graph without `external`), or the events
                are of different GPUs.
        """
        if self.device != end.device:
            raise RuntimeError(f"CUDA error: invalid resource handle: events of {self.device} and {end.device}")
        if self.seconds is None or end.seconds is None or not (self.enable_timing and end.enable_timing):
            raise RuntimeError("Both events must be recorded with timing before calculating elapsed time.")
        return (end.seconds - self.seconds) * 1e3

    def synchronize(self) -> None:
        """Count a wait of the host."""
        self.gpu.synchronize("Event.synchronize", flagged=False)


def stream_classes(gpu: GPUState) -> tuple[type[Stream], type[TimingEvent]]:
    """Return the classes of streams and events of these GPUs, and create the default streams."""
    Stream.gpu = TimingEvent.gpu = gpu
    gpu.default_streams = [Stream(torch.device("cuda", index)) for index in range(gpu.num_devices)]
    return Stream, TimingEvent
