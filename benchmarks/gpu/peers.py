"""Other libraries on the same device, by ``benchmarks/peers/inside``; libraries that are not installed are skipped.

Each is imported only in the process of its part.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import torch

from benchmarks.gpu.measure import SAMPLES, failed, free
from benchmarks.peers.process import PeerTask
from benchmarks.throughput.timing import Spread

TURN = 25
"""Steps per call: an episode of simple_tag. A compiled loop may run a few more."""


@dataclass(frozen=True)
class GpuPeer:
    """A library and one of its games."""

    name: str
    library: str
    game: str
    env_id: str
    """ID of the equivalent environment of gpu-envs."""
    mode: str


PEERS = {
    "jaxmarl": GpuPeer("JaxMARL", "jaxmarl", "MPE_simple_tag_v3", "SimpleTag-v0", "jit(scan(vmap(step)))"),
    "gymnax": GpuPeer("gymnax", "gymnax", "CartPole-v1", "CartPole-v1", "jit(scan(vmap(step)))"),
    "vmas": GpuPeer("VMAS", "vmas", "simple_tag", "SimpleTag-v0", "env.step"),
}
"""Libraries by part of the report."""


def measured(peer: GpuPeer, device: torch.device, sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield one row per batch size of a library; a failure becomes a row with the reason."""
    if peer.library != "vmas":
        _check_jax(device)
    inside = import_module(f"benchmarks.peers.inside.{peer.library}")
    for worlds in sizes:
        row: dict[str, Any] = {"env": peer.env_id, "worlds": worlds, "peer": peer.name, "mode": peer.mode}
        try:
            start = time.perf_counter()
            row["agents"], play = inside.build(asdict(PeerTask(peer.library, peer.game, worlds, device=str(device))))
            play(TURN)
            note = f"built and compiled in {time.perf_counter() - start:.1f} s"
            rates = Spread.of(list(_rates(play, worlds, seconds)))
            row |= {"unit": "env-steps/s", "value": rates.median, "low": rates.low, "high": rates.high, "note": note}
            del play
        except Exception as error:  # noqa: BLE001  # reported; the next size may fit
            row |= failed(error)
        yield row
        free(device)


def _rates(play: Callable[[int], int], worlds: int, seconds: float) -> Iterator[float]:
    """Return environment steps per second of single calls with host synchronization."""
    start, turns = time.perf_counter(), 0
    while turns < SAMPLES or time.perf_counter() - start < 2 * seconds:
        begin, turns = time.perf_counter(), turns + 1
        played = play(TURN)
        yield worlds * played / (time.perf_counter() - begin)


def _check_jax(device: torch.device) -> None:
    """Select the JAX device and allocate its memory on demand."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if device.type == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    jax: Any = import_module("jax")
    kind = jax.devices()[0].platform
    if device.type == "cuda" and kind not in ("gpu", "cuda"):
        raise RuntimeError(f"JAX sees no GPU here, only {kind}: its CUDA plugin is not installed, or finds no driver")
