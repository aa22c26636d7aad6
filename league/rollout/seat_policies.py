"""Many policies for one seat: every world has a policy of its own, and those of one shape act in one batched call.

The worlds of a policy are cut into blocks of equally many rows, and every block gets a copy of its policy's weights:
one batched product per layer, whoever plays where. On a GPU the number of blocks is bounded beforehand, so that
nothing is read from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from league.game import Seat
from trainers.agents import Agents, agents_of, members_of
from trainers.crew import Crew, alike, mapped
from trainers.files import check_tensors
from trainers.heads import spec_like
from trainers.learner import State, restore_generator
from trainers.policy import Plays, Policy
from trainers.settings import SEEDS

NOBODY = -1  # index of a seat that no policy of the ensemble plays
BUDGET = 2**30
"""Bytes of weights that stay on a device, unless told otherwise."""


class Ensemble:
    """Plays one seat of a core's E worlds with N frozen policies, one of them in each world.

    Weights are stacked when it is made: it answers as the policies were then.
    """

    def __init__(self, policies: Sequence[Plays], core: Core, seat: Seat, budget: int = BUDGET) -> None:
        """Seats nobody.

        Args:
            policies: Anything that plays. Networks may be on the host or on the core's device, all others must be on
                the core's device.
            core: Worlds; their clock `core.steps` stands at 0 where an episode begins.
            seat: Whose agents it plays.
            budget: Bytes of stacked weights that stay on the core's device. What is beyond waits on the host, and the
                policy that has not been needed for longest gives way. The blocks of a step come on top, at most five
                times what the policies in play weigh.

        Raises:
            ConfigError: A policy that does not fit the seat.
        """
        self.core, self.agents = core, agents_of(core, seat.members)
        self.size, count = len(policies), len(members_of(core, seat.members))
        self._generator = torch.Generator(core.device)
        groups: list[list[int]] = []
        for index, policy in enumerate(policies):
            _check(policy, index, core, seat, self.agents, count)
            for group in groups:
                if alike(policies[group[0]], policy):
                    group.append(index)
                    break
            else:
                groups.append([index])
        crews = {
            group[0]: Crew([policy for index in group if isinstance(policy := policies[index], Policy)])
            for group in groups
            if alike(policies[group[0]], policies[group[0]])
        }
        weight = sum(_bytes(crew) for crew in crews.values())
        self.parts: list[_Stack | _One] = []
        order: list[int] = []
        for group in groups:
            first, memory = policies[group[0]], policies[group[0]].memory(core.num_envs, count)
            memory = None if memory is None else memory.to(core.device)
            if crew := crews.get(group[0]):
                crew.generator = self._generator
                room = len(group) if weight <= budget else max(int(budget / weight * len(group)), 1)
                self.parts.append(_Stack(self, len(order), memory, _Pages(crew, room, core.device)))
            else:
                self.parts.append(_One(self, len(order), memory, first))
            order += group
        self._slot = torch.empty(self.size + 1, dtype=torch.int64)  # of a policy in the order of the parts
        self._slot[torch.tensor([*order, self.size])] = torch.arange(self.size + 1)  # the last is nobody's
        self._slot_there = self._slot.to(core.device)
        self.looks = core.device.type == "cpu"
        self.paged = any(isinstance(part, _Stack) and part.pages.paged for part in self.parts)
        self.seed(0)
        self.seat(torch.full((core.num_envs,), NOBODY))

    def seed(self, seed: int) -> None:
        """Restarts the streams that samples are drawn from, those of policies that are asked one by one too."""
        self._generator.manual_seed(seed % SEEDS)
        for part in self.parts:
            if isinstance(part, _One):
                part.policy.seed((seed + 1 + part.first) % SEEDS)

    def seat(self, who: Tensor) -> None:
        """Says who plays from now on; memories stay, they are cleared where an episode begins.

        Args:
            who: (E,) int64, places in `policies`, -1 for nobody. On the host, even where the core is on a GPU, where
                the host knows it: only the rows that each policy needs are computed then. On the GPU it is not read,
                unless policies have to be brought from the host: that waits for the device, once per call.
        """
        if self.paged:
            who = who.cpu()
        if who.device.type != "cpu":
            self.seat_unread(who)
            return
        slot, worlds = self._slot[who].sort(stable=True)
        ends = torch.bincount(slot, minlength=self.size + 1).cumsum(0).tolist()
        for part in self.parts:
            span = slice(ends[part.first - 1] if part.first else 0, ends[part.first + part.size - 1])
            part.seat(worlds[span], slot[span] - part.first)

    def seat_unread(self, who: Tensor) -> None:
        """As `seat` with a tensor of the device that is not to be read: shapes are the same whoever plays."""
        slot = self._slot_there[who]  # -1 is the last
        for part in self.parts:
            part.seat_unread(slot)

    def act(self, obs: Tensor, info: Mapping[str, Tensor], greedy: bool = False, into: Tensor | None = None) -> Tensor:
        """Writes the actions of the seat's agents where somebody plays.

        Args:
            obs: (E, A, D), of all agents.
            info: Of the core: "alive", "action_mask" and "to_move" are read. On a CPU nothing is computed, or written,
                where none of the seat's agents acts now.
            greedy: Take the most probable actions instead of samples.
            into: Actions of all agents (E, A[, K]); None takes random legal ones.

        Returns:
            `into`.
        """
        into = self.core.sample_actions() if into is None else into
        rows = self.agents.rows
        now = _Now(obs[:, rows], self.agents.mask(info.get("action_mask")), greedy, rows, into)
        if self.looks:
            now.alive = _some(info["alive"][:, rows])
            now.on_move = _some(info["to_move"][:, rows]) if "to_move" in info else now.alive
        begins = (self.core.steps == 0)[:, None, None]
        for part in self.parts:
            if part.memory is not None:
                part.memory.masked_fill_(begins, 0.0)
            part.act(now)
        return into

    @property
    def generators(self) -> list[torch.Generator]:
        """What samples are drawn from: its own stream, and those of policies that are asked one by one."""
        alone = [part.policy for part in self.parts if isinstance(part, _One)]
        streams = [getattr(policy, "generator", None) for policy in alone]
        return [self._generator, *(stream for stream in streams if stream is not None)]

    def state_dict(self) -> dict[str, Tensor]:
        """Streams (bytes,) and memories (E, n, H) by name; who sits where is not in it."""
        state = {f"stream.{index}": each.get_state() for index, each in enumerate(self.generators)}
        memories = {f"memory.{index}": part.memory for index, part in enumerate(self.parts)}
        return state | {name: memory.clone() for name, memory in memories.items() if memory is not None}

    def load_state_dict(self, state: State) -> None:
        """Continues from the `state_dict` of one with equal policies; CheckpointError where it does not fit."""
        found = check_tensors("ensemble", state, self.state_dict())
        for index, generator in enumerate(self.generators):
            restore_generator(f"ensemble stream.{index}", generator, found[f"stream.{index}"])
        for index, part in enumerate(self.parts):
            if part.memory is not None:
                part.memory.copy_(found[f"memory.{index}"])


@dataclass
class _Now:
    """A step: what is seen, and where answers go."""

    obs: Tensor
    mask: Tensor | None
    greedy: bool
    rows: slice | Tensor
    into: Tensor
    alive: Tensor | None = None
    """(E,), on a CPU: some agent of the seat is there."""
    on_move: Tensor | None = None
    """(E,), on a CPU: some agent of the seat acts; with memories, those who only look on have to be asked, too."""

    def put(self, worlds: Tensor, action: Tensor) -> None:
        """Writes the actions (R, n[, k]) of some worlds."""
        into = self.into if self.into.ndim == 2 else self.into[..., : action.shape[-1]]
        if isinstance(self.rows, slice):
            into[:, self.rows].index_copy_(0, worlds, action)
        else:
            into[worlds[:, None], self.rows] = action

    def put_where(self, sits: Tensor, action: Tensor) -> None:
        """Writes those of the worlds where `sits` (E,), out of the actions (E, n[, k]) of all."""
        into = self.into if self.into.ndim == 2 else self.into[..., : action.shape[-1]]
        sits = sits.view(-1, *[1] * (action.ndim - 1))
        into[:, self.rows] = torch.where(sits, action, into[:, self.rows])


class _One:
    """A policy that acts by itself."""

    size = 1

    def __init__(self, ensemble: Ensemble, first: int, memory: Tensor | None, policy: Plays) -> None:
        self.first, self.memory, self.policy = first, memory, policy
        self.device = ensemble.core.device
        self.whole = getattr(policy, "core", None) is ensemble.core  # it looks at the worlds, all of them
        self.worlds, self.sits = torch.empty(0, dtype=torch.int64), None

    def seat(self, worlds: Tensor, local: Tensor) -> None:
        """Takes the worlds (R,)."""
        self.worlds, self.sits = worlds.to(self.device), None

    def seat_unread(self, slot: Tensor) -> None:
        """Takes the worlds of slot `first` among (E,)."""
        self.sits = slot == self.first

    def act(self, now: _Now) -> None:
        """Answers for its worlds."""
        if self.sits is not None:
            now.put_where(self.sits, self.policy.act(now.obs, now.mask, now.greedy, self.memory))
            return
        worlds, asked = self.worlds, now.on_move if self.memory is None else now.alive
        worlds = worlds if asked is None else worlds[asked[worlds]]
        if not len(worlds):
            return
        if self.whole:
            now.put(worlds, self.policy.act(now.obs, now.mask, now.greedy, self.memory)[worlds])
            return
        memory = None if self.memory is None else self.memory[worlds]
        mask = None if now.mask is None else now.mask[worlds]
        now.put(worlds, self.policy.act(now.obs[worlds], mask, now.greedy, memory))
        if self.memory is not None and memory is not None:
            self.memory[worlds] = memory


@dataclass
class _Blocks:
    """Rows of a batched call."""

    worlds: Tensor
    """(R,), in the order of their policies."""
    place: Tensor
    """(R,), where each of them stands among the rows of all blocks."""
    height: int
    """Rows per block."""
    crew: Crew
    """A member per block."""

    def __post_init__(self) -> None:
        """Which world each row of the blocks is for, (blocks * height,); those left over repeat a world."""
        rows = self.worlds[:1].expand(self.crew.size * self.height + 1).clone()  # the last is for those that play not
        self.sources = rows.index_copy_(0, self.place, self.worlds)[:-1]


class _Stack:
    """Policies of one shape."""

    def __init__(self, ensemble: Ensemble, first: int, memory: Tensor | None, pages: _Pages) -> None:
        self.first, self.memory, self.pages, self.size = first, memory, pages, pages.size
        self.looks, self.worlds, self.local = ensemble.core.device.type == "cpu", torch.empty(0), torch.empty(0)
        self.edges = torch.arange(self.size + 1)
        self.ready: _Blocks | None = None
        self.sits: Tensor | None = None

    def seat(self, worlds: Tensor, local: Tensor) -> None:
        """Takes the worlds (R,) of its policies `local` (R,), ascending; both on the host."""
        self.worlds, self.local, self.sits, self.ready = worlds, local, None, None
        present = local.unique_consecutive().tolist()
        self.waves = [present[start : start + self.pages.room] for start in range(0, len(present), self.pages.room)]
        if not self.looks and len(self.waves) == 1:
            self.ready = self._blocks(worlds, local, self.waves[0])

    def seat_unread(self, slot: Tensor) -> None:
        """Takes the worlds of its slots among (E,); nothing is read from the device."""
        local = slot - self.first
        self.sits = (local >= 0) & (local < self.size)
        local, worlds = torch.where(self.sits, local, self.size).sort(stable=True)
        height = max(-(-len(slot) // (4 * self.size)), LEAST)
        counts = torch.zeros(self.size + 1, dtype=torch.int64, device=slot.device)
        counts.index_add_(0, local, torch.ones_like(local))
        blocks = (counts[:-1] + height - 1) // height
        most = len(slot) // height + self.size
        owner = torch.searchsorted(blocks.cumsum(0), torch.arange(most, device=slot.device), right=True)
        place = _places(local, counts, torch.cat([blocks, blocks.new_zeros(1)]), height)
        place = torch.where(local < self.size, place, most * height)  # one row more, for nobody
        self.ready = _Blocks(worlds, place, height, self.pages.crew_of(owner.clamp(max=self.size - 1)))

    def act(self, now: _Now) -> None:
        """Answers for its worlds."""
        if self.ready is not None:
            self._act(now, self.ready)
            return
        worlds, local, asked = self.worlds, self.local, now.on_move if self.memory is None else now.alive
        if asked is not None:
            kept = asked.index_select(0, worlds).nonzero()[:, 0]
            worlds, local = worlds.index_select(0, kept), local.index_select(0, kept)
        for wave in self.waves:
            span = slice(None)
            if len(self.waves) > 1:
                ends = torch.searchsorted(local, torch.tensor([wave[0], wave[-1] + 1]))
                span = slice(int(ends[0]), int(ends[1]))
            if len(worlds[span]):
                self._act(now, self._blocks(worlds[span], local[span], wave))

    def _blocks(self, worlds: Tensor, local: Tensor, wave: list[int]) -> _Blocks:
        """Those of worlds (R,) that are played by policies `local` (R,), ascending, all of one wave; on the host."""
        counts = torch.searchsorted(local, self.edges).diff()
        highest, playing = int(counts.max()), int(counts.count_nonzero())
        mean = len(local) / playing
        height = highest if highest <= 1.25 * mean else max(-(-len(local) // (4 * playing)), LEAST)
        blocks = (counts + height - 1) // height
        owner = torch.repeat_interleave(torch.arange(self.size), blocks)
        place = _places(local, counts, blocks, height)
        device = self.pages.device
        return _Blocks(worlds.to(device), place.to(device), height, self.pages.crew_of(owner, wave))

    def _act(self, now: _Now, blocks: _Blocks) -> None:
        def lay(values: Tensor) -> Tensor:
            """(E, n, ...) -> (blocks, height, n, ...)."""
            return values.index_select(0, blocks.sources).unflatten(0, (blocks.crew.size, blocks.height))

        memory = None if self.memory is None else lay(self.memory)
        mask = None if now.mask is None else lay(now.mask)
        action = blocks.crew.act(lay(now.obs[..., : blocks.crew.obs_width]), mask, now.greedy, memory).flatten(0, 1)
        if self.sits is None:
            now.put(blocks.worlds, action.index_select(0, blocks.place))
            if self.memory is not None and memory is not None:
                self.memory.index_copy_(0, blocks.worlds, memory.flatten(0, 1).index_select(0, blocks.place))
            return
        place = torch.empty_like(blocks.place).index_copy_(0, blocks.worlds, blocks.place).clamp(max=len(action) - 1)
        now.put_where(self.sits, action[place])
        if self.memory is not None and memory is not None:
            remembered = torch.where(self.sits[:, None, None], memory.flatten(0, 1)[place], self.memory)
            self.memory.copy_(remembered)


LEAST = 16
"""Rows of a block, where policies have unequally many worlds."""


def _some(flags: Tensor) -> Tensor:
    """(E,), where one of (E, n) is set."""
    return flags[:, 0] if flags.shape[1] == 1 else flags.any(1)


def _places(local: Tensor, counts: Tensor, blocks: Tensor, height: int) -> Tensor:
    """Where rows of policies `local` (R,), ascending, stand in their blocks: policy after policy, each a new block."""
    shift = (blocks.cumsum(0) - blocks) * height - (counts.cumsum(0) - counts)
    return torch.arange(len(local), device=local.device) + shift[local]


class _Pages:
    """Stacked weights of P policies, of which as many as there is room for are on the device."""

    def __init__(self, crew: Crew, room: int, device: torch.device) -> None:
        self.size, self.room, self.device, self.paged = crew.size, min(room, crew.size), device, room < crew.size
        self.home, self.here = crew, mapped(crew, lambda value: value.to(device))
        if self.paged:
            self.home = mapped(crew, lambda value: value.cpu())
            self.here = mapped(crew, lambda value: value.new_empty((room, *value.shape[1:]), device=device))
        self.pairs = list(zip(_tensors(self.here), _tensors(self.home), strict=True))
        self.places: OrderedDict[int, int] = OrderedDict()  # of policies on the device, the last used behind

    def crew_of(self, owner: Tensor, wanted: Sequence[int] = ()) -> Crew:
        """A member for each of `owner` (B,), all of them in `wanted`, at most `room`."""
        if not self.paged:
            owner = owner.to(self.device)
            return mapped(self.here, lambda value: value.index_select(0, owner))
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
        there = torch.zeros(self.size, dtype=torch.int64)
        for policy in wanted:
            there[policy] = self.places[policy]
        at = there[owner].to(self.device)
        return mapped(self.here, lambda value: value.index_select(0, at))


def _tensors(crew: Crew) -> list[Tensor]:
    found: list[Tensor] = []

    def note(value: Tensor) -> Tensor:
        found.append(value)
        return value

    mapped(crew, note)
    return found


def _bytes(crew: Crew) -> int:
    return sum(value.nbytes for value in _tensors(crew))


def _check(policy: Plays, index: int, core: Core, seat: Seat, agents: Agents, count: int) -> None:
    """Raises ConfigError where a network was made for other observations, actions or agents."""
    if not isinstance(policy, Policy):
        return
    given = policy.spec["action"]
    for what, wanted, got in (
        ("obs_width", agents.width, policy.obs_width),
        ("action", spec_like(given, agents.space), given),
        ("ids", count if policy.ids else 0, policy.ids),
    ):
        if wanted != got:
            raise ConfigError(
                f"{core.id}: seat {seat.name}: policy {index}: {what}: expected {wanted} as in this environment, "
                f"got {got}"
            )
