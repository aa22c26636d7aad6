"""Saved state of a learner: a flat dictionary, checked when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError
from trainers.base.serialization import check_finite, check_tensors

State = dict[str, Tensor | int | float | str]
"""Flat state of a learner. Tensors are saved as safetensors, other values as JSON."""


def select_prefix(state: State, prefix: str) -> dict[str, Any]:
    """Return the entries of a state whose names start with a prefix, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def to_device(state: State, device: torch.device | str) -> dict[str, Any]:
    """Return a state with its tensors on a device."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in state.items()}


def save_state(
    net: nn.Module, optimizers: Mapping[str, torch.optim.Optimizer], generator: torch.Generator, **counters: int | float
) -> State:
    """Return the state that all learners save: networks, optimizer moments by name, generator and counters."""
    state: State = {f"net.{name}": tensor for name, tensor in net.state_dict().items()}
    for label, optimizer in optimizers.items():
        for i, parameter in enumerate(parameters_of(optimizer)):
            for name, tensor in optimizer.state[parameter].items():
                state[f"{label}.{i}.{name}"] = tensor
    return {**state, "generator": generator.get_state(), **counters}


def load_state(
    state: State,
    net: nn.Module,
    optimizers: Mapping[str, torch.optim.Optimizer],
    generator: torch.Generator,
    *counters: str,
) -> dict[str, Any]:
    """Restore the result of `save_state` and return its counters; raise CheckpointError at the first mismatch."""
    check_finite("learner state net", select_prefix(state, "net."))
    net.load_state_dict(check_tensors("learner state net", select_prefix(state, "net."), net.state_dict()))
    for label, optimizer in optimizers.items():
        for i, parameter in enumerate(parameters_of(optimizer)):
            moments = select_prefix(state, f"{label}.{i}.")
            like = {name: parameter for name, value in moments.items() if isinstance(value, Tensor) and value.dim()}
            check_tensors(f"learner state {label}.{i}", moments, like)
            check_finite(f"learner state {label}.{i}", moments)
            # Adam keeps its step count on the host unless it is fused or capturable
            is_fused = bool(optimizer.defaults.get("fused") or optimizer.defaults.get("capturable"))
            _restore_moments(
                optimizer.state[parameter],
                {
                    name: value.to(parameter.device if value.dim() or is_fused else "cpu", copy=True)
                    for name, value in moments.items()
                    if isinstance(value, Tensor)
                },
            )
    for name in counters:
        if not isinstance(state.get(name), int | float):
            raise CheckpointError(f"learner state {name}: expected a number, got {state.get(name)!r:.80}")
    restore_generator("learner state generator", generator, state.get("generator"))
    return {name: state[name] for name in counters}


def restore_generator(source: str, generator: torch.Generator, stream: Any) -> None:
    """Restore a generator's state; raise CheckpointError if `stream` is not one from the same type of device."""
    if not isinstance(stream, Tensor):
        raise CheckpointError(f"{source}: expected a tensor, got nothing")
    if stream.shape != (current := generator.get_state()).shape:
        expected, actual = current.numel(), stream.numel()
        raise CheckpointError(
            f"{source}: expected {expected} bytes as on {generator.device.type}, got {actual}: "
            "resume on the type of device that the run started on"
        )
    try:
        generator.set_state(stream.cpu())
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"{source}: expected a state of torch's generator, got another") from error


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    """Return the parameters of an optimizer, tensors of any shape (...), in order."""
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _restore_moments(target: dict[str, Any], moments: dict[str, Tensor]) -> None:
    """Set the moments of a parameter, in place if it has them, since a CUDA graph may use their memory."""
    if target.keys() != moments.keys():
        target.clear()
        target.update(moments)
    for name, value in moments.items():
        target[name].copy_(value)
