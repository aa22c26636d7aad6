"""Phase isolation: play steps phase by phase, with siblings in several orders, and name the phase that violates it."""

from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np
import torch

from gpu_envs.definition.rules_errors import record_kernel
from gpu_envs.errors import ConformanceError
from gpu_envs.runtime.core import Core
from gpu_envs.testing.reference_checks import Subject, bits, place_of
from warp_kernels.framework.step import step_phases
from warp_kernels.framework.thread_orders import ORDERS, USUAL, permutation, reorder
from warp_kernels.rules import AGENT, WORLD, Phase

SHARED = ("params",)
"""Entries of a state that are shared by all worlds."""
AUTHORS = {
    "begin_world": "reset",
    "rejoin": "reset_agent",
    "reobserve": "observe (at the start)",
    "keep_state": "global_state (at the end)",
}
"""Names of the environment's functions that phases of the framework run."""
Bytes = dict[str, bytes]
"""Type of saved arrays by name."""
FRAMEWORK = ("begin", "advance_clock", "leave", "find_ends", "leave_at_last", "turn", "show_start")
"""Phases that run no function of the environment."""


class PhasePlayer:
    """A core that plays its steps phase by phase.

    Args:
        subject: Environment under test.

    Attributes:
        core: The core, in the usual order of siblings.
        changes: Number of steps in which each function of the environment has changed something.
    """

    def __init__(self, subject: Subject) -> None:
        d = subject.definition
        self._subject = subject
        self.core: Core = subject.core(definition=replace(d, rules=reorder(d.rules, USUAL)), schedule="phased")
        parts = step_phases(d.rules, in_slots=True)
        self._phases: tuple[Phase, ...] = (*parts.play, *parts.start)
        self.changes: dict[str, int] = {name_of(phase): 0 for phase in self._phases if phase.called not in FRAMEWORK}
        buffers = self.core._buffers
        tensors = {f"io.{name}": tensor for name, tensor in buffers.io.items() if f"io.{name}" not in buffers.constants}
        tensors |= {f"State.{name}": tensor for name, tensor in buffers.state.items() if name not in d.initial}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self._shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {n: (a.shape, a.dtype) for n, a in arrays.items()}
        self._arrays = {name: array.reshape(-1).view(np.uint8) for name, array in arrays.items()}
        self._compared = [name for name in tensors if name.removeprefix("State.") not in d.scratch]
        self.core.reset()

    def step(self, t: int) -> None:
        """Play a step of random actions; every phase of the environment runs in every order of siblings.

        Raises:
            ConformanceError: The order matters; names step, phase, array, agent and world.
        """
        self.core.sample_actions()
        for number, phase in enumerate(self._phases):
            if phase.called in FRAMEWORK:
                self._launch(number, phase)
                continue
            start = self._save()
            self._launch(number, phase)
            usual = self._save()
            if usual == start:  # every agent has read what was there before, so that other orders change nothing, too
                continue
            self.changes[name_of(phase)] += 1
            for order in ORDERS if phase.over != WORLD else ():
                self._load(start)
                self._launch(number, phase, order)
                for name in self._compared:
                    if usual[name] != self._arrays[name].tobytes():
                        self._report(t, number, phase, start, usual, name)
                self._load(usual)

    def _save(self) -> Bytes:
        return {name: array.tobytes() for name, array in self._arrays.items()}

    def _load(self, saved: Bytes) -> None:
        for name, data in saved.items():
            self._arrays[name][:] = np.frombuffer(data, np.uint8)

    def _differences(self, saved: Bytes, name: str) -> np.ndarray:
        """Return where an array differs from a saved one, bit for bit."""
        shape, dtype = self._shapes[name]
        bits = np.dtype(f"u{dtype.itemsize}")
        left, right = (np.frombuffer(data, bits).reshape(shape) for data in (saved[name], self._arrays[name].tobytes()))
        return left != right

    def _launch(self, number: int, phase: Phase, order: str = USUAL) -> None:
        """Run a phase of a step, siblings in an order."""
        command = self.core._launcher.launches("step")[0][number]
        if phase.over != WORLD:
            for index, value in enumerate(permutation(order, self._count(phase)), start=1):
                command.set_param_at_index(index, value)
        command.launch()

    def _count(self, phase: Phase) -> int:
        """Return the number of siblings of a phase in a world."""
        return self.core.num_agents if phase.over == AGENT else int(phase.over)

    def _report(self, t: int, number: int, phase: Phase, initial: Bytes, usual: Bytes, name: str) -> NoReturn:
        """Raise the error of a phase in which the order of siblings changes an array."""
        location = place_of(self._subject, name, np.argwhere(self._differences(usual, name))[0].tolist())
        over = "agents" if phase.over == AGENT else f"its {phase.over} items"
        start = f"phase {name_of(phase)} (over {over}): "
        promise = "no agent reads what a sibling writes in the same phase"
        written = self._foreign_write(number, initial) if phase.over == AGENT else ""
        if written:
            promise = "no agent writes what belongs to a sibling"
            cause = f"{written}. Write at [env, agent] only; an index beyond the end of a row is in the next row"
        else:
            cause = (
                f"{location} depends on the order in which siblings run. It reads what a sibling writes in the same "
                "phase: read it in a later phase, or write to another array"
            )
        raise ConformanceError(f"{self._subject.id}: {promise}; step {t}: {start}{cause}")

    def _foreign_write(self, number: int, initial: Bytes) -> str:
        """Return which agent writes into which row of another when it runs alone; "" if none does."""
        core, agents = self.core, self._subject.definition.agents
        stage = core._launcher.program.step[number]
        params, state, ios = core._launcher.arguments
        for agent, writer in enumerate(agents):
            self._load(initial)
            inputs = [0, 0, agent, params, state, ios[0]]
            record_kernel(stage.kernel, (core.num_envs, 1), inputs, core._launcher.device).launch()
            for name in self._compared:
                changed = self._differences(initial, name)
                if changed.ndim > 1 and changed.shape[:2] == (core.num_envs, len(agents)):
                    changed[:, agent] = False
                    if changed.any():
                        return f"{writer} writes {place_of(self._subject, name, np.argwhere(changed)[0].tolist())}"
        return ""


