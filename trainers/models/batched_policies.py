"""Batched inference: policies with networks of equal shape act in one call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from trainers.base.random_streams import Stream
from trainers.models.action_heads import Head
from trainers.models.networks import GRU, Network, with_ids
from trainers.models.normalization import ObservationNormalizer
from trainers.models.overrides import is_plain_policy
from trainers.models.policy import Policy, PolicyModules

M = TypeVar("M", bound=nn.Module)

STACKED = ("mlp", "gru")
"""Networks that act in one batch."""


class BatchedPolicies:
    """P policies, or learners, with networks of equal shape, each with its own rows; acts like one policy.

    Tensors are as in `Policy.act` with a leading axis P. Weights are stacked copies, updated only by `refresh`.
    """

    def __init__(self, members: Sequence[PolicyModules]) -> None:
        """Stack copies of the members' weights; all pairs of members must satisfy `can_batch`."""
        first = members[0]
        self.size: int = len(members)
        self.obs_width: int = first.spec["obs_width"]
        self.ids: int = first.spec.get("ids", 0)
        self.generator: torch.Generator = first.generator
        stack = self._stack = _StackedParameters()
        self.normalizer: ObservationNormalizer = stack.entrywise([member.normalizer for member in members])
        self.head: Head = stack.entrywise([member.head for member in members])
        self.actor: _StackedNetworks = _StackedNetworks([member.actor for member in members], stack)

    def refresh(self) -> None:
        """Copy the members' present weights into the stacked tensors, in place."""
        self._stack.refresh()

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions (P, E, n[, K]) for observations (P, E, n, D) and masks (P, E, n, choices).

        `hidden_state` (P, E, n, H), of recurrent policies, is overwritten. All samples come from the
        generator of the first policy.
        """
        if greedy:
            action = self.head.mode(self._outputs(obs, hidden_state), mask)
        else:
            action = self.sample(obs, mask, self.generator, hidden_state)[0]
        return self.head.to_env(action)

    @torch.no_grad()
    def sample(
        self, obs: Tensor, mask: Tensor | None, stream: Stream, hidden_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return samples (P, E, n[, K]) and log-probabilities (P, E, n).

        `stream` is one random stream for all policies, or one for each.
        """
        return self.head.sample(self._outputs(obs, hidden_state), stream, mask)

    def _outputs(self, obs: Tensor, hidden_state: Tensor | None) -> Tensor:
        return self.actor(with_ids(self.normalizer(obs[..., : self.obs_width]), self.ids), hidden_state)

    def select(self, indices: Tensor) -> BatchedPolicies:
        """Return the policies with some indices (B,), with copies of their weights."""
        return self._map(lambda value: value.index_select(0, indices))

    def to(self, device: torch.device) -> BatchedPolicies:
        """Return the policies with their weights on a device."""
        return self._map(lambda value: value.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> BatchedPolicies:
        """Return policies with changed tensors (P, ...)."""

        def entrywise(module: M) -> M:
            new = copy.copy(module)
            new._parameters = {
                name: value if value is None else nn.Parameter(change(value), requires_grad=False)
                for name, value in module._parameters.items()
            }
            new._buffers = {name: value if value is None else change(value) for name, value in module._buffers.items()}
            return new

        new = copy.copy(self)
        new._stack = _StackedParameters()  # a copy has no members to refresh from
        new.normalizer, new.head = entrywise(self.normalizer), entrywise(self.head)
        new.actor = self.actor.map(change)
        new.size = len(new.normalizer.mean)
        return new


def can_batch(first: object, second: object) -> bool:
    """Return whether two policies can act in one batch: equal networks in `STACKED`, one device, nothing replaced."""
    if not isinstance(first, Policy) or not isinstance(second, Policy) or first.spec["network"] not in STACKED:
        return False
    if not is_plain_policy(first) or not is_plain_policy(second):
        return False
    devices = {policy.normalizer.mean.device for policy in (first, second)}
    return first.spec == second.spec and len(devices) == 1


class _StackedParameters:
    """Stacks (P, ...) of the tensors of P modules.

    They are copies, as every learner saves and optimizes its own weights.
    """

    def __init__(self) -> None:
        self.copies: list[tuple[Tensor, list[Tensor]]] = []

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the stack of tensors, and register it for `refresh`."""
        parts = [tensor.detach() for tensor in tensors]
        stacked = torch.stack(parts)
        self.copies.append((stacked, parts))
        return stacked

    def entrywise(self, modules: Sequence[M]) -> M:
        """Return one module for P elementwise ones; its tensors (P, 1, 1, ...) broadcast over worlds and agents."""
        stacked = copy.deepcopy(modules[0])
        parts = [dict([*module.named_parameters(), *module.named_buffers()]) for module in modules]
        for name in parts[0]:
            value = self([part[name] for part in parts])
            value = value.view(len(modules), 1, 1, *value.shape[1:])
            learned = isinstance(getattr(stacked, name), nn.Parameter)
            setattr(stacked, name, nn.Parameter(value, requires_grad=False) if learned else value)
        return stacked

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy all source tensors into their stacks."""
        for stacked, parts in self.copies:
            torch.stack(parts, out=stacked)


class _StackedNetworks:
    """`Network.step` of P networks of one shape; every layer is one batched matrix product."""

    def __init__(self, networks: Sequence[Network], stack: _StackedParameters) -> None:
        self.body = [_layer(layers, stack) for layers in zip(*(net.module.body for net in networks), strict=True)]
        recurrent = [net.module for net in networks if isinstance(net.module, GRU)]
        outs = [module.out for module in recurrent]
        self.out = [_layer(layers, stack) for layers in zip(*outs, strict=True)]
        self.cells = [module.cell for module in recurrent]
        if self.cells:
            self.inward = _Linear([(cell.weight_ih, cell.bias_ih) for cell in self.cells], stack)
            self.onward = _Linear([(cell.weight_hh, cell.bias_hh) for cell in self.cells], stack)

    def __call__(self, x: Tensor, hidden_state: Tensor | None) -> Tensor:
        """Map (P, E, n, D) to (P, E, n, outputs); `hidden_state` (P, E, n, H) is overwritten."""
        rows = x.flatten(1, -2)
        for layer in self.body:
            rows = layer(rows)
        if self.cells:
            assert hidden_state is not None
            rows = self._remember(rows, hidden_state.view(len(rows), -1, hidden_state.shape[-1]))
            hidden_state.copy_(rows.view_as(hidden_state))
        for layer in self.out:
            rows = layer(rows)
        return rows.to(x.dtype).view(*x.shape[:-1], rows.shape[-1])  # autocast returns bfloat16

    def map(self, change: Callable[[Tensor], Tensor]) -> _StackedNetworks:
        """Return networks with changed tensors (P, ...)."""

        def mapped(layers: list[nn.Module | _Linear]) -> list[nn.Module | _Linear]:
            return [layer.map(change) if isinstance(layer, _Linear) else layer for layer in layers]

        new = copy.copy(self)
        new.body, new.out = mapped(self.body), mapped(self.out)
        if self.cells:
            new.inward, new.onward = self.inward.map(change), self.onward.map(change)
        return new

    def _remember(self, rows: Tensor, hidden: Tensor) -> Tensor:
        """Return the next hidden states, as `nn.GRUCell` computes them."""
        forget_in, keep_in, new_in = self.inward(rows).to(hidden.dtype).chunk(3, -1)
        forget_on, keep_on, new_on = self.onward(hidden).to(hidden.dtype).chunk(3, -1)
        new = torch.tanh(new_in + torch.sigmoid(forget_in + forget_on) * new_on)
        return torch.lerp(new, hidden, torch.sigmoid(keep_in + keep_on))


class _Linear:
    """P linear layers: (P, rows, inputs) to (P, rows, outputs)."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], stack: _StackedParameters) -> None:
        self.weight = stack([weight.T for weight, _ in layers])
        self.bias = stack([bias for _, bias in layers]).unsqueeze(1)

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, rows, self.weight)

    def map(self, change: Callable[[Tensor], Tensor]) -> _Linear:
        """Return layers with changed tensors (P, ...)."""
        new = copy.copy(self)
        new.weight, new.bias = change(self.weight), change(self.bias)
        return new


def _layer(layers: Sequence[nn.Module], stack: _StackedParameters) -> nn.Module | _Linear:
    """Return P linear layers as one, or the first of P equal activations."""
    linear = [(layer.weight, layer.bias) for layer in layers if isinstance(layer, nn.Linear)]
    return _Linear(linear, stack) if linear else layers[0]
