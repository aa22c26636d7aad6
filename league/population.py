"""Populations: the policies of each role in the order they came, each with its origin, loaded when it is to play."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from trainers.agents import agents_of
from trainers.boxes import BoxHead
from trainers.files import check_digests, read_json, write_json
from trainers.heads import action_spec, make_head
from trainers.policy import Plays, Policy

FORMAT = "gpu-envs random policy 1"


class RandomPolicy:
    """Takes uniformly random legal actions, in a box without bounds those of [-1, 1]. What populations start from."""

    def __init__(self, action: dict[str, Any], device: torch.device | str = "cpu", seed: int = 0) -> None:
        """`action` describes the action space, see `trainers.heads.action_spec`; `seed` is that of the samples."""
        self.action = action
        self.head = make_head(action).requires_grad_(False).to(device)
        self.generator = torch.Generator(device).manual_seed(seed)

    @classmethod
    def of(cls, game: Game, role: str, device: torch.device | str = "cpu", seed: int = 0) -> RandomPolicy:
        """For the seats of a role; ConfigError where there is no such role."""
        if role not in game.roles:
            raise ConfigError(f"{game.env_id}: expected a role among {', '.join(game.roles)}, got {role!r}")
        members = game.seats[game.seats_of(role)[0]].members
        return cls(action_spec(agents_of(game.core(1), members).space), device, seed)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions (...), (..., K) for observations (..., D) and masks (..., choices), random if `greedy` too."""
        blank = torch.zeros((*obs.shape[:-1], self.head.num_params), device=obs.device)
        if isinstance(self.head, BoxHead):
            return self.head.decode(self.head.random(blank, self.generator))
        return self.head.sample(blank, self.generator, mask)[0]

    def memory(self, *shape: int) -> None:
        """It remembers nothing."""

    def seed(self, seed: int) -> None:
        """Restarts the stream that actions are drawn from."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Writes `<path>.json`."""
        write_json(path.with_suffix(".json"), {"format": FORMAT, "action": self.action})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> RandomPolicy:
        """Reads what `save` wrote; raises CheckpointError where it is something else."""
        file = path.with_suffix(".json")
        spec = read_json(file)
        if (got := spec.get("format")) != FORMAT:
            raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r}")
        try:
            return cls(spec["action"], device)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{file}: expected an action space, got a bad or missing field {error}") from error


def _load_table(path: Path, device: torch.device | str) -> Plays:
    from league.exact import TablePolicy  # only where there are tables

    return TablePolicy.load(path, device)


Loader = Callable[[Path, torch.device | str], Plays]
"""load(path, device): the policy whose `save(path)` wrote files of the name `path` and suffixes of its own."""
KINDS: dict[str, Loader] = {"random": RandomPolicy.load, "policy": Policy.load, "table": _load_table}
"""Kinds of policies by name; put your own here before a run with such is opened."""


@dataclass(frozen=True)
class Entry:
    """A policy of a population: what it is and where it comes from."""

    name: str
    role: str
    index: int
    """Place in the population of its role, by which matchups name it."""
    kind: str
    """How its files are read, see `KINDS`."""
    parent: int | None
    """Index of the policy that its training started from; None: none."""
    iteration: int
    """In which it was added."""
    meta: dict[str, Any]
    """Whatever else is to be known of it, JSON."""
    id: str
    """Of its files: policies/ID.*"""
    sha256: dict[str, str] = field(repr=False)
    """Its files and their digests."""


class Population(Sequence[Plays]):
    """The policies of one role, oldest first: `population[index]` plays.

    Policies are read from their files when they are first asked for, and the ones used last are kept.
    """

    def __init__(self, role: str, folder: Path, device: torch.device | str = "cpu", keep: int = 64) -> None:
        """Nobody yet.

        Args:
            role: Its name.
            folder: Where the files are.
            device: Of `population[index]`.
            keep: Loaded policies to keep.
        """
        self.role, self.folder, self.device, self.keep = role, folder, device, keep
        self.entries: list[Entry] = []
        self._loaded: OrderedDict[tuple[str, str], Plays] = OrderedDict()

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Plays: ...
    @overload
    def __getitem__(self, index: slice) -> list[Plays]: ...
    def __getitem__(self, index: int | slice) -> Plays | list[Plays]:
        if isinstance(index, slice):
            return [self.policy(entry.index) for entry in self.entries[index]]
        return self.policy(index)

    def policy(self, index: int, device: torch.device | str | None = None) -> Plays:
        """Loads a policy, or gives the one loaded before: the same object, with the stream where it was left.

        Args:
            index: Its place; IndexError where there is none.
            device: Where it runs; None: the population's.

        Raises:
            CheckpointError: A file of it is missing or damaged, or nobody knows its kind.
        """
        entry = self.entries[index]
        where = self.device if device is None else device
        key = (entry.id, str(where))
        if key not in self._loaded:
            self._loaded[key] = self._load(entry, where)
        self._loaded.move_to_end(key)
        while len(self._loaded) > max(self.keep, 1):
            self._loaded.popitem(last=False)
        return self._loaded[key]

    def _load(self, entry: Entry, device: torch.device | str) -> Plays:
        if entry.kind not in KINDS:
            raise CheckpointError(
                f"{self.folder / entry.id}: expected a policy of a kind among {', '.join(KINDS)}, got {entry.kind!r}"
            )
        check_digests(self.folder, entry.sha256)
        return KINDS[entry.kind](self.folder / entry.id, device)

    def lineage(self, index: int) -> list[int]:
        """A policy and those it comes from, up to the one that began."""
        line = [self.entries[index].index]
        while (parent := self.entries[line[-1]].parent) is not None:
            line.append(parent)
        return line

    def named(self, name: str) -> Entry:
        """The entry of a name; ConfigError where there is none."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ConfigError(f"{self.role}: expected the name of one of {len(self)} policies, got {name!r}")

    def replace(self, entries: Iterable[Entry]) -> None:
        """Makes these the entries, as the records of a run say."""
        self.entries = list(entries)
        ids = {entry.id for entry in self.entries}
        self._loaded = OrderedDict((key, value) for key, value in self._loaded.items() if key[0] in ids)
