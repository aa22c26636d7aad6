"""Optimizers whose steps can be captured as CUDA graphs, and steps that a flag on the device skips."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trainers.base.state import parameters_of


class _Adam(torch.optim.Adam):
    """Adam that is created without the import of `torch._dynamo`, which takes 1.6 s; its first step imports it.

    Kernels take their steps without it.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters."""
        add = torch.optim.Optimizer.add_param_group
        getattr(add, "__wrapped__", add)(self, param_group)  # versions of PyTorch differ in whether they wrap it


def make_adam(
    parameters: Iterable[nn.Parameter], learning_rate: float, captured: bool, eps: float = 1e-8
) -> torch.optim.Adam:
    """Return Adam in its fused form.

    Args:
        parameters: Parameters of any shape, on one device.
        learning_rate: Step size.
        captured: Steps are part of a CUDA graph, so the step size is a tensor, whose changes a replay sees.
        eps: Term added to the denominator.
    """
    parameters = list(parameters)
    rate = _rate(parameters, learning_rate, captured)
    return _Adam(parameters, lr=rate, eps=eps, fused=True, capturable=captured)


def is_plain_adam(optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor]) -> bool:
    """Return whether an optimizer is Adam (Kingma and Ba 2015) without additions, with one group of these parameters.

    Additions are weight decay, the maximum of AMSGrad, hooks, and steps of a subclass or of a scheduler.

    Args:
        optimizer: The optimizer.
        parameters: Tensors of any shapes that it should step, all of them and no others.
    """
    if type(optimizer) not in (_Adam, torch.optim.Adam) or "step" in vars(optimizer) or len(optimizer.param_groups) > 1:
        return False
    (group,) = optimizer.param_groups
    if any(group[name] for name in ("weight_decay", "amsgrad", "maximize")):
        return False
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        return False
    return {id(parameter) for parameter in group["params"]} == {id(parameter) for parameter in parameters}


def make_rmsprop(
    parameters: Iterable[nn.Parameter], learning_rate: float, captured: bool, alpha: float, eps: float
) -> torch.optim.RMSprop:
    """Return RMSprop with the decay `alpha` of squared gradients; other arguments as in `make_adam`."""
    parameters = list(parameters)
    rate: float = _rate(parameters, learning_rate, captured)  # type: ignore[assignment]  # the stubs lack Tensor
    on_gpu = parameters[0].device.type == "cuda"  # where alone RMSprop has a form that can be captured
    return torch.optim.RMSprop(parameters, lr=rate, alpha=alpha, eps=eps, capturable=captured and on_gpu)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the step size of all parameters, without host synchronization."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def learning_rate_of(optimizer: torch.optim.Optimizer) -> float:
    """Return the step size; a captured optimizer's is read from the device."""
    return float(optimizer.param_groups[0]["lr"])


def step_where(optimizer: torch.optim.Optimizer, active: Tensor) -> None:
    """Take an optimizer's step if a flag on the device is set, without host synchronization.

    Args:
        optimizer: Optimizer whose gradients are computed. If the flag is not set, parameters and moments of any shape
            keep their values.
        active: () bool.
    """
    if optimizer.defaults.get("fused"):  # such steps have a flag themselves, for the overflows of scaled gradients
        optimizer.found_inf = (~active).float()  # type: ignore[attr-defined]
        try:
            optimizer.step()
        finally:
            del optimizer.found_inf  # type: ignore[attr-defined]
        return
    copies = {id(tensor): tensor.detach().clone() for tensor in _tensors(optimizer)}
    optimizer.step()
    with torch.no_grad():
        for tensor in _tensors(optimizer):
            earlier = copies.get(id(tensor))  # None: a moment that this step created, which starts at 0
            tensor.copy_(torch.where(active, tensor, 0.0 if earlier is None else earlier))


def _tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return parameters, moments and step counts."""
    moments = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return [*parameters_of(optimizer), *moments]


def _rate(parameters: list[nn.Parameter], learning_rate: float, captured: bool) -> float | Tensor:
    return torch.tensor(learning_rate, device=parameters[0].device) if captured else learning_rate
