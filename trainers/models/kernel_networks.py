"""Networks and action heads as kernels know them."""

from __future__ import annotations

import dataclasses
import operator
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.packed_weights import fits_device, fits_threads, pack_networks
from trainers.models.action_heads import CategoricalHead, GaussianHead, GreedyHead, Head, TanhGaussianHead, TanhHead
from trainers.models.overrides import changed_module, is_plain_policy
from trainers.models.policy import Policy, PolicyModules
from warp_kernels.framework.policies import PolicyKind
from warp_kernels.networks.mlp import Mlp

_mlp = cache(Mlp)  # its places are computed once
_kind = cache(PolicyKind)  # equal ones are the same object, which compares faster


def critic_mlp(spec: Mapping[str, Any]) -> Mlp:
    """Return the sizes of a critic with the inputs and hidden layers of a policy."""
    return _mlp(spec["obs_width"], tuple(spec["hidden_sizes"]), 1, spec["activation"], 0)


def policy_kind(spec: Mapping[str, Any], head: Head, explores: bool = False) -> PolicyKind:
    """Return the sizes of a policy's network and its distribution over actions.

    Parameters of the head that no input changes are extra outputs; see `PolicyKind.explores` for its own.

    Raises:
        ValueError: Kernels do not support the sizes.
    """
    names = {
        GreedyHead: "values",
        CategoricalHead: "categorical",
        GaussianHead: "gaussian",
        TanhGaussianHead: "tanh_gaussian",
        TanhHead: "tanh",
    }
    extra = len(head.log_std) if isinstance(head, GaussianHead) else 0
    if explores:
        extra = 2 if isinstance(head, TanhHead) else 1
    mlp = _mlp(spec["obs_width"], tuple(spec["hidden_sizes"]), head.num_params, spec["activation"], extra)
    sizes, bounded = (
        (tuple(head.sizes), False) if isinstance(head, CategoricalHead) else (head.action_shape, head.bounded)
    )
    name = next(name for kind, name in names.items() if isinstance(head, kind))
    return _kind(mlp, name, sizes, bounded, explores)


class PackedPolicy:
    """Weights of a learner's policy, packed in place for rollouts in kernels."""

    def __init__(self, learner: PolicyModules, explores: bool = False) -> None:
        """Allocate a row of weights; `explores` as in `policy_kind`."""
        self.kind: PolicyKind = policy_kind(learner.spec, learner.head, explores)
        self.weights: torch.Tensor = torch.zeros(self.kind.mlp.row_size, device=learner.normalizer.mean.device)

    @torch.no_grad()
    def pack(self, learner: PolicyModules, seed: int, exploration: Iterable[torch.Tensor] = ()) -> KernelPolicy:
        """Return the policy with the learner's present weights, and scalars of its exploration."""
        parameters = torch.cat([tensor.float().flatten() for tensor in (*_tensors(learner), *exploration)])
        pack_networks(self.weights, self.kind.mlp, parameters, learner.normalizer.mean, learner.normalizer.var)
        return KernelPolicy(self.kind, self.weights, seed)


def unsupported(policy: PolicyModules, explores: bool = False) -> str:
    """Return why kernels do not support the modules of a policy or learner on its device, or an empty string."""
    if policy.spec["network"] != "mlp":
        return f"network: expected 'mlp', got {policy.spec['network']!r}"
    if reason := changed_module(policy):
        return reason
    try:
        mlp = policy_kind(policy.spec, policy.head, explores).mlp
    except ValueError as error:
        return str(error)
    device = policy.normalizer.mean.device
    return "" if fits_device(mlp, device) else f"hidden_sizes: expected layers that fit the shared memory of {device}"


def acts_in_kernels(policy: object, device: torch.device, engine: str = "kernel") -> bool:
    """Return whether a policy is a frozen network that acts inside the kernels of environments on a device.

    With engine "auto", networks that a GPU would compute in tiles act by PyTorch, as their speed was not measured.
    """
    if not isinstance(policy, Policy) or policy.ids or policy.spec["network"] != "mlp" or policy.decide_every > 1:
        return False
    if not is_plain_policy(policy):
        return False
    try:
        mlp = policy_kind(policy.spec, policy.head).mlp
    except ValueError:  # as in `unsupported`
        return False
    return (fits_threads if engine == "auto" else fits_device)(mlp, device)


