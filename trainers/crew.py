"""Several policies as one: networks of equal shape act in one batched call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from trainers.bodies import Network, with_ids
from trainers.policy import Policy

M = TypeVar("M", bound=nn.Module)


class Crew:
    """P frozen policies with networks of one shape, each with rows of its own; plays like a policy.

    Tensors are those of `Policy.act` led by P. Weights are stacked when it is made, so it answers as the policies were
    then. All samples come from one stream, that of the first policy.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        """Stacks weights; the policies, which must be `alike`, stay as they are."""
        first = policies[0]
        self.size, self.obs_width, self.ids = len(policies), first.obs_width, first.ids
        self.generator = first.generator
        self.normalizer = _stacked([policy.normalizer for policy in policies])
        self.head = _stacked([policy.head for policy in policies])
        self.actor = _Stack([policy.actor for policy in policies])

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions (P, E, n[, K]) for observations (P, E, n, D), masks (P, E, n, choices) and memories (P, E, n, H)."""
        params = self.actor(with_ids(self.normalizer(obs[..., : self.obs_width]), self.ids), memory)
        action = self.head.mode(params, mask) if greedy else self.head.sample(params, self.generator, mask)[0]
        return self.head.to_env(action)


def alike(one: object, other: object) -> bool:
    """Whether two players can be of one crew: policies of equal shape and head, on one device, without a CNN."""
    if not isinstance(one, Policy) or not isinstance(other, Policy):
        return False
    devices = {policy.normalizer.mean.device for policy in (one, other)}
    return one.spec == other.spec and one.spec["body"] != "cnn" and len(devices) == 1


def _stacked(modules: Sequence[M]) -> M:
    """One module for P that work entry by entry: its tensors (P, 1, 1, ...) broadcast over worlds and agents."""
    whole = copy.deepcopy(modules[0])
    parameters, buffers = torch.func.stack_module_state(list(modules))
    for name, value in (parameters | buffers).items():
        value = value.detach().view(len(modules), 1, 1, *value.shape[1:])
        setattr(whole, name, nn.Parameter(value, requires_grad=False) if name in parameters else value)
    return whole


class _Stack:
    """`Network.step` of P networks of one shape: every layer is one batched product."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self.body = [_layer(layers) for layers in zip(*(net.body for net in networks), strict=True)]
        outs = [net.out for net in networks if isinstance(net.out, nn.Sequential)]  # behind a GRU
        self.out = [_layer(layers) for layers in zip(*outs, strict=True)]
        self.cells = [net.cell for net in networks if net.cell is not None]
        if self.cells:
            self.inward = _Linear([(cell.weight_ih, cell.bias_ih) for cell in self.cells])
            self.onward = _Linear([(cell.weight_hh, cell.bias_hh) for cell in self.cells])

    def __call__(self, x: Tensor, memory: Tensor | None) -> Tensor:
        """(P, E, n, D) -> (P, E, n, outputs); memories (P, E, n, H) are overwritten."""
        rows = x.flatten(1, -2)
        for layer in self.body:
            rows = layer(rows)
        if self.cells:
            assert memory is not None
            rows = self._remember(rows, memory.view(len(rows), -1, memory.shape[-1]))
            memory.copy_(rows.view_as(memory))
        for layer in self.out:
            rows = layer(rows)
        return rows.view(*x.shape[:-1], rows.shape[-1])

    def _remember(self, rows: Tensor, before: Tensor) -> Tensor:
        """As `nn.GRUCell`: what to forget, what to keep, and what is new."""
        forget_in, keep_in, new_in = self.inward(rows).chunk(3, -1)
        forget_on, keep_on, new_on = self.onward(before).chunk(3, -1)
        new = torch.tanh(new_in + torch.sigmoid(forget_in + forget_on) * new_on)
        return torch.lerp(new, before, torch.sigmoid(keep_in + keep_on))


class _Linear:
    """P linear layers: (P, rows, inputs) -> (P, rows, outputs)."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.weight = torch.stack([weight.detach().T for weight, _ in layers])
        self.bias = torch.stack([bias.detach() for _, bias in layers]).unsqueeze(1)

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, rows, self.weight)


def _layer(layers: Sequence[nn.Module]) -> nn.Module | _Linear:
    """A linear layer stacked; activations are the same for all."""
    linear = [(layer.weight, layer.bias) for layer in layers if isinstance(layer, nn.Linear)]
    return _Linear(linear) if linear else layers[0]


def mapped(crew: Crew, change: Callable[[Tensor], Tensor]) -> Crew:
    """A crew whose tensors, each led by P, are made of this one's: chosen members, or all on another device."""

    def entrywise(module: M) -> M:
        new = copy.copy(module)
        new._parameters = {
            name: value if value is None else nn.Parameter(change(value), requires_grad=False)
            for name, value in module._parameters.items()
        }
        new._buffers = {name: value if value is None else change(value) for name, value in module._buffers.items()}
        return new

    def layer(old: nn.Module | _Linear) -> nn.Module | _Linear:
        if not isinstance(old, _Linear):
            return old
        new = copy.copy(old)
        new.weight, new.bias = change(old.weight), change(old.bias)
        return new

    new = copy.copy(crew)
    new.normalizer, new.head, new.actor = entrywise(crew.normalizer), entrywise(crew.head), copy.copy(crew.actor)
    for name in ("body", "out"):
        setattr(new.actor, name, [layer(old) for old in getattr(crew.actor, name)])
    for name in ("inward", "onward") if crew.actor.cells else ():
        setattr(new.actor, name, layer(getattr(crew.actor, name)))
    new.size = len(new.normalizer.mean)
    return new
