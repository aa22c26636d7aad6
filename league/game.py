"""What a league plays: an environment, its seats, and whose policies sit there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gpu_envs
from gpu_envs.core import Core
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.factory import check_played
from gpu_envs.registry import recorded_id
from trainers.agents import agents_of
from trainers.files import check_fields


@dataclass(frozen=True)
class Seat:
    """One side of a game."""

    name: str
    """Unique in a game."""
    role: str
    """The population that its policies come from."""
    members: tuple[str, ...]
    """The groups or agents that a policy plays here; what they earn is summed."""


@dataclass(frozen=True)
class Game:
    """An environment as a normal-form game: one policy per seat, what each seat earns in an episode.

    Axes of payoffs are seats, in this order. Seats of one role draw from one population.
    """

    env_id: str
    """Id of the environment."""
    seats: tuple[Seat, ...]
    """In the order of payoffs' axes."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the environment."""
    zero_sum: bool = False
    """What the seats earn sums to 0."""

    @classmethod
    def of(cls, env_id: str, env: Mapping[str, Any] | None = None, shared: bool | None = None, **declared: Any) -> Game:
        """The game that an environment declares.

        Args:
            env_id: Environment, such as "KuhnPoker-v0".
            env: Its settings.
            shared: One population for all seats, whose policies play all of them; None: where the game is symmetric.
            **declared: `roles` (groups or agents by role) and `zero_sum`, where the environment does not say it.

        Raises:
            ConfigError: It declares no roles, or agents of a role, or of all if `shared`, differ in action space.
        """
        core = gpu_envs.make(env_id, num_envs=1, **(env or {})).core
        definition = core.definition
        roles = declared.pop("roles", None) or definition.roles
        zero_sum = declared.pop("zero_sum", definition.zero_sum)
        if declared:
            raise TypeError(f"Game.of: unexpected {', '.join(declared)}")
        if not roles:
            raise ConfigError(
                f"{env_id}: declares no roles, nobody plays against anybody; take a game of two sides, as "
                "SimpleTag-v0, or name them: Game.of(id, roles={'role': ('group', ...)}) or Definition.roles"
            )
        _check_roles(env_id, roles, core)
        if shared is None:
            shared = definition.symmetric and roles == definition.roles
        if shared:
            agents_of(core, [member for members in roles.values() for member in members])
        population = _common(roles) if shared else None
        seats = (Seat(name, population or name, tuple(members)) for name, members in roles.items())
        return cls(env_id, tuple(seats), dict(env or {}), zero_sum)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Populations, in the order of the seats."""
        return tuple(dict.fromkeys(seat.role for seat in self.seats))

    @property
    def shared(self) -> bool:
        """One population for all seats."""
        return len(self.roles) == 1 and len(self.seats) > 1

    def seats_of(self, role: str) -> tuple[int, ...]:
        """Seats whose policies come from a population."""
        return tuple(index for index, seat in enumerate(self.seats) if seat.role == role)

    def core(self, num_envs: int, device: str = "cpu", seed: int = 0, **settings: Any) -> Core:
        """Worlds of it, which reuse their buffers."""
        settings = {**self.env, **settings}
        core = gpu_envs.make(
            self.env_id, num_envs=num_envs, device=device, seed=seed, reuse_buffers=True, **settings
        ).core
        _check_roles(self.env_id, {seat.name: seat.members for seat in self.seats}, core)
        return core

    def to_json(self) -> dict[str, Any]:
        """For a run's records."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any, where: str = "recorded game") -> Game:
        """Read what `to_json` gave, lists for tuples.

        Args:
            data: What was recorded.
            where: Its file and place there, for messages.

        Raises:
            CheckpointError: It is something else, or the environment is in a module that is not imported, see
                `gpu_envs.registry.recorded_id`.
        """
        hints = {"env_id": str, "seats": list[dict[str, Any]], "env": dict[str, Any], "zero_sum": bool}
        game = check_fields(where, data, hints)
        seats = [
            Seat(**check_fields(f"{where}: seats", seat, {"name": str, "role": str, "members": list[str]}))
            for seat in game["seats"]
        ]
        if len({seat.name for seat in seats}) < max(len(seats), 1) or not all(seat.members for seat in seats):
            raise CheckpointError(f"{where}: seats: expected some, of different names and with members each")
        try:
            check_played(f"{where}: env", game["env"])
        except ConfigError as error:
            raise CheckpointError(str(error)) from None
        seats = tuple(dataclasses.replace(seat, members=tuple(seat.members)) for seat in seats)
        return cls(recorded_id(game["env_id"], where), seats, game["env"], game["zero_sum"])


def _check_roles(env_id: str, roles: Mapping[str, Any], core: Core) -> None:
    rows: list[int] = []
    for role, members in roles.items():
        for member in members:
            if member not in core.groups and member not in core.possible_agents:
                known = ", ".join((*core.groups, *core.possible_agents))
                raise ConfigError(f"{env_id}: role {role}: no group or agent {member!r}, only {known:.200}")
            rows += core.groups.get(member) or [core.possible_agents.index(member)]
        agents_of(core, members)
    if sorted(rows) != list(range(core.num_agents)):
        raise ConfigError(f"{env_id}: roles: expected every agent in one of them, got {dict(roles)}")


def _common(roles: Mapping[str, Any]) -> str:
    """A name for all: "player" of "player_0" and "player_1"."""
    stems = {role.rstrip("0123456789").rstrip("_") for role in roles}
    return stems.pop() if len(stems) == 1 and "" not in stems else "shared"
