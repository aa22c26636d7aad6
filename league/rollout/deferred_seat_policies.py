"""Policies of one seat that are copied only when they act between steps; kernels need no copies."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from torch import Tensor

from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from league.game import Seat
from league.rollout.seat_policies import SeatPolicies, check_seat_policy
from trainers.base.agent_group import agent_rows_of, make_mixed_group
from trainers.base.seeding import SEEDS
from trainers.base.state import State
from trainers.models.policy import PolicyProtocol

__all__ = ["DeferredSeatPolicies"]


class DeferredSeatPolicies:
    """A pool of policies in one seat, and their `SeatPolicies` from the first call of `build` on."""

    def __init__(self, pool: Sequence[PolicyProtocol], core: Core, seat: Seat, seed: int) -> None:
        """Copy nothing yet.

        Args:
            pool: Policies.
            core: Worlds.
            seat: Seat whose agents act.
            seed: Random seed of the policies' actions.

        Raises:
            ConfigError: A policy does not fit the seat.
        """
        self.core, self.seat = core, seat
        self.pool: list[PolicyProtocol] = []
        self._first_seed = self._seed = seed
        self._built: SeatPolicies | None = None
        self._state: State = {}  # random streams and hidden states to restore after the seed
        self.replace(pool)

    @property
    def built(self) -> SeatPolicies | None:
        """The policies that act between steps, if they are needed."""
        return self._built

    def build(self) -> SeatPolicies:
        """Return the policies that act between steps; copy their weights if they are missing or have changed."""
        if self._built is None:
            built = SeatPolicies(self.pool, self.core, self.seat)
            built.seed(self._seed)
            _copy_state(built, self._state)
            self._built, self._state = built, {}
        return self._built

    def replace(self, pool: Sequence[PolicyProtocol]) -> None:
        """Replace the policies; those in play keep their hidden states and random streams.

        Raises:
            ConfigError: A policy does not fit the seat; nothing has changed.
        """
        if len(pool) == len(self.pool) and all(map(operator.is_, pool, self.pool)):
            return
        agents, count = make_mixed_group(self.core, self.seat.members), len(agent_rows_of(self.core, self.seat.members))
        for index, policy in enumerate(pool):
            check_seat_policy(policy, index, self.core, self.seat, agents, count)
        self.pool = list(pool)
        if self._built is not None:
            self._state = {**self._built.state_dict()}
            self._seed, self._built = self._first_seed, None

    def seed(self, seed: int) -> None:
        """Seed the random streams of the policies' actions."""
        if self._built is not None:
            self._built.seed(seed)
            return
        self._seed = seed
        self._state = {name: value for name, value in self._state.items() if not name.startswith("stream.")}

    def state_dict(self) -> State:
        """Return random streams and hidden states, or before `build` the seed and what it will restore."""
        if self._built is not None:
            return {**self._built.state_dict()}
        return {**self._state, "seed": self._seed}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict` with at most this number of policies; raise CheckpointError if it does not fit."""
        if (seed := state.get("seed")) is not None:
            if type(seed) is not int or not 0 <= seed < SEEDS:
                raise CheckpointError(f"seat {self.seat.name}: seed: expected an int from 0, got {seed!r:.80}")
            self.seed(seed)
        entries = {name: value for name, value in state.items() if name != "seed"}
        if self._built is None:
            self._state = entries
        else:
            _copy_state(self._built, entries)


def _copy_state(policies: SeatPolicies, state: Mapping[str, object]) -> None:
    """Copy the random streams and hidden states from the state of at most this number of policies."""
    target = policies.state_dict()
    for name, value in state.items():
        if name in target and isinstance(value, Tensor) and value.shape == target[name].shape:
            target[name] = value
    policies.load_state_dict({**target})
