"""The memory roofline of a step: bytes that the rules must move, over the bandwidth of the machine, measured.

``traffic`` counts the necessary memory traffic of a step from the tensors of a core. Actions are read. Observations
(without padding), rewards and flags are written. State that a step needs is read, and state that changes is written.
Temporary values, parameters (they stay in the caches), ends of episodes and reads of a learner are not counted.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core

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
"""Buffers that a step must read and write, with their counts. ``obs`` is counted by its true width. Buffers of starts
and
ends (``final_obs``, ``episode_return``, ``episode_length``, ``seed``, ``episode``) are not counted, nor are buffers of
one
step (``active``, ``restart``, ``refused``, ``forfeit``) and ``error``."""
WORLDS = 64
"""Worlds of the small copy of a core in which the use of state is tested."""
STEPS = 12
"""Steps of this test."""
NEARLY_ALL = 0.9
"""Share of changed elements above which a field counts as changed completely."""


@dataclass(frozen=True)
class MemoryTraffic:
    """Memory traffic of one buffer per world and step."""

    name: str
    bytes: int  # of one world's part
    reads: float  # share of it that is read; 0 or 1
    writes: float  # share of it that is written

    @property
    def moved(self) -> float:
        """Return bytes per world and step."""
        return round(self.bytes * (self.reads + self.writes), 3)


@dataclass(frozen=True)
class Traffic:
    """Memory traffic of a step of one world [bytes]."""

    entries: tuple[MemoryTraffic, ...]

    @property
    def bytes(self) -> float:
        """Return the total."""
        return sum(entry.moved for entry in self.entries)


def traffic(core: Core) -> Traffic:
    """Count the bytes that a step of one world must move.

    The fields of State that a step reads and changes are found by a test in a small copy of the core on the same
    device.
    It repeats random steps with one field taken from another world or from the start of the episode. If some actions
    are illegal, foreign fields may be inconsistent. Then there is no test, and all of State counts.

    Args:
        core: Any core; its worlds are not changed.
    """
    layout = core._buffers
    entries = [_entry(f"io.{name}", layout.io[name], *COUNTED[name]) for name in COUNTED if layout.io[name].numel()]
    width = sum(core.observation_spaces[agent].shape[0] for agent in core.possible_agents)  # type: ignore[index]
    entries.append(MemoryTraffic("io.obs", width * layout.io["obs"].element_size(), 0, 1))
    if len(layout.params) > 1:  # every world has its own constants
        entries.append(_entry("params", layout.params, 1, 0))
    fields = {name: tensor for name, tensor in layout.saved_state.items() if tensor.numel()}
    reported = set(core.definition.info.values())
    used = dict.fromkeys(fields, (1.0, 1.0)) if core.definition.rules.masked else _tried(core, reported)
    entries += [_entry(f"state.{name}", tensor, *used[name]) for name, tensor in fields.items()]
    return Traffic(tuple(entries))


def _entry(name: str, tensor: torch.Tensor, reads: float, writes: float) -> MemoryTraffic:
    return MemoryTraffic(name, tensor[0].numel() * tensor.element_size(), reads, writes)


def _tried(core: Core, reported: set[str]) -> dict[str, tuple[float, float]]:
    """Return the shares read and written of every field of State."""
    small = _small_copy(core)
    fields = {name: tensor for name, tensor in small._buffers.saved_state.items() if tensor.numel()}
    alike = dict.fromkeys(fields, True)  # in all worlds at all times, so the test is inconclusive
    needed = dict.fromkeys(fields, False)
    changed = {name: torch.zeros_like(tensor[0], dtype=torch.bool) for name, tensor in fields.items()}
    first = small.get_state()
    for _ in range(STEPS):
        previous, action = small.get_state(), small.sample_actions().clone()
        small.step(action)
        after = small.get_state()
        playing = small.elapsed_steps > 0  # the others have restarted
        moved = {name: _of(after, name) != _of(previous, name) for name in fields}
        for name in fields:
            changed[name] |= moved[name][playing].any(0)
            foreign = _of(previous, name).roll(1, 0)
            if torch.equal(foreign, _of(previous, name)):
                foreign = _of(first, name)
            if needed[name] or torch.equal(foreign, _of(previous, name)):
                continue
            alike[name] = False
            small.set_state(previous | {f"state.{name}": foreign})
            small.step(action)
            for other, tensor in small.get_state().items():
                differs = tensor != after[other]
                if other == f"state.{name}":  # what a step leaves as it is proves nothing
                    differs = differs & moved[name]
                needed[name] = needed[name] or bool(differs.any())
        small.set_state(after)
    used = {}
    for name, mask in changed.items():
        share = int(mask.sum()) / mask.numel()
        share = 1.0 if share > NEARLY_ALL else share
        is_read = needed[name] or alike[name]
        used[name] = (float(is_read), share if is_read or name in reported else 0.0)
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
