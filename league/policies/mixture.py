"""Populations: the policies of each role in the order they came, each with its origin, loaded when it is to play."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, overload, runtime_checkable

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from trainers.agents import agents_of
from trainers.boxes import BoxHead
from trainers.files import check_digests, check_fields, read_json, write_json
from trainers.heads import action_spec, check_action_spec, make_head
from trainers.policy import Plays, Policy

FORMAT = "gpu-envs random policy 1"  # of a random policy's JSON file
MIXTURE = "gpu-envs mixture 1"  # of a mixture's JSON file
MAX_CHOICES, MAX_LOG_STD = 2**24, 80.0
"""A file that asks for more choices of an action, or a wider Gaussian, is damaged."""


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
        spec = read_json(file, finite=False)  # a box may have no bounds
        if (got := spec.get("format")) != FORMAT:
            raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r}")
        check_fields(str(file), spec, {"format": str, "action": dict[str, Any]})
        check_action_spec(f"{file}: action", spec["action"])
        return cls(spec["action"], device)


@runtime_checkable
class _Samples(Protocol):
    generator: torch.Generator


@runtime_checkable
class _Saves(Protocol):
    def save(self, path: Path) -> None: ...


class MixturePolicy:
    """Plays one of its members for a whole episode, drawn when it begins: a mixed strategy, not mixed behaviour.

    Which one is what it remembers first, 1 + its place, 0 being nobody yet; what that member remembers follows. All
    agents of a seat are played by the same. On disk each member has files of its own beside `<path>.json`.
    """

    def __init__(self, members: Sequence[Plays], weights: Tensor | None = None, seed: int = 0) -> None:
        """Takes ownership of members, all on one device, and how often each is drawn (K,); None: equally often."""
        if not members or any(isinstance(each, MixturePolicy) for each in members):
            raise ConfigError("mixture: expected at least one policy, none of them a mixture")
        given = torch.ones(len(members)) if weights is None else torch.as_tensor(weights)
        if given.shape != (len(members),) or not bool((given >= 0).all() & given.isfinite().all() & (given.sum() > 0)):
            raise ConfigError(f"mixture: expected {len(members)} finite weights >= 0, some above 0, got {given!r:.80}")
        self.members = list(members)
        blank = [each.memory(1) for each in members]
        self.width = max((each.shape[-1] for each in blank if each is not None), default=0)
        streams = [member for member in members if isinstance(member, _Samples)]
        self.device = streams[0].generator.device if streams else torch.device("cpu")
        self.weights = (given.double() / given.double().sum()).to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        for member in streams:  # one stream for all, which is kept with a training and told to graphs
            member.generator = self.generator

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions of those who were drawn, see `trainers.policy.Policy.act`; who is drawn is random if `greedy` too.

        Raises:
            ConfigError: No memory was given.
        """
        if memory is None:
            raise ConfigError("a mixture remembers whom it drew: expected act(..., memory=mixture.memory(E, n))")
        shape = obs.shape[:-1] if obs.dim() < 3 else (*obs.shape[:-2], 1)  # one for all agents of a seat
        dice = torch.rand(shape, generator=self.generator, dtype=torch.float64, device=self.device)
        drawn = torch.searchsorted(self.weights.cumsum(0), dice, right=True).clamp_(max=len(self.members) - 1)
        who = torch.where(memory[..., 0] == 0, drawn + 1.0, memory[..., 0].double())
        memory[..., 0] = who.to(memory.dtype)
        action: Tensor | None = None
        for place, member in enumerate(self.members):
            own = member.memory(*obs.shape[:-1])
            width = 0 if own is None else own.shape[-1]
            own = None if own is None else memory[..., 1 : 1 + width].clone()
            found = member.act(obs, mask, greedy, own)
            plays = who == place + 1
            action = found if action is None else torch.where(_fitted(plays, found), found, action)
            if own is not None:
                memory[..., 1 : 1 + width] = torch.where(plays.unsqueeze(-1), own, memory[..., 1 : 1 + width])
        assert action is not None
        return action

    def memory(self, *shape: int) -> Tensor:
        """Nobody drawn, nothing remembered: zeros `(*shape, H)`."""
        return torch.zeros((*shape, 1 + self.width), device=self.device)

    def seed(self, seed: int) -> None:
        """Restarts the stream of the draws and of what members sample."""
        self.generator.manual_seed(seed)
        for member in self.members:
            if not isinstance(member, _Samples):
                member.seed(seed)

    def save(self, path: Path) -> None:
        """Writes `<path>.json` and, for each member, `<path>.PLACE.*`; ConfigError where one cannot be saved."""
        kinds: list[str] = []
        for place, member in enumerate(self.members):
            if not isinstance(member, _Saves):
                raise ConfigError(f"mixture: {type(member).__name__} cannot be saved")
            member.save(_of_member(path, place))
            kinds.append({RandomPolicy: "random", Policy: "policy"}.get(type(member), "table"))
        spec = {"format": MIXTURE, "kinds": kinds, "weights": self.weights.tolist()}
        write_json(path.with_suffix(".json"), spec)

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> MixturePolicy:
        """Reads what `save` wrote; raises CheckpointError where it is something else."""
        file = path.with_suffix(".json")
        spec = read_json(file)
        if (got := spec.get("format")) != MIXTURE:
            raise CheckpointError(f"{file}: expected format {MIXTURE!r}, got {got!r}")
        check_fields(str(file), spec, {"format": str, "kinds": list[str], "weights": list[float]})
        kinds = [name for name in KINDS if name != "mixture"]
        if bad := [kind for kind in spec["kinds"] if kind not in kinds]:
            raise CheckpointError(f"{file}: kinds: expected some of {', '.join(kinds)}, got {bad[0]!r:.80}")
        members = [KINDS[kind](_of_member(path, place), device) for place, kind in enumerate(spec["kinds"])]
        try:
            return cls(members, torch.tensor([float(each) for each in spec["weights"]], dtype=torch.float64))
        except ConfigError as error:
            raise CheckpointError(f"{file}: {error}") from error


def _of_member(path: Path, place: int) -> Path:
    """Whose suffix gives way to those of the files."""
    return path.with_name(f"{path.name}.{place}.member")


def _fitted(flags: Tensor, action: Tensor) -> Tensor:
    """With an axis for the parts of an action, where it has several."""
    return flags if flags.dim() == action.dim() else flags.unsqueeze(-1)


def _load_table(path: Path, device: torch.device | str) -> Plays:
    from league.exact import TablePolicy  # only where there are tables

    return TablePolicy.load(path, device)


Loader = Callable[[Path, torch.device | str], Plays]
"""load(path, device): the policy whose `save(path)` wrote files of the name `path` and suffixes of its own."""
KINDS: dict[str, Loader] = {
    "random": RandomPolicy.load,
    "policy": Policy.load,
    "table": _load_table,
    "mixture": MixturePolicy.load,
}
"""Kinds of policies by name; put your own here before a run with such is opened."""


@dataclass(frozen=True)
class Entry:
    """A policy of a population: what it is and where it comes from."""

    name: str
    """Unique in the population of its role."""
    role: str
    """The population it belongs to."""
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
            where, known = self.folder / entry.id, ", ".join(KINDS)
            raise CheckpointError(f"{where}: expected a policy of a kind among {known}, got {entry.kind!r:.80}")
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
