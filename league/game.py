"""The game of a league: an environment, its seats, and the populations of their policies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

import gpu_envs
from gpu_envs.definition.registry import find, recorded_id
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import check_played
from trainers.base.agent_group import agent_rows_of, make_agent_group
from trainers.base.serialization import check_fields


@dataclass(frozen=True)
class Seat:
    """A seat of a game, which one policy plays."""

    name: str
    """Unique name in the game."""
    role: str
    """Name of the population of its policies."""
    members: tuple[str, ...]
    """Groups or agents of the seat; the return of the seat is the sum of their returns."""


@dataclass(frozen=True)
class SeatPart:
    """Agents of a seat with one action space. The policy of a seat with several parts is a team of one per part."""

    members: tuple[str, ...]
    """Groups or agents of the part."""
    places: tuple[int, ...]
    """Positions of its agents among the seat's agents."""


@dataclass(frozen=True)
class Game:
    """An environment as a normal-form game: its strategies are policies, its payoffs are returns of seats.

    The axes of payoffs are the seats, in this order. Seats of one role share a population.
    """

    env_id: str
    """Id of the environment."""
    seats: tuple[Seat, ...]
    """Seats in the order of the axes of payoffs."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    zero_sum: bool = False
    """True if the sum of the seats' returns is 0."""

    @classmethod
    def of(
        cls,
        env_id: str,
        env: Mapping[str, Any] | None = None,
        shared: bool | None = None,
        roles: Mapping[str, Sequence[Any]] | None = None,
        zero_sum: bool | None = None,
    ) -> Game:
        """Return the game that an environment declares.

        Args:
            env_id: Environment, such as "KuhnPoker-v0".
            env: Arguments of the environment.
            shared: Whether all seats share one population; None: if the game is symmetric.
            roles: Groups or agents of the seat of each role, or a sequence of them for each of several seats:
                `{"hunter": (("agent_0",), ("agent_1",))}` are the seats hunter_0 and hunter_1. None: as declared.
            zero_sum: Whether the sum of the seats' returns is 0. None: as declared.

        Raises:
            ConfigError: There are no roles, or seats of a role (with `shared`, all seats) differ in action spaces.
        """
        core = gpu_envs.make(env_id, num_envs=1, device="cpu", **(env or {})).core
        definition = core.definition
        roles = roles or definition.roles
        zero_sum = definition.zero_sum if zero_sum is None else zero_sum
        if not roles:
            raise ConfigError(
                f"{env_id}: expected an environment with roles, got none; use another one, such as SimpleTag-v0, "
                "or declare them: --roles ROLE=GROUP, Game.of(id, roles={'role': ('group', ...)}), EnvDefinition.roles"
            )
        seats = _seats(env_id, roles)
        _check_seats(env_id, seats, core)
        if shared is None:
            shared = definition.symmetric and roles == definition.roles
        if shared:
            population = _common(roles)
            seats = [dataclasses.replace(seat, role=population) for seat in seats]
        game = cls(env_id, tuple(seats), dict(env or {}), zero_sum)
        for role in game.roles:
            _check_role(env_id, role, [game.seats[seat] for seat in game.seats_of(role)], core)
        return game

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Names of the populations in the order of the seats."""
        return tuple(dict.fromkeys(seat.role for seat in self.seats))

    @property
    def shared(self) -> bool:
        """True if all of several seats share one population."""
        return len(self.roles) == 1 and len(self.seats) > 1

    @property
    def has_kernels(self) -> bool:
        """True if the environment has rules for kernels; False if its worlds are in plain Python."""
        return find(self.env_id).host is None

    @cached_property
    def parts(self) -> tuple[tuple[SeatPart, ...], ...]:
        """Parts of every seat: agents with one action space."""
        core = self.core(1)
        return tuple(seat_parts(core, seat.members) for seat in self.seats)

    def learners_of(self, role: str) -> tuple[str, ...]:
        """Return the names of the learners of a role: its own, or of the parts of its seats.

        A part is named by its first member, like the policy of this group in `gpu-envs train`.
        """
        seat = self.seats_of(role)[0]
        if len(self.parts[seat]) == 1:
            return (role,)
        names = [part.members[0] for part in self.parts[seat]]
        return tuple(f"{role}-{name}" if name in self.roles and name != role else name for name in names)

    @property
    def learner_of_member(self) -> dict[str, str]:
        """Name of the learner of every group or agent."""
        return {
            member: name
            for seat, parts in zip(self.seats, self.parts, strict=True)
            for part, name in zip(parts, self.learners_of(seat.role), strict=True)
            for member in part.members
        }

    def seats_of(self, role: str) -> tuple[int, ...]:
        """Return the indices of the seats of a role."""
        return tuple(index for index, seat in enumerate(self.seats) if seat.role == role)

    def marginals_by_role(self, marginals: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the mean over the seats of each role of their marginals (N,), by role.

        In a symmetric zero-sum game the mean of the seats' equilibrium strategies is again an equilibrium.

        Raises:
            ConfigError: The number of marginals is not the number of seats, or the marginals of the seats of one role
                differ in length.
        """
        if len(marginals) != len(self.seats):
            raise ConfigError(f"{self.env_id}: expected marginals for {len(self.seats)} seats, got {len(marginals)}")
        means = {}
        for role in self.roles:
            of_role = [marginals[seat] for seat in self.seats_of(role)]
            sizes = {len(marginal) for marginal in of_role}
            if len(sizes) > 1:
                raise ConfigError(
                    f"{self.env_id}: role {role}: expected one number of policies for all seats, got {sorted(sizes)}"
                )
            means[role] = sum(of_role[1:], of_role[0]) / len(of_role)
        return means

    def core(self, num_envs: int, device: str = "cpu", seed: int = 0, **settings: Any) -> Core:
        """Return a core of the game that reuses its buffers."""
        settings = {**self.env, **settings}
        core = gpu_envs.make(
            self.env_id, num_envs=num_envs, device=device, seed=seed, reuse_buffers=True, **settings
        ).core
        _check_seats(self.env_id, self.seats, core)
        return core

    def to_json(self) -> dict[str, Any]:
        """Return the game as JSON data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any, context: str = "recorded game") -> Game:
        """Return the game of JSON data from `to_json`.

        Args:
            data: JSON data.
            context: File and position of the data, for error messages.

        Raises:
            CheckpointError: The data are invalid, or the environment's module is not imported, see
                `gpu_envs.definition.registry.recorded_id`.
        """
        hints = {"env_id": str, "seats": list[dict[str, Any]], "env": dict[str, Any], "zero_sum": bool}
        game = check_fields(context, data, hints)
        seats = [
            Seat(**check_fields(f"{context}: seats", seat, {"name": str, "role": str, "members": list[str]}))
            for seat in game["seats"]
        ]
        if len({seat.name for seat in seats}) < max(len(seats), 1) or not all(seat.members for seat in seats):
            raise CheckpointError(f"{context}: seats: expected seats with unique names and members, got others")
        try:
            check_played(f"{context}: env", game["env"])
        except ConfigError as error:
            raise CheckpointError(str(error)) from None
        seats = tuple(dataclasses.replace(seat, members=tuple(seat.members)) for seat in seats)
        return cls(recorded_id(game["env_id"], context), seats, game["env"], game["zero_sum"])


def _seats(env_id: str, roles: Mapping[str, Sequence[Any]]) -> list[Seat]:
    """Return the seats of roles: one with the name of its role, or several with numbers."""
    seats: list[Seat] = []
    for role, members in roles.items():
        if not members:
            raise ConfigError(f"{env_id}: role {role}: expected groups or agents, got none")
        if all(isinstance(member, str) for member in members):
            seats.append(Seat(role, role, tuple(members)))
            continue
        for number, agents in enumerate(members):
            if isinstance(agents, str) or not agents or not all(isinstance(member, str) for member in agents):
                raise ConfigError(
                    f"{env_id}: role {role}: expected groups or agents of one seat, or a list of them for every seat, "
                    f"got {agents!r:.80} among {len(members)}"
                )
            seats.append(Seat(f"{role}_{number}", role, tuple(agents)))
    if len({seat.name for seat in seats}) < len(seats):
        raise ConfigError(f"{env_id}: roles: expected different names of seats, got {[seat.name for seat in seats]}")
    return seats


def _check_seats(env_id: str, seats: Sequence[Seat], core: Core) -> None:
    rows: list[int] = []
    for seat in seats:
        for member in seat.members:
            if member not in core.groups and member not in core.possible_agents:
                names = ", ".join((*core.groups, *core.possible_agents))
                raise ConfigError(
                    f"{env_id}: role {seat.role}: expected groups or agents among {names:.200}, got {member!r}"
                )
            rows += core.groups.get(member) or [core.possible_agents.index(member)]
        for part in seat_parts(core, seat.members):
            make_agent_group(core, part.members)
    if sorted(rows) != list(range(core.num_agents)):
        members = {seat.name: seat.members for seat in seats}
        raise ConfigError(f"{env_id}: roles: expected every agent in exactly one role, got {members}")


def seat_parts(core: Core, members: Sequence[str]) -> tuple[SeatPart, ...]:
    """Return the parts of a seat with these members, in the order of their first members."""
    spaces, parts, places = [], list[list[str]](), list[list[int]]()
    first = 0  # place of the member's first agent
    for member in members:
        rows = agent_rows_of(core, [member])
        space = core.action_spaces[core.possible_agents[rows[0]]]
        if space not in spaces:
            spaces.append(space)
            parts.append([])
            places.append([])
        index = spaces.index(space)
        parts[index].append(member)
        places[index] += range(first, first + len(rows))
        first += len(rows)
    return tuple(SeatPart(tuple(agents), tuple(at)) for agents, at in zip(parts, places, strict=True))


def _check_role(env_id: str, role: str, seats: Sequence[Seat], core: Core) -> None:
    """Raise ConfigError unless one policy can play all seats of a role."""
    parts_of = [seat_parts(core, seat.members) for seat in seats]
    if all(len(parts) == 1 for parts in parts_of):
        make_agent_group(core, [member for seat in seats for member in seat.members])
        return
    spaces = [[make_agent_group(core, part.members).space for part in parts] for parts in parts_of]
    places = [[part.places for part in parts] for parts in parts_of]
    if any(entry != spaces[0] for entry in spaces) or any(entry != places[0] for entry in places):
        raise ConfigError(
            f"{env_id}: role {role}: expected seats with equal action spaces in the same order, got different ones; "
            "give each seat its own role"
        )


def _common(roles: Mapping[str, Any]) -> str:
    """Return a common name of roles: "player" of "player_0" and "player_1", else "shared"."""
    stems = {role.rstrip("0123456789").rstrip("_") for role in roles}
    return stems.pop() if len(stems) == 1 and "" not in stems else "shared"


def is_two_player_zero_sum(game: Game) -> bool:
    """Return whether a game has two seats and is zero-sum."""
    return len(game.seats) == 2 and game.zero_sum


def require_two_player_zero_sum(game: Game, variant: str) -> None:
    """Raise ConfigError unless a game has two seats and is zero-sum."""
    if not is_two_player_zero_sum(game):
        raise ConfigError(
            f"variant={variant!r}: expected a two-player zero-sum game, got {game.env_id}; use variant='standard'"
        )
