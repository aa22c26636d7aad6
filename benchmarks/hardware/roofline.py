"""The memory roofline of a step: bytes that the rules must move, over the bandwidth of the machine, measured.

``traffic`` counts, out of a core's own tensors and dtypes, what a step cannot do without: actions are read;
observations (without padding), rewards and flags are written; of the worlds' state what a step needs of the last one is
read, and what changes of it is written. Not counted: what lives within one step only, constants (they stay in the
caches), the ends of episodes (they are spread over all steps of an episode), and a learner's reading.
"""

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.compare import Spread
from gpu_envs.core import Core
from gpu_envs.factory import make_core

COUNTED = {
    "choice": (1, 0),
    "control": (1, 0),
    "action_mask": (0, 1),
    "to_move": (1, 1),
    "reward": (0, 1),
    "terminated": (0, 1),
    "truncated": (0, 1),
    "alive": (1, 0),  # changes at ends only
    "valid": (0, 1),
    "running_return": (1, 1),
    "step": (1, 1),
    "over": (1, 0),
}
"""Buffers of the runner that a step without an end must read and write, and how often. ``obs`` is counted by its true
width; ``final_obs``, ``episode_return``, ``episode_length``, ``seed`` and ``episode`` by no means: they are of ends and
starts. ``active``, ``restart``, ``refused`` and ``forfeit`` live within a step; ``error`` is touched by bad actions."""
WORLDS = 64
"""Of the small copy of a core in which the use of its state is tried,"""
STEPS = 12
"""and for how many steps."""
NEARLY_ALL = 0.9
"""Where so many elements of a field have changed, the others had no occasion to."""


@dataclass(frozen=True)
class Entry:
    """What one buffer costs, per world and step."""

    name: str
    bytes: int  # of one world's part
    reads: float  # share of it that is read; 0 or 1
    writes: float  # share of it that is written

    @property
    def moved(self) -> float:
        """Bytes per world and step."""
        return round(self.bytes * (self.reads + self.writes), 3)


@dataclass(frozen=True)
class Traffic:
    """Bytes that a step of one world must move."""

    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> float:
        """In all."""
        return sum(entry.moved for entry in self.entries)

    def table(self) -> str:
        """What counts, in Markdown."""
        lines = ["| buffer | bytes of a world | read | written | moved |", "|---|---|---|---|---|"]
        for entry in sorted(self.entries, key=lambda entry: -entry.moved):
            lines.append(f"| {entry.name} | {entry.bytes} | {entry.reads:.3g} | {entry.writes:.3g} | {entry.moved:g} |")
        return "\n".join([*lines, f"| sum | | | | {self.bytes:g} |"])


def traffic(core: Core) -> Traffic:
    """Count the bytes that a step of one of a core's worlds must move.

    Which fields of State a step needs of the last one, and which it changes, is tried out in a small copy of the core
    on the same device: it is played a few random steps, each of them again with one field taken from another world or
    from the start. Where some actions are illegal a foreign field may make nonsense of a world, so nothing is tried and
    all of State counts.

    Args:
        core: Any core; its worlds stay as they are.
    """
    layout = core._layout
    entries = [_entry(f"io.{name}", layout.io[name], *COUNTED[name]) for name in COUNTED if layout.io[name].numel()]
    width = sum(core.observation_spaces[agent].shape[0] for agent in core.possible_agents)  # type: ignore[index]
    entries.append(Entry("io.obs", width * layout.io["obs"].element_size(), 0, 1))
    if len(layout.params) > 1:  # every world has constants of its own
        entries.append(_entry("params", layout.params, 1, 0))
    fields = {name: tensor for name, tensor in layout.kept.items() if tensor.numel()}
    told = set(core.definition.info.values())
    used = dict.fromkeys(fields, (1.0, 1.0)) if core.definition.rules.masked else _tried(core, told)
    entries += [_entry(f"state.{name}", tensor, *used[name]) for name, tensor in fields.items()]
    return Traffic(tuple(entries))


