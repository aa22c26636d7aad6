"""Populations: the policies of each role in the order of their addition, loaded when needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import torch

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.lru_cache import LRUCache
from gpu_envs.utils.summaries import Summarized, Summary
from league.policies.kinds import KINDS
from trainers.base.serialization import check_digests
from trainers.models.policy import PolicyProtocol


@dataclass(frozen=True)
class PolicyRecord:
    """The entry of a policy in a population."""

    name: str
    """Unique name in the population."""
    role: str
    """Role of the population."""
    index: int
    """Index in the population, as in matchups."""
    kind: str
    """Kind of its files, see `KINDS`."""
    parent: int | None
    """Index of the policy from which its training started; None: none."""
    iteration: int
    """Iteration of its addition."""
    meta: dict[str, Any]
    """Further JSON data."""
    id: str
    """Identifier of its files, policies/ID.*."""
    sha256: dict[str, str] = field(repr=False)
    """SHA-256 digests by file name."""


class Population(Summarized, Sequence[PolicyProtocol]):
    """The policies of one role, oldest first.

    `population[index]` loads a policy from its files at the first use; the most recently used ones are cached.
    """

    def __init__(self, role: str, folder: Path, device: torch.device | str = "cpu", keep: int = 64) -> None:
        """Create an empty population.

        Args:
            role: Name of the role.
            folder: Folder of the policies' files.
            device: Device of `population[index]`.
            keep: Number of loaded policies to cache.
        """
        self.role: str = role
        self.folder: Path = folder
        self.device: torch.device | str = device
        self.entries: list[PolicyRecord] = []
        self._loaded: LRUCache[tuple[str, str], PolicyProtocol] = LRUCache(max_items=keep)

    @property
    def keep(self) -> int:
        """Number of loaded policies to cache."""
        assert self._loaded.max_items is not None
        return self._loaded.max_items

    @keep.setter
    def keep(self, number: int) -> None:
        """Set the number of loaded policies to cache."""
        self._loaded.max_items = number

    def _summary(self) -> Summary:
        facts = {
            "policies": len(self),
            "newest": self.entries[-1].name if self.entries else None,
            "device": self.device,
        }
        return Summary(self.role, facts)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> PolicyProtocol: ...
    @overload
    def __getitem__(self, index: slice) -> list[PolicyProtocol]: ...
    def __getitem__(self, index: int | slice) -> PolicyProtocol | list[PolicyProtocol]:
        if isinstance(index, slice):
            return [self.policy(entry.index) for entry in self.entries[index]]
        return self.policy(index)

    def policy(self, index: int, device: torch.device | str | None = None) -> PolicyProtocol:
        """Return a policy, from the cache if possible: the same object, whose random stream continues.

        Args:
            index: Index of the policy; IndexError if it does not exist.
            device: Device of the policy; None: the population's.

        Raises:
            CheckpointError: A file is missing or damaged, or the kind is unknown.
        """
        entry = self.entries[index]
        target = self.device if device is None else device
        key = (entry.id, str(target))
        return self._loaded.get_or_make(key, lambda: self._load(entry, target))

    def _load(self, entry: PolicyRecord, device: torch.device | str) -> PolicyProtocol:
        if entry.kind not in KINDS:
            path, kinds = self.folder / entry.id, ", ".join(KINDS)
            raise CheckpointError(f"{path}: expected a policy of a kind among {kinds}, got {entry.kind!r:.80}")
        check_digests(self.folder, entry.sha256)
        return KINDS[entry.kind](self.folder / entry.id, device)

    def lineage(self, index: int) -> list[int]:
        """Return the indices of a policy and its ancestors."""
        line = [self.entries[index].index]
        while (parent := self.entries[line[-1]].parent) is not None:
            line.append(parent)
        return line

    def named(self, name: str) -> PolicyRecord:
        """Return the entry of a name; raise ConfigError if there is none."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ConfigError(f"{self.role}: expected the name of one of {len(self)} policies, got {name!r}")

    def replace(self, entries: Iterable[PolicyRecord]) -> None:
        """Replace the entries by the entries of a run's store."""
        self.entries = list(entries)
        ids = {entry.id for entry in self.entries}
        for key in self._loaded:
            if key[0] not in ids:
                del self._loaded[key]
