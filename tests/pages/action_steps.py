"""One step of a small world, for checks of action tables."""

import torch
from small_environments import SMALL

from docs.scripts import tables
from gpu_envs.runtime.factory import make_core

NAMES = tables.names()


def one_step(name, prepare, action, **settings):
    """State of a small world after one step, in which all agents take this action (component by component)."""
    core = make_core(NAMES[name], 1, "cpu", seed=0, autoreset="disabled", **SMALL[NAMES[name]] | settings)
    core.reset()
    prepare(core.world_state)
    core.step(torch.zeros_like(core.action_buffer) + torch.as_tensor(action, dtype=core.action_buffer.dtype))
    return {field: tensor[0] for field, tensor in core.world_state.items()}


def direction_of(word):
    """Unit vector of a cell like "left, -x"; zero where it names no axis."""
    axis = {"x": (1.0, 0.0), "y": (0.0, 1.0)}.get(word[-1], (0.0, 0.0)) if word[-2:-1] in ("+", "-") else (0.0, 0.0)
    return torch.tensor(axis) * (-1.0 if word[-2:-1] == "-" else 1.0)
