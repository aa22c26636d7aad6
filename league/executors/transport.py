"""What a run has done elsewhere: calls of functions, each with a key, and what travels with them."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import tempfile
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gpu_envs.errors import ConfigError
from league.population import KINDS, MixturePolicy, RandomPolicy
from trainers.logs import Progress
from trainers.policy import Plays, Policy

KEPT = 256
"""Policies that a worker keeps ready to play."""


@dataclass(frozen=True)
class Call:
    """`function(pools, **arguments)`: the same result wherever it runs and however often.

    All randomness comes from seeds among the arguments. A worker may have begun a call, or ended it, before it died,
    so a function leaves nothing behind but what it returns, and caches.
    """

    key: str
    """Of its own in the run; the same after a restart."""
    function: Callable[..., Any]
    """Of a module, so that other processes find it."""
    pools: Mapping[str, Sequence[Plays]] = field(default_factory=dict)
    """Policies by role."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What pickles: settings, seeds, tensors; and `Later` for what is only to be read where it is needed."""
    learns: bool = False
    """Whether it trains, and so needs what an executor sets aside for a learner."""
    device: str = "cpu"
    """Where it computes."""
    progress: Progress | None = None
    """Told how it goes, as the argument `progress` of the function; it does not travel."""

    def run(self) -> Any:
        """Its result, here and now."""
        told = {} if self.progress is None else {"progress": self.progress}
        return self.function(self.pools, **self.arguments, **told)


class Later:
    """A value that is read when it is asked for: here, if the call runs here, else before the call travels."""

    def __init__(self, read: Callable[[], Any]) -> None:
        """`read()` gives the value."""
        self.read = read

    def __call__(self) -> Any:
        """The value."""
        return self.read()


@dataclass(frozen=True)
class Parcel:
    """A policy that travels: its files (safetensors, JSON) as bytes."""

    kind: str
    """How it is read again, see `league.population.KINDS`."""
    files: dict[str, bytes] = field(repr=False)
    """By suffix."""
    digest: str
    """SHA-256 of all that."""

    def load(self, device: str) -> Plays:
        """The policy."""
        with tempfile.TemporaryDirectory() as folder:
            for suffix, content in self.files.items():
                Path(folder, f"policy{suffix}").write_bytes(content)
            return KINDS[self.kind](Path(folder, "policy"), device)


@dataclass(frozen=True)
class Slip:
    """Stands for a parcel that travels by itself."""

    digest: str
    """Sha256 of the parcel."""


_PACKED: weakref.WeakKeyDictionary[Any, Parcel] = weakref.WeakKeyDictionary()
_LOADED: OrderedDict[tuple[str, str], Plays] = OrderedDict()


def pack(policy: Any) -> Parcel:
    """A policy as a parcel; it is frozen, so that it is packed once."""
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
        _PACKED[policy] = Parcel(kind, files, digest.hexdigest())
    return _PACKED[policy]


def kind_of(policy: object) -> str:
    """The kind whose loader makes policies of this type; ConfigError where there is none."""
    for kind, cls in (("policy", Policy), ("random", RandomPolicy), ("mixture", MixturePolicy)):
        if type(policy) is cls:
            return kind
    from league.exact import TablePolicy  # only where there are tables

    if type(policy) is TablePolicy:
        return "table"
    for kind, loader in KINDS.items():
        if getattr(loader, "__self__", None) is type(policy):
            return kind
    raise ConfigError(
        f"{type(policy).__name__}: policies of this type do not travel; put its class method `load` into "
        "league.population.KINDS, here and in the workers"
    )


def unpack(parcel: Parcel, device: str) -> Plays:
    """The policy of a parcel; those used last are kept."""
    return _kept((parcel.digest, device), parcel)


def _kept(key: tuple[str, str], parcel: Parcel) -> Plays:
    """What is kept under a digest and a device."""
    if key not in _LOADED:
        _LOADED[key] = parcel.load(key[1])
    _LOADED.move_to_end(key)
    while len(_LOADED) > KEPT:
        _LOADED.popitem(last=False)
    return _LOADED[key]


def load_all(digests: Sequence[str], device: str, fetch: Callable[[list[str]], Sequence[Parcel]]) -> dict[str, Plays]:
    """Policies by digest; `fetch(digests)` gives the parcels of those that were not kept."""
    found = {digest: _LOADED[digest, device] for digest in digests if (digest, device) in _LOADED}
    for digest in found:
        _LOADED.move_to_end((digest, device))
    lacking = [digest for digest in digests if digest not in found]
    return found | {parcel.digest: unpack(parcel, device) for parcel in (fetch(lacking) if lacking else ())}


def packed(value: Any) -> Any:
    """What travels in place of a value: policies as parcels, tensors on the host, what is read later read now."""
    if isinstance(value, Later):
        return packed(value())
    if isinstance(value, Tensor):
        value = value if value.device.type == "cpu" and not value.requires_grad else value.detach().cpu()
        around = value.untyped_storage().nbytes() > value.nbytes
        return value.clone() if around else value
    if _is_policy(value):
        return pack(value)
    return each(value, packed)


def unpacked(value: Any, device: str, policies: Mapping[str, Plays] | None = None) -> Any:
    """What was meant by what has travelled.

    Equal policies of one value are as many, as they were: each has a random stream of its own.

    Args:
        value: That.
        device: Of the policies; tensors stay on the host.
        policies: By digest, those that slips stand for.
    """
    seen = Counter[str]()

    def change(one: Any) -> Any:
        if not isinstance(one, Parcel | Slip):
            return each(one, change)
        policy = unpack(one, device) if isinstance(one, Parcel) else (policies or {})[one.digest]
        number = seen[one.digest]
        seen[one.digest] += 1
        return _kept((f"{one.digest} {number}", device), pack(policy)) if number else policy

    return change(value)


def _is_policy(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "act", None)) and hasattr(value, "save")


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    """A container with its elements changed; what contains nothing as it is."""
    if isinstance(value, Parcel | Slip):
        return value
    if isinstance(value, dict):
        changed = {key: change(one) for key, one in value.items()}
        return changed if any(changed[key] is not one for key, one in value.items()) else value
    if type(value) in (list, tuple):
        found = [change(one) for one in value]
        return type(value)(found) if any(new is not one for new, one in zip(found, value, strict=True)) else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        changed = {name: change(one) for name, one in fields.items()}
        if any(changed[name] is not one for name, one in fields.items()):
            other = copy.copy(value)  # not made anew: what its making works out, such as shares, stays as it is
            for name, one in changed.items():
                object.__setattr__(other, name, one)
            return other
    return value
