"""Timing of steps on a device by environment, mode of actions and batch size."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import torch

from benchmarks.throughput.cases import random_actions
from benchmarks.throughput.timing import Spread
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core

PLAYOUT = 32
"""Steps per call of a random rollout."""
SAMPLES = 5
"""Number of timings of a median."""

MODES = {
    "in place": "captured, random actions lie in the buffer (another batch every 8 steps)",
    "copied": "captured, random actions made beforehand are copied in at every step",
    "sampled": "captured, actions drawn at every step",
    "eager": "a Python call per step, random actions copied in",
    "random play": "captured, core.random_rollout",
}
"""Mode of stepping."""


def calls(core: Core, mode: str, actions: list[torch.Tensor]) -> tuple[Callable[[], Any], int]:
    """Return the timed function and the number of steps per call."""
    turn = count()
    if mode == "eager":
        return lambda: core.step(actions[next(turn) % len(actions)]), 1
    if mode == "random play":
        return core.capture(lambda: core.random_rollout(PLAYOUT)), PLAYOUT
    if mode == "copied":
        return core.capture(lambda: [core.step(batch) for batch in actions]), len(actions)
    if mode == "sampled":
        return core.capture(lambda: [core.step(core.sample_actions()) for _ in actions]), len(actions)
    replay = core.capture(lambda: [core.step(core.action_buffer) for _ in actions])

    def play() -> None:
        core.action_buffer.copy_(actions[next(turn) % len(actions)])
        replay()

    return play, len(actions)


def timed(call: Callable[[], Any], device: torch.device, seconds: float) -> Spread:
    """Return median and quartiles of the seconds per call, after a warm-up."""
    for _ in range(2):
        call()
    _lasted(call, 1, device)
    number = max(1, min(1_000_000, round(seconds / SAMPLES / max(_lasted(call, 3, device) / 3, 1e-7))))
    return Spread.of([_lasted(call, number, device) / number for _ in range(SAMPLES)])


def _lasted(call: Callable[[], Any], number: int, device: torch.device) -> float:
    """Return the seconds of a number of calls, measured by events on a GPU."""
    if device.type != "cuda":
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(number):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def throughputs(
    env_id: str,
    worlds: int,
    device: torch.device,
    modes: tuple[str, ...],
    seconds: float,
    *,
    schedule: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield one row per mode for one batch of worlds; a failure becomes a row with the reason."""
    about = {"env": env_id, "worlds": worlds, "schedule": schedule or "auto"}
    try:
        settings: dict[str, Any] = {"seed": 1, "reuse_buffers": True, "schedule": schedule}
        core = make_core(env_id, worlds, device, **settings, **(config or {}))
        core.reset()
        actions = random_actions(core)
    except Exception as error:  # noqa: BLE001  # reported; the next case may fit
        yield about | failed(error)
        return
    about |= {"agents": core.num_agents, "schedule": core.schedule, "block_dims": core.block_dims}
    for mode in modes:
        try:
            call, steps = calls(core, mode, actions)
            took = timed(call, device, seconds)
            core.raise_pending_errors()
        except Exception as error:  # noqa: BLE001  # reported; the next mode is tried
            yield about | {"mode": mode} | failed(error)
            continue
        rates = {"value": took.median, "low": took.high, "high": took.low}
        rates = {name: worlds * steps / lasted for name, lasted in rates.items()}
        yield about | {"mode": mode, "unit": "env-steps/s", **rates}


def failed(error: BaseException) -> dict[str, str]:
    """Return an error as one line."""
    text = " ".join(str(error).split())
    return {"error": f"{type(error).__name__}: {text[:300]}"}


def free(device: torch.device) -> None:
    """Release unused memory."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
