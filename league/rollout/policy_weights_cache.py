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
        self.home, self.here = policies, map_tensors(policies, lambda value: value.to(device))
        if self.paged:
            self.home: BatchedPolicies = map_tensors(policies, lambda value: value.cpu())
            self.here: BatchedPolicies = map_tensors(
                policies, lambda value: value.new_empty((room, *value.shape[1:]), device=device)
            )
        self.pairs: list[tuple[Tensor, Tensor]] = list(zip(_tensors(self.here), _tensors(self.home), strict=True))
        self.places: OrderedDict[int, int] = OrderedDict()  # of policies on the device, the last used at the end

    def gather(self, owner: Tensor, wanted: Sequence[int] = ()) -> BatchedPolicies:
        """Return policies `owner` (B,), all of them in `wanted`, which holds at most `room` policies."""
        if not self.paged:
            owner = owner.to(self.device)
            return map_tensors(self.here, lambda value: value.index_select(0, owner))
        for policy in wanted:
            if policy in self.places:
                self.places.move_to_end(policy)
        for policy in wanted:
            if policy not in self.places:
                full = len(self.places) == self.room
                place = self.places.popitem(last=False)[1] if full else len(self.places)
                self.places[policy] = place
                for here, home in self.pairs:
                    here[place].copy_(home[policy], non_blocking=True)
        places = torch.zeros(self.size, dtype=torch.int64)
        for policy in wanted:
            places[policy] = self.places[policy]
        at = places[owner].to(self.device)
        return map_tensors(self.here, lambda value: value.index_select(0, at))


def weight_bytes(policies: BatchedPolicies) -> int:
    """Return the size of the weights of policies [bytes]."""
    return sum(value.nbytes for value in _tensors(policies))


def _tensors(policies: BatchedPolicies) -> list[Tensor]:
    found: list[Tensor] = []

    def note(value: Tensor) -> Tensor:
        found.append(value)
        return value

    map_tensors(policies, note)
    return found
