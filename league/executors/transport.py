"""Transport of policies and values to other processes: policies are packed and loaded once, by their hash."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gpu_envs.utils.lru_cache import LRUCache
from league.executors.tasks import LazyValue
from league.policies.kinds import KINDS, kind_of
from trainers.models.policy import PolicyProtocol

KEPT = 256
"""Number of loaded policies that a process caches."""


@dataclass(frozen=True)
class PolicyPayload:
    """The files of a policy (safetensors, JSON) as bytes."""

    kind: str
    """Kind of the policy, see `league.policies.kinds.KINDS`."""
    files: dict[str, bytes] = field(repr=False)
    """Content of the files by suffix."""
    digest: str
    """SHA-256 of kind and files."""

    def load(self, device: str) -> PolicyProtocol:
        """Load the policy."""
        with tempfile.TemporaryDirectory() as folder:
            for suffix, content in self.files.items():
                Path(folder, f"policy{suffix}").write_bytes(content)
            return KINDS[self.kind](Path(folder, "policy"), device)


@dataclass(frozen=True)
class PayloadRef:
    """A reference to a policy payload that travels separately."""

    digest: str
    """SHA-256 of the payload."""


_PACKED: weakref.WeakKeyDictionary[Any, PolicyPayload] = weakref.WeakKeyDictionary()


_LOADED: LRUCache[tuple[str, str], PolicyProtocol] = LRUCache(max_items=KEPT)


def pack(policy: Any) -> PolicyPayload:
    """Return the payload of a policy, which is frozen and packed once."""
    if policy not in _PACKED:
        kind = kind_of(policy)
        with tempfile.TemporaryDirectory() as folder:
            policy.save(Path(folder, "policy"))
            files = {
                file.name.removeprefix("policy"): file.read_bytes() for file in sorted(Path(folder).glob("policy*"))
            }
        digest = hashlib.sha256(kind.encode())
        for suffix, content in files.items():
            digest.update(f"{suffix}:{len(content)}:".encode())
            digest.update(content)
        _PACKED[policy] = PolicyPayload(kind, files, digest.hexdigest())
    return _PACKED[policy]


def unpack(payload: PolicyPayload, device: str) -> PolicyProtocol:
    """Return the policy of a payload, from the cache if possible."""
    return _LOADED.get_or_make((payload.digest, device), lambda: payload.load(device))


def load_all(
    digests: Sequence[str], device: str, fetch: Callable[[list[str]], Sequence[PolicyPayload]]
) -> dict[str, PolicyProtocol]:
    """Return policies by digest; `fetch(digests)` returns the payloads of those that are not cached."""
    cached = {digest: _LOADED[digest, device] for digest in digests if (digest, device) in _LOADED}
    lacking = [digest for digest in digests if digest not in cached]
    return cached | {payload.digest: unpack(payload, device) for payload in (fetch(lacking) if lacking else ())}


def packed(value: Any) -> Any:
    """Return a value for transport: policies as payloads, tensors on the host, lazy values read."""
    if isinstance(value, LazyValue):
        return packed(value())
    if isinstance(value, Tensor):
        value = value if value.device.type == "cpu" and not value.requires_grad else value.detach().cpu()
        around = value.untyped_storage().nbytes() > value.nbytes
        return value.clone() if around else value
    if _is_policy(value):
        return pack(value)
    return map_elements(value, packed)


def unpacked(value: Any, device: str, policies: Mapping[str, PolicyProtocol] | None = None) -> Any:
    """Return the original of a packed value.

    Equal policies in one value become different objects, since each has its own random stream.

    Args:
        value: Packed value.
        device: Device of the policies; tensors stay on the host.
        policies: Referenced policies by digest.
    """
    counts = Counter[str]()

    def change(element: Any) -> Any:
        if not isinstance(element, PolicyPayload | PayloadRef):
            return map_elements(element, change)
        policy = unpack(element, device) if isinstance(element, PolicyPayload) else (policies or {})[element.digest]
        number = counts[element.digest]
        counts[element.digest] += 1
        if not number:
            return policy
        return _LOADED.get_or_make((f"{element.digest} {number}", device), lambda: pack(policy).load(device))

    return change(value)


def _is_policy(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "act", None)) and hasattr(value, "save")


def map_elements(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a container with changed elements; other values are returned unchanged."""
    if isinstance(value, PolicyPayload | PayloadRef):
        return value
    if isinstance(value, dict):
        changed = {key: change(element) for key, element in value.items()}
        return changed if any(changed[key] is not element for key, element in value.items()) else value
    if type(value) in (list, tuple):
        elements = [change(element) for element in value]
        return (
            type(value)(elements)
            if any(new is not element for new, element in zip(elements, value, strict=True))
            else value
        )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {element.name: getattr(value, element.name) for element in dataclasses.fields(value) if element.init}
        changed = {name: change(element) for name, element in fields.items()}
        if any(changed[name] is not element for name, element in fields.items()):
            result = copy.copy(
                value
            )  # without __init__: computed fields, such as normalized probabilities, stay unchanged
            for name, element in changed.items():
                object.__setattr__(result, name, element)
            return result
    return value
