"""Cache of policy weights on the device; unused weights stay on the host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.models.batched_policies import BatchedPolicies, map_tensors

__all__ = ["PolicyWeightsCache", "weight_bytes"]


class PolicyWeightsCache:
    """Stacked weights of P policies, of which at most `room` are on the device."""

    def __init__(self, policies: BatchedPolicies, room: int, device: torch.device) -> None:
        """Copy the weights to the device, or leave them on the host if there is no room for all."""
        self.size: int = policies.size
        self.room: int = min(room, policies.size)
        self.device: torch.device = device
        self.paged: bool = room < policies.size
        self.home, self.cached = policies, map_tensors(policies, lambda value: value.to(device))
        if self.paged:
            self.home: BatchedPolicies = map_tensors(policies, lambda value: value.cpu())
            self.cached: BatchedPolicies = map_tensors(
                policies, lambda value: value.new_empty((room, *value.shape[1:]), device=device)
            )
        self.pairs: list[tuple[Tensor, Tensor]] = list(zip(_tensors(self.cached), _tensors(self.home), strict=True))
        self.slots: OrderedDict[int, int] = OrderedDict()  # of policies on the device, the last used at the end

    def gather(self, owner: Tensor, policies: Sequence[int] = ()) -> BatchedPolicies:
        """Return policies `owner` (B,), all of them in `policies`, which holds at most `room` policies."""
        if not self.paged:
            owner = owner.to(self.device)
            return map_tensors(self.cached, lambda value: value.index_select(0, owner))
        for policy in policies:
            if policy in self.slots:
                self.slots.move_to_end(policy)
        for policy in policies:
            if policy not in self.slots:
                full = len(self.slots) == self.room
                slot = self.slots.popitem(last=False)[1] if full else len(self.slots)
                self.slots[policy] = slot
                for cached, home in self.pairs:
                    cached[slot].copy_(home[policy], non_blocking=True)
        slots = torch.zeros(self.size, dtype=torch.int64)
        for policy in policies:
            slots[policy] = self.slots[policy]
        at = slots[owner].to(self.device)
        return map_tensors(self.cached, lambda value: value.index_select(0, at))


def weight_bytes(policies: BatchedPolicies) -> int:
    """Return the size of the weights of policies [bytes]."""
    return sum(value.nbytes for value in _tensors(policies))


def _tensors(policies: BatchedPolicies) -> list[Tensor]:
    tensors: list[Tensor] = []

    def note(value: Tensor) -> Tensor:
        tensors.append(value)
        return value

    map_tensors(policies, note)
    return tensors