def _entry(name: str, tensor: torch.Tensor, reads: float, writes: float) -> Entry:
    return Entry(name, tensor[0].numel() * tensor.element_size(), reads, writes)


def _tried(core: Core, told: set[str]) -> dict[str, tuple[float, float]]:
    """Share read and share written of every field of State."""
    small = _small_copy(core)
    fields = {name: tensor for name, tensor in small._layout.kept.items() if tensor.numel()}
    alike = dict.fromkeys(fields, True)  # in all worlds at all times, so that nothing can be told
    needed = dict.fromkeys(fields, False)
    changed = {name: torch.zeros_like(tensor[0], dtype=torch.bool) for name, tensor in fields.items()}
    first = small.get_state()
    for _ in range(STEPS):
        before, action = small.get_state(), small.sample_actions().clone()
        small.step(action)
        after = small.get_state()
        playing = small.steps > 0  # others have begun anew
        moved = {name: _of(after, name) != _of(before, name) for name in fields}
        for name in fields:
            changed[name] |= moved[name][playing].any(0)
            foreign = _of(before, name).roll(1, 0)
            if torch.equal(foreign, _of(before, name)):
                foreign = _of(first, name)
            if needed[name] or torch.equal(foreign, _of(before, name)):
                continue
            alike[name] = False
            small.set_state(before | {f"state.{name}": foreign})
            small.step(action)
            for other, tensor in small.get_state().items():
                differs = tensor != after[other]
                if other == f"state.{name}":  # what a step leaves as it is proves nothing
                    differs = differs & moved[name]
                needed[name] = needed[name] or bool(differs.any())
        small.set_state(after)
    used = {}
    for name, seen in changed.items():
        share = int(seen.sum()) / seen.numel()
        share = 1.0 if share > NEARLY_ALL else share
        kept = needed[name] or alike[name]
        used[name] = (float(kept), share if kept or name in told else 0.0)
    return used


def _of(state: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    return state[f"state.{name}"]


def _small_copy(core: Core) -> Core:
    config = {field.name: getattr(core.config, field.name) for field in dataclasses.fields(core.config)}
    settings: dict[str, Any] = {"schedule": core.schedule, "reuse_buffers": True, "seed": 0}
    worlds = min(WORLDS, max(2, 2_000_000 // max(1, core.num_agents * core.obs_width)))
    small = make_core(core.id, worlds, core.device, **settings, **config)
    small.reset()
    return small


def copy_bandwidth(device: torch.device | str, size: int | None = None, repeats: int = 10) -> Spread:
    """Measure how many bytes a second a device reads and writes together, by copying a large tensor.

    Args:
        device: Which; on a CPU torch uses as many threads as ``torch.get_num_threads()`` says.
        size: Bytes of the tensor; None takes 2 GiB on a GPU (at most a quarter of what is free), 256 MiB on a CPU: many
            times what the caches hold.
        repeats: Copies timed, each on its own.

    Returns:
        Median and quartiles [bytes/s]: twice the size over the time of a copy.
    """
    device = device if isinstance(device, torch.device) else torch.device(device)
    if size is None:
        size = min(2 << 30, torch.cuda.mem_get_info(device)[0] // 4) if device.type == "cuda" else 256 << 20
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device=device)  # zeros may go faster
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    seconds = list(_copies(source, target, repeats))
    return Spread.of([2 * source.numel() * source.element_size() / lasted for lasted in seconds])


def _copies(source: torch.Tensor, target: torch.Tensor, repeats: int) -> Iterator[float]:
    """Seconds of every copy."""
    if source.device.type != "cuda":
        for _ in range(repeats):
            begin = time.perf_counter()
            target.copy_(source)
            yield time.perf_counter() - begin
        return
    with torch.cuda.device(source.device):
        for _ in range(repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source)
            end.record()
            end.synchronize()
            yield begin.elapsed_time(end) / 1e3


def share(core_traffic: Traffic, env_steps_per_second: float, bandwidth: float) -> float:
    """How much of the bandwidth a throughput needs at least; beyond 1 where the worlds fit into the caches."""
    return core_traffic.bytes * env_steps_per_second / bandwidth
