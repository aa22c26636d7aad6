"""Diagnosis of phase isolation: find the phase and the array that violate it by playing a step phase by phase."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from gpu_envs.runtime.core import Core
from warp_kernels.framework.step import step_phases
from warp_kernels.framework.thread_orders import ORDERS, reorder
from warp_kernels.rules import AGENT, WORLD

if TYPE_CHECKING:
    from gpu_envs.testing.reference_checks import Subject

__all__ = ["AUTHORS", "SHARED", "STEPS", "find_env_dependence", "find_order_dependence"]

STEPS = 24  # that two ways of playing are compared over
SHARED = ("params",)
"""Entries of a state that are shared by all worlds."""
AUTHORS = {"begin_world": "reset", "rejoin": "reset_agent", "reobserve": "observe (at the start)"}
"""Names of the environment's functions that phases of the framework run."""


def find_order_dependence(subject: "Subject") -> str:
    """Return a description of the phase in which the order of siblings matters; empty if there is none."""
    d, found = subject.definition, None
    for order in ORDERS:
        other = subject.core(definition=replace(d, rules=reorder(d.rules, order)), schedule="phased")
        found = found or _first_difference(subject, subject.core(schedule="phased"), other, 0)
    if not found:
        return ""
    over = "agents" if found[1] == AGENT else "worlds" if found[1] == WORLD else f"its {found[1]} items"
    return (
        f"phase {found[0]} (over {over}): {found[2]} depends on the order in which siblings run. It reads what a "
        "sibling writes in the same phase: read it in a later phase, or write to another array"
    )


def find_env_dependence(subject: "Subject", world: int) -> str:
    """Return a description of the phase in which a world depends on other worlds; empty if there is none."""
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
    """Return name, index set and place of the first phase after which two cores differ.

    ``other`` holds the worlds of ``one`` from ``first`` on, and gets their state before every phase.
    """
    parts = step_phases(subject.definition.rules, in_slots=True)
    for core in (one, other):
        core.reset()
    mine = slice(first, first + other.num_envs)
    for _ in range(STEPS):
        one.sample_actions()
        for number, phase in enumerate((*parts.play, *parts.start)):
            other._load_state({name: t if name in SHARED else t[mine] for name, t in one.get_state().items()})
            for core in (one, other):
                core._launcher.launches["step"][0][number].launch()
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
    """Return array, agent and world of the first element that differs."""
    place = (left != right).nonzero()[0].tolist()
    shown = name.replace("state.", "State.", 1)
    agents = subject.definition.agents
    who = f" of {agents[place[1]]}" if left.ndim > 1 and left.shape[1] == len(agents) else ""
    return f"{shown}{who} in world {place[0] + first}"
