"""Which phase breaks the law of phases, and by which array: the step played phase by phase, two ways at once."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from gpu_envs.core import Core
from warp_kernels.mirror import mirror
from warp_kernels.rules import AGENT, WORLD
from warp_kernels.step import step_phases

if TYPE_CHECKING:
    from gpu_envs.conformance import Subject

STEPS = 24  # that two ways of playing are compared over
SHARED = ("params",)
"""Entries of a state that are no world's own."""
AUTHORS = {"begin_world": "reset", "rejoin": "reset_agent", "reobserve": "observe (at the start)"}
"""Phases of the runner's that run an author's function of another name."""


def siblings(subject: "Subject") -> str:
    """Where the order of siblings inside a phase matters, in words; empty if nowhere."""
    d = subject.definition
    one, other = (subject.core(definition=replace(d, rules=r), schedule="phased") for r in (d.rules, mirror(d.rules)))
    found = _first_difference(subject, one, other, 0)
    if not found:
        return ""
    over = "agents" if found[1] == AGENT else "worlds" if found[1] == WORLD else f"its {found[1]} items"
    return (
        f"phase {found[0]} (over {over}): {found[2]} depends on the order in which siblings run. It reads what a "
        "sibling writes in the same phase: read it in a later phase, or write to another array"
    )


def worlds(subject: "Subject", world: int) -> str:
    """Where a world depends on its neighbours, in words; empty if nowhere."""
    one = subject.core(schedule="phased")
    other = subject.core(1, schedule="phased", env_offset=world)
    found = _first_difference(subject, one, other, world)
    if not found:
        return ""
    return (
        f"phase {found[0]}: {found[2]} is another when the world plays alone. It reads another world: "
        "every index of an array begins with env"
    )


def _first_difference(subject: "Subject", one: Core, other: Core, first: int) -> tuple[str, str | int, str] | None:
    """Name and index set of the first phase that leaves two cores different, and where.

    ``other`` holds the worlds of ``one`` from ``first`` on, and is put into its state before every phase.
    """
    parts = step_phases(subject.definition.rules)
    for core in (one, other):
        core.reset()
    mine = slice(first, first + other.num_envs)
    for _ in range(STEPS):
        one.sample_actions()
        for number, phase in enumerate((*parts.play, *parts.start)):
            other._put_state({name: t if name in SHARED else t[mine] for name, t in one.get_state().items()})
            for core in (one, other):
                core._runner.launches["step"][0][number].launch()
            left, right = one.get_state(), other.get_state()
            for name, value in left.items():
                if name not in SHARED and not torch.equal(value[mine], right[name]):
                    return (
                        AUTHORS.get(phase.called, phase.called),
                        phase.over,
                        _where(subject, name, value[mine], right[name], first),
                    )
    return None


def _where(subject: "Subject", name: str, left: torch.Tensor, right: torch.Tensor, first: int) -> str:
    """The first element that differs: array, agent and world."""
    place = (left != right).nonzero()[0].tolist()
    shown = name.replace("state.", "State.", 1)
    agents = subject.definition.agents
    who = f" of {agents[place[1]]}" if left.ndim > 1 and left.shape[1] == len(agents) else ""
    return f"{shown}{who} in world {place[0] + first}"
