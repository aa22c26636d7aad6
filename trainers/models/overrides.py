"""What a program has replaced of the code whose faster forms, kernels and batched calls, do not call it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import nn

from trainers.models.action_heads import CategoricalHead, GaussianHead, GreedyHead, TanhGaussianHead, TanhHead
from trainers.models.networks import Network, actor_width
from trainers.models.normalization import OBS_CLIP, ObservationNormalizer
from trainers.models.policy import Policy, PolicyModules

HEADS = (CategoricalHead, GreedyHead, GaussianHead, TanhGaussianHead, TanhHead)
"""Heads whose actions kernels compute."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def override_of(owner: object, base: type, names: Iterable[str]) -> str:
    """Return the first method that an object does not have from a class, such as "PPO.act, not Mine.act".

    It is an empty string if the object has all of them.

    Args:
        owner: The object. Its class, a class mixed into it, or the object itself may replace a method.
        base: The class with the methods.
        names: Names of methods and properties.
    """
    kind = type(owner)
    for name in names:
        if name in getattr(owner, "__dict__", ()):
            return f"{base.__name__}.{name}, not the object's {name}"
        if getattr(kind, name, None) is not getattr(base, name, None):
            definer = next(cls for cls in kind.__mro__ if name in vars(cls))
            return f"{base.__name__}.{name}, not {definer.__name__}.{name}"
    return ""


def is_plain_policy(policy: object) -> bool:
    """Return whether a policy acts as `Policy` does, by the modules of its specification."""
    if not isinstance(policy, Policy) or override_of(policy, Policy, ("act", "inputs", "initial_hidden_state")):
        return False
    return not changed_module(policy)


def changed_module(policy: PolicyModules) -> str:
    """Return which module of a policy or learner differs from its specification, or an empty string."""
    normalizer, head = policy.normalizer, policy.head
    if type(normalizer) is not ObservationNormalizer or normalizer.clip != OBS_CLIP or _is_hooked(normalizer):
        return f"normalizer: expected ObservationNormalizer, got another {type(normalizer).__name__}"
    if type(head) not in HEADS or _is_hooked(head):
        return f"head: expected that of the action space, got another {type(head).__name__}"
    return changed_network("actor", policy.actor, actor_width(policy.spec), head.num_params)


def changed_network(name: str, network: nn.Module, spec: dict[str, Any], outputs: int) -> str:
    """Return that a network is not the `Network` of a specification, or an empty string.

    Args:
        name: Name of the network, for the result.
        network: The network.
        spec: See `Network`.
        outputs: Width of its output.
    """
    key = json.dumps({name: value for name, value in spec.items() if name in _FIELDS})
    hooked = any(map(_is_hooked, network.modules())) or any(p._backward_hooks for p in network.parameters())
    if hooked or _layers(network) != _expected(key, outputs):
        return f"{name}: expected the layers of the settings, got another {type(network).__name__}"
    return ""


_FIELDS = (
    *("obs_width", "network", "hidden_sizes", "activation"),
    *("image", "channels_last", "conv_filters", "conv_strides", "conv_pools", "blocks", "by_feature", "targets"),
)


@cache
def _expected(spec: str, outputs: int) -> list[tuple[str, type, str]]:
    with torch.device("meta"):
        return _layers(Network(json.loads(spec), outputs, 1.0))


def _layers(network: nn.Module) -> list[tuple[str, type, str]]:
    return [(name, type(module), module.extra_repr()) for name, module in network.named_modules()]


def _is_hooked(module: nn.Module) -> bool:
    """Return whether a module has hooks, or replaced methods."""
    attributes = vars(module)
    return any(attributes[name] for name in _HOOKS) or any(map(callable, attributes.values()))
