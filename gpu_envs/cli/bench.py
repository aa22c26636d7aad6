"""The command `gpu-envs bench`: throughput of random actions."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_envs.cli.options import DeviceOptions, EnvOptions, OptionalInt, OptionalStr, parse, parse_pairs
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.settings import MAX_INT, setting

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class BenchOptions(DeviceOptions, EnvOptions):
    """Measure the throughput of one environment with random actions, autoreset included.

    Print environment steps per second, agent steps per second and microseconds per batched step, for the tensor API
    with and without reused buffers and for the API with dictionaries of agents.

    Example: gpu-envs bench SimpleTag-v0 --num-envs 16384
    """

    num_envs: int = setting(4096, ge=1, le=MAX_INT)
    """Number of parallel environments (worlds)."""
    num_threads: OptionalInt = setting(None, ge=1, le=MAX_INT)
    """Number of CPU threads. Default: chosen from the number of cores and environments."""
    schedule: OptionalStr = setting(None, choices=("fused", "block", "phased"))
    """Kernels per step: "fused" and "block": one; "phased": one per phase. Default: chosen by agents and device."""
    seconds: float = setting(1.0, gt=0)
    """Duration of the measurement of each API [s]."""


def bench_command(argv: list[str]) -> int:
    """Measure the throughput of an environment with random actions."""
    args = parse(BenchOptions, "bench", argv)
    from gpu_envs.runtime.factory import make_core
    from gpu_envs.views.batched import make

    names = {"num_envs": "--num-envs", "threads": "--num-threads", "device": "--device", "schedule": "--schedule"}
    common: dict[str, Any] = dict(
        seed=0, threads=args.num_threads, schedule=args.schedule, **parse_pairs(args.env_arg, options=names)
    )
    fast = make_core(args.env_id, args.num_envs, args.device, reuse_buffers=True, **common)
    safe = make_core(args.env_id, args.num_envs, args.device, **common)
    batched = make(args.env_id, args.num_envs, args.device, reuse_buffers=True, **common)
    for env in (fast, safe, batched):
        env.reset()
    actions = []
    for _ in range(8):
        actions.append(fast.sample_actions().clone())
        fast.step(actions[-1])
    dicts = [dict(zip(fast.possible_agents, action.unbind(1), strict=True)) for action in actions]
    steps_by_api: dict[str, Callable[[int], Any]] = {
        "core.step, reused buffers": lambda i: fast.step(actions[i & 7]),
        "core.step, clones (default)": lambda i: safe.step(actions[i & 7]),
        "dict of agents, reused buffers": lambda i: batched.step(dicts[i & 7]),
    }
    rates: dict[str, list[float]] = {name: [] for name in steps_by_api}
    rounds = [*steps_by_api] * 3  # the APIs alternate, so that other load on the machine slows all of them equally
    with ProgressBar(len(rounds), "rounds", file=sys.stderr) as progress:
        for done, name in enumerate(rounds, start=1):
            rates[name].append(_rate(steps_by_api[name], args.seconds / 3, fast.device))
            progress(done, name)
    hardware = f"{fast.device}, {fast.schedule}" + (f", {fast.threads} threads" if fast.device.type == "cpu" else "")
    print(f"{fast.id}: {args.num_envs} worlds x {fast.num_agents} agents on {hardware}")
    for name, measured in rates.items():
        steps = statistics.median(measured)
        worlds, agents = steps * args.num_envs, steps * args.num_envs * fast.num_agents
        print(f"  {name:32s} {worlds:14,.0f} env-steps/s {agents:14,.0f} agent-steps/s {1e6 / steps:10.1f} us/step")
    return 0


def _rate(step: Callable[[int], Any], seconds: float, device: torch.device) -> float:
    """Return the calls per second of a step function; the device is synchronized before and after."""
    import torch

    sync = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    for i in range(3):
        step(i)
    sync()
    count, batch, started = 0, 1, time.perf_counter()
    while True:
        for i in range(batch):
            step(i)
        sync()
        count += batch
        passed = time.perf_counter() - started
        if passed >= seconds:
            return count / passed
        batch = max(1, int(count / passed * seconds / 10))  # read the clock about ten times
