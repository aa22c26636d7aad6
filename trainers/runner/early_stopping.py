"""Why a training ends before its steps are through: a signal, no more progress, numbers that are not finite."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from torch import Tensor, nn

from gpu_envs.errors import GpuEnvsError


class DivergedError(GpuEnvsError, RuntimeError):
    """Losses, gradients or parameters are no longer finite."""


@dataclass
class Patience:
    """Counts evaluations that were no better than the best before them."""

    limit: int
    """Evaluations without a better score that end the training; 0: it never ends for that."""
    best: float = -math.inf
    """The highest score so far."""
    since: int = 0
    """Evaluations after the best."""

    def judge(self, score: float) -> None:
        """Takes in the score of an evaluation; higher is better."""
        self.best, self.since = (score, 0) if score > self.best else (self.best, self.since + 1)

    @property
    def over(self) -> bool:
        """Whether to stop."""
        return 0 < self.limit <= self.since


def weights(net: nn.Module) -> list[tuple[str, Tensor]]:
    """What a network has learned, parameters and statistics of any shapes, by name."""
    return [(name, tensor) for name, tensor in net.state_dict().items() if tensor.is_floating_point()]


def largest(net: nn.Module) -> Tensor:
    """The largest magnitude in a network, a scalar on its device; not finite where anything in it is not."""
    return nn.utils.get_total_norm([tensor for _, tensor in weights(net)], math.inf).float()


def check_finite(
    iteration: int,
    metrics: Mapping[str, float],
    nets: Mapping[str, nn.Module],
    sizes: Sequence[float],
    where: Callable[[], str],
) -> None:
    """Ends a training that has come apart, before it is saved over what it was.

    Args:
        iteration: The one just done.
        metrics: Those that end in "loss" or "grad_norm" have to be finite.
        nets: The learners' networks, by policy.
        sizes: What `largest` says of each.
        where: Says what of the run is saved; told at the end of the line.

    Raises:
        DivergedError: Names the iteration, the metric, the first parameter that is not finite and the last checkpoint.
    """
    bad = [f"{name} is {value}" for name, value in metrics.items() if _guarded(name) and not math.isfinite(value)]
    broken = [
        f"{policy}/{name}"
        for (policy, net), size in zip(nets.items(), sizes, strict=True)
        if not math.isfinite(size)
        for name, tensor in weights(net)
        if not bool(tensor.isfinite().all())
    ]
    if not bad and not broken:
        return
    what = bad[0] if bad else f"{broken[0]} is not finite"
    first = f" (the first parameter that is not finite: {broken[0]})" if bad and broken else ""
    raise DivergedError(
        f"iteration {iteration}: {what}: the training has diverged, or the environment gave what is not finite{first}; "
        f"{where()}. Try a lower learner.learning_rate or learner.reward_scale"
    )


def _guarded(metric: str) -> bool:
    return metric.endswith(("loss", "grad_norm"))


@contextlib.contextmanager
def signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Within the block the first SIGINT or SIGTERM calls `stop`; a second one acts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def process_seconds() -> float:
    """Seconds since this process began, imports and all (Linux; to a hundredth)."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # clock ticks since boot
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