def kernel_policies(policies: Sequence[Policy], device: torch.device, seed: int = 0) -> list[KernelPolicy]:
    """Return frozen policies for rollouts in kernels; later changes of their weights have no effect.

    Args:
        policies: Policies with `acts_in_kernels`, all on one device.
        device: Device of the environments.
        seed: Key of the random streams of their actions, which also depend on world, step and agent.
    """
    packed = [_packed(policy, device, seed) for policy in policies]
    complete = [policy for policy in packed if policy is not None]
    if len(complete) == len(policies):
        return complete
    missing: dict[PolicyKind, list[int]] = {}
    for index, policy in enumerate(policies):
        if packed[index] is None:
            missing.setdefault(policy_kind(policy.spec, policy.head), []).append(index)
    for kind, places in missing.items():
        for index, row in zip(places, _pack([policies[index] for index in places], kind, device), strict=True):
            packed[index] = policy = KernelPolicy(kind, row, seed)
            _keep_packed(policies[index], policy)
    return [policy for policy in packed if policy is not None]


@torch.no_grad()
def _pack(policies: Sequence[Policy], kind: PolicyKind, device: torch.device) -> torch.Tensor:
    """Return the packed weights of policies of a kind, one row each."""
    parameters = torch.stack([_parameters(policy) for policy in policies])
    rows = torch.zeros((len(policies), kind.mlp.row_size), device=parameters.device)
    mean, var = (torch.stack([getattr(p.normalizer, name) for p in policies]) for name in ("mean", "var"))
    pack_networks(rows, kind.mlp, parameters, mean, var)
    return rows.to(device)


def _parameters(policy: Policy) -> torch.Tensor:
    """Return the parameters (N,) in the order of `parameter_places`."""
    return torch.cat([tensor.flatten() for tensor in _tensors(policy)])


def _tensors(policy: PolicyModules) -> list[torch.Tensor]:
    extra = [policy.head.log_std] if isinstance(policy.head, GaussianHead) else []
    return [*policy.actor.parameters(), *extra]


@dataclass(frozen=True)
class _Packed:
    """Packed weights of a policy, and the tensors that they were read from, with their addresses and versions."""

    actor: nn.Module
    registries: Sequence[Mapping[str, torch.Tensor | None]]
    tensors: list[torch.Tensor]
    addresses: list[int]
    versions: list[int]
    policy: KernelPolicy


_PACKED: weakref.WeakKeyDictionary[Policy, _Packed] = weakref.WeakKeyDictionary()
"""Weights on a CPU, which take longer to pack than an episode of Kuhn poker; a GPU has no memory to spare."""


def _keep_packed(policy: Policy, packed: KernelPolicy) -> None:
    modules = (*policy.actor.modules(), policy.normalizer, policy.head)
    registries = [registry for module in modules for registry in (module._parameters, module._buffers) if registry]
    tensors = _tensors_of(registries)
    if packed.weights.device.type == "cpu" and not any(tensor.is_inference() for tensor in tensors):
        _PACKED[policy] = _Packed(policy.actor, registries, tensors, *_versions(tensors), packed)


def _packed(policy: Policy, device: torch.device, seed: int) -> KernelPolicy | None:
    """Return the packed weights of a policy; None if they are unknown, or if a tensor has changed."""
    entry = _PACKED.get(policy)
    if entry is None or device.type != "cpu" or policy.actor is not entry.actor:
        return None
    tensors = _tensors_of(entry.registries)
    if len(tensors) != len(entry.tensors) or not all(map(operator.is_, tensors, entry.tensors)):
        return None
    if _versions(tensors) != (entry.addresses, entry.versions):
        return None
    packed = entry.policy
    return packed if packed.seed == seed else dataclasses.replace(packed, seed=seed)


def _tensors_of(registries: Sequence[Mapping[str, torch.Tensor | None]]) -> list[torch.Tensor]:
    return [tensor for registry in registries for tensor in registry.values() if tensor is not None]


_version_of = operator.attrgetter("_version")


def _versions(tensors: Sequence[torch.Tensor]) -> tuple[list[int], list[int]]:
    """Return what changes with the numbers of tensors; changes through `Tensor.data` have no effect."""
    return [*map(torch.Tensor.data_ptr, tensors)], [*map(_version_of, tensors)]
