"""Wall-clock time of the phases of an iteration."""

from __future__ import annotations

import time
from typing import Any

import torch

LEARNING_PHASES = ("rollout", "inference", "env_step", "storage", "update")
"""Phases of every training. Kernels that act and step are one phase, "rollout"."""
PHASES = (*LEARNING_PHASES, "evaluation", "logging", "checkpoint")
"""Phases of an iteration of `Trainer`; their times add up to its duration."""


class PhaseTimer:
    """Sum the seconds of named phases. On a GPU the times come from events in the stream, without host synchronization.

    Marks recorded into a CUDA graph count once per replay, see `replayed`.
    """

    def __init__(self, device: torch.device) -> None:
        """Start the first phase."""
        self.device: torch.device = device
        self.cuda: bool = device.type == "cuda"
        self.totals: dict[str, float] = {}
        self.events: list[tuple[str, Any, Any]] = []
        self.in_graph: list[tuple[str, Any, Any]] = []
        self.last: Any = None
        self.start()

    def _now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        with torch.cuda.device(self.device):  # an event belongs to the device that is current when it is recorded
            # an external event is a separate node of the graph, whose time can be read
            event = torch.cuda.Event(enable_timing=True, external=torch.cuda.is_current_stream_capturing())
            event.record()
        return event

    def start(self) -> None:
        """Discard the time since the last mark; in a capture, also the marks of the graph that it replaces."""
        if self.cuda and torch.cuda.is_current_stream_capturing():
            self.in_graph = []
        self.last = self._now()

    def mark(self, phase: str) -> None:
        """Add the time since the last mark to `phase`."""
        now = self._now()
        if not self.cuda:
            self.totals[phase] = self.totals.get(phase, 0.0) + now - self.last
        elif torch.cuda.is_current_stream_capturing():
            self.in_graph.append((phase, self.last, now))
        else:
            self.events.append((phase, self.last, now))
        self.last = now

    def replayed(self) -> None:
        """Count the marks of the graph that was just replayed. Call it once between two calls of `read`."""
        self.events += self.in_graph

    def read(self) -> dict[str, float]:
        """Return the seconds per phase since the last call. On a GPU this synchronizes with the stream."""
        if self.cuda:
            torch.cuda.synchronize(self.device)
            for phase, begin, end in self.events:
                self.totals[phase] = self.totals.get(phase, 0.0) + begin.elapsed_time(end) / 1e3
            self.events.clear()
        totals, self.totals = self.totals, {}
        return totals
