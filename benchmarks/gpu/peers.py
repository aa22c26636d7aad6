"""Other libraries on the same device, as ``benchmarks/peers/inside`` plays them: what is not installed is left out.

They are imported in the process of their own part only, whose Python must have them.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import torch

from benchmarks.compare import Spread
from benchmarks.gpu.measure import SAMPLES, failed, free
from benchmarks.peers.process import Task

TURN = 25
"""Steps asked for at a time: an episode of simple_tag. A compiled loop plays a few more."""


@dataclass(frozen=True)
class Peer:
    """A library and a game of it."""

    name: str
    library: str
    game: str
    env_id: str
    """Ours of the same rules."""
    mode: str


PEERS = {
    "jaxmarl": Peer("JaxMARL", "jaxmarl", "MPE_simple_tag_v3", "SimpleTag-v0", "jit(scan(vmap(step)))"),
    "gymnax": Peer("gymnax", "gymnax", "CartPole-v1", "CartPole-v1", "jit(scan(vmap(step)))"),
    "vmas": Peer("VMAS", "vmas", "simple_tag", "SimpleTag-v0", "env.step"),
}
"""By part of the report."""


def measured(peer: Peer, device: torch.device, sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """Rows of a peer, one per number of worlds; what fails becomes a row that says why."""
    if peer.library != "vmas":
        _check_jax(device)
    inside = import_module(f"benchmarks.peers.inside.{peer.library}")
    for worlds in sizes:
        row: dict[str, Any] = {"env": peer.env_id, "worlds": worlds, "peer": peer.name, "mode": peer.mode}
        try:
            begun = time.perf_counter()
            row["agents"], play = inside.build(asdict(Task(peer.library, peer.game, worlds, device=str(device))))
            play(TURN)
            note = f"built and compiled in {time.perf_counter() - begun:.1f} s"
            rates = Spread.of(list(_rates(play, worlds, seconds)))
            row |= {"unit": "env-steps/s", "value": rates.median, "low": rates.low, "high": rates.high, "note": note}
            del play
        except Exception as error:  # noqa: BLE001  # told, and the next size may fit
            row |= failed(error)
        yield row
        free(device)


def _rates(play: Callable[[int], int], worlds: int, seconds: float) -> Iterator[float]:
    """Env-steps a second of single turns, each of which waits for the device: at least a few of them."""
    begun, turns = time.perf_counter(), 0
    while turns < SAMPLES or time.perf_counter() - begun < 2 * seconds:
        before, turns = time.perf_counter(), turns + 1
        played = play(TURN)
        yield worlds * played / (time.perf_counter() - before)


def _check_jax(device: torch.device) -> None:
    """JAX on the same kind of device, taking memory as it needs it."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if device.type == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    jax: Any = import_module("jax")
    kind = jax.devices()[0].platform
    if device.type == "cuda" and kind not in ("gpu", "cuda"):
        raise RuntimeError(f"JAX sees no GPU here, only {kind}: its CUDA plugin is not installed, or finds no driver")