def name_of(phase: Phase) -> str:
    """Return the name of a phase as an author knows it."""
    return AUTHORS.get(phase.called, phase.called)


def find_env_dependence(subject: Subject, world: int, steps: int) -> str:
    """Return a description of the phase in which a world depends on other worlds; empty if there is none."""
    d = subject.definition
    core = partial(subject.core, definition=replace(d, rules=reorder(d.rules, USUAL)), schedule="phased")
    difference = _first_difference(subject, core(), core(1, env_offset=world), world, steps)
    if not difference:
        return ""
    phase, location = difference
    return (
        f"phase {phase}: {location} is another when the world plays alone. It reads another world, or another world "
        "writes it: every index of an array begins with env"
    )


def _first_difference(subject: Subject, first: Core, second: Core, offset: int, steps: int) -> tuple[str, str] | None:
    """Return name and place of the first phase after which two cores differ.

    ``second`` holds the worlds of ``first`` from ``offset`` on, and gets their state before every phase.
    """
    parts = step_phases(subject.definition.rules, in_slots=True)
    for core in (first, second):
        core.reset()
    mine = slice(offset, offset + second.num_envs)
    for _ in range(steps):
        first.sample_actions()
        for number, phase in enumerate((*parts.play, *parts.start)):
            second._load_state({name: t if name in SHARED else t[mine] for name, t in first.get_state().items()})
            for core in (first, second):
                core._launcher.launches("step")[0][number].launch()
            left, right = first.get_state(), second.get_state()
            for name, value in left.items():
                if name not in SHARED and not torch.equal(bits(value[mine]), bits(right[name])):
                    index = (bits(value[mine]) != bits(right[name])).nonzero()[0].tolist()
                    return name_of(phase), place_of(subject, name.replace("state.", "State.", 1), index, offset)
    return None
