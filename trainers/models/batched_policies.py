"""Several policies as one: networks of equal shape act in one batched call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from trainers.bodies import Network, with_ids
from trainers.policy import Acts, Policy
from trainers.streams import Stream

M = TypeVar("M", bound=nn.Module)


class Crew:
    """P policies, or learners, with networks of one shape, each with rows of its own; plays like a policy.

    Tensors are those of `Policy.act` led by P. Weights are copies, stacked when it is made: it answers as the policies
    did then, until `refresh`.
    """

    def __init__(self, members: Sequence[Acts]) -> None:
        """Stacks weights; the members, which must be `alike`, stay as they are."""
        first = members[0]
        self.size, self.obs_width, self.ids = len(members), first.spec["obs_width"], first.spec.get("ids", 0)
        self.generator = first.generator
        stack = self._stack = _Stack()
        self.normalizer = stack.entrywise([member.normalizer for member in members])
        self.head = stack.entrywise([member.head for member in members])
        self.actor = _Networks([member.actor for member in members], stack)

    def refresh(self) -> None:
        """Takes over what the members have learned since; tensors stay where they are."""
        self._stack.refresh()

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions (P, E, n[, K]) for observations (P, E, n, D), masks (P, E, n, choices) and memories (P, E, n, H).

        All samples come from one stream, that of the first policy.
        """
        if greedy:
            action = self.head.mode(self._outputs(obs, memory), mask)
        else:
            action = self.sample(obs, mask, self.generator, memory)[0]
        return self.head.to_env(action)

    @torch.no_grad()
    def sample(
        self, obs: Tensor, mask: Tensor | None, stream: Stream, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """What heads draw, (P, E, n[, K]), and log-probabilities (P, E, n); one generator for all, or one for each."""
        return self.head.sample(self._outputs(obs, memory), stream, mask)

    def _outputs(self, obs: Tensor, memory: Tensor | None) -> Tensor:
        return self.actor(with_ids(self.normalizer(obs[..., : self.obs_width]), self.ids), memory)


def alike(one: object, other: object) -> bool:
    """Whether two players can be of one crew: policies of equal shape and head, on one device, without a CNN."""
    if not isinstance(one, Policy) or not isinstance(other, Policy):
        return False
    devices = {policy.normalizer.mean.device for policy in (one, other)}
    return one.spec == other.spec and one.spec["body"] != "cnn" and len(devices) == 1


class _Stack:
    """Tensors of P modules, stacked to (P, ...): copies, as the learners' own have to be apart on disk and in Adam."""

    def __init__(self) -> None:
        self.copies: list[tuple[Tensor, list[Tensor]]] = []

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """A copy that is kept up to date."""
        parts = [tensor.detach() for tensor in tensors]
        whole = torch.stack(parts)
        self.copies.append((whole, parts))
        return whole

    def entrywise(self, modules: Sequence[M]) -> M:
        """One module for P that work entry by entry: its tensors (P, 1, 1, ...) broadcast over worlds and agents."""
        whole = copy.deepcopy(modules[0])
        parts = [dict([*module.named_parameters(), *module.named_buffers()]) for module in modules]
        for name in parts[0]:
            value = self([part[name] for part in parts])
            value = value.view(len(modules), 1, 1, *value.shape[1:])
            learned = isinstance(getattr(whole, name), nn.Parameter)
            setattr(whole, name, nn.Parameter(value, requires_grad=False) if learned else value)
        return whole

    @torch.no_grad()
    def refresh(self) -> None:
        """Copies all again."""
        for whole, parts in self.copies:
            torch.stack(parts, out=whole)


class _Networks:
    """`Network.step` of P networks of one shape: every layer is one batched product."""

    def __init__(self, networks: Sequence[Network], stack: _Stack) -> None:
        self.body = [_layer(layers, stack) for layers in zip(*(net.body for net in networks), strict=True)]
        outs = [net.out for net in networks if isinstance(net.out, nn.Sequential)]  # behind a GRU
        self.out = [_layer(layers, stack) for layers in zip(*outs, strict=True)]
        self.cells = [net.cell for net in networks if net.cell is not None]
        if self.cells:
            self.inward = _Linear([(cell.weight_ih, cell.bias_ih) for cell in self.cells], stack)
            self.onward = _Linear([(cell.weight_hh, cell.bias_hh) for cell in self.cells], stack)

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

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], stack: _Stack) -> None:
        self.weight = stack([weight.T for weight, _ in layers])
        self.bias = stack([bias for _, bias in layers]).unsqueeze(1)

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, rows, self.weight)


def _layer(layers: Sequence[nn.Module], stack: _Stack) -> nn.Module | _Linear:
    """A linear layer stacked; activations are the same for all."""
    linear = [(layer.weight, layer.bias) for layer in layers if isinstance(layer, nn.Linear)]
    return _Linear(linear, stack) if linear else layers[0]


def mapped(crew: Crew, change: Callable[[Tensor], Tensor]) -> Crew:
    """A crew whose tensors, (P, ...) each, are made of this one's: chosen members, or all on another device."""

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
    new._stack = _Stack()  # it has no members to follow
    new.normalizer, new.head, new.actor = entrywise(crew.normalizer), entrywise(crew.head), copy.copy(crew.actor)
    for name in ("body", "out"):
        setattr(new.actor, name, [layer(old) for old in getattr(crew.actor, name)])
    for name in ("inward", "onward") if crew.actor.cells else ():
        setattr(new.actor, name, layer(getattr(crew.actor, name)))
    new.size = len(new.normalizer.mean)
    return new
