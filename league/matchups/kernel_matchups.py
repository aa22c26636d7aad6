"""Matchups of policies that act inside the kernels: all matchups of a batch are one launch."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from league.game import Game, Seat
from league.matchups.lineups import Lineups, MatchupAdder, of_worlds
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy, check_seat_policies
from trainers.evaluation.kernel_episodes import KernelPlayers, Networks
from trainers.models.action_heads import BoxHead
from trainers.models.kernel_networks import acts_in_kernels, kernel_policies
from trainers.models.overrides import override_of
from trainers.models.policy import Policy, PolicyProtocol
from warp_kernels.framework.policies import NO_POLICY


@dataclass
class Worlds:
    """Worlds without autoreset, and their launches, which take longer to build than a short episode."""

    core: Core
    """The worlds."""
    rows: list[list[int]]
    """Rows of the agents of every seat."""
    adder: MatchupAdder
    """Buffers to add up the returns."""
    kernels: KernelPlayers
    """Launches of policies in kernels."""
    checked: dict[Seat, weakref.WeakSet[Policy | RandomPolicy | TeamPolicy]] = field(default_factory=dict)
    """Policies that fit a seat."""

    def check(self, policies: Mapping[int, PolicyProtocol], seat: Seat) -> None:
        """Raise ConfigError if a policy does not fit a seat."""
        checked = self.checked.setdefault(seat, weakref.WeakSet())
        new = {
            index: policy
            for index, policy in policies.items()
            if isinstance(policy, Policy | RandomPolicy | TeamPolicy) and policy not in checked
        }
        if new:
            check_seat_policies(new, self.core, seat)
            checked.update(new.values())


def plays_in_kernels(policy: PolicyProtocol, device: torch.device, engine: str = "kernel") -> bool:
    """Return whether a policy acts inside kernels on a device: dense networks, random policies, teams and mixtures."""
    if isinstance(policy, Policy):
        return acts_in_kernels(policy, device, engine)
    kind = next((cls for cls in (MixturePolicy, TeamPolicy, RandomPolicy) if isinstance(policy, cls)), None)
    if kind is None or override_of(policy, kind, ("act",)):
        return False
    if isinstance(policy, MixturePolicy | TeamPolicy):
        return all(plays_in_kernels(member, device, engine) for member in policy.members)
    # kernels cannot sample from a box without bounds
    return isinstance(policy, RandomPolicy) and (not isinstance(policy.head, BoxHead) or policy.head.bounded)


def num_parameters(policy: PolicyProtocol) -> int:
    """Return the number of weights of a network, 0 for a random policy, and the largest number of several policies."""
    if not isinstance(policy, Policy):
        has_members = isinstance(policy, MixturePolicy | TeamPolicy)
        return max(map(num_parameters, policy.members)) if has_members else 0
    widths = [policy.obs_width, *policy.spec["hidden_sizes"], policy.head.num_params]
    return sum(map(operator.mul, widths, widths[1:]))


def agent_numbers(networks: Networks, policy: PolicyProtocol, count: int) -> list[int]:
    """Return the number of the network of each of a seat's agents."""
    numbers = [networks.number(policy)] * count
    if isinstance(policy, TeamPolicy):
        for member, agents in zip(policy.members, policy.places, strict=True):
            for agent in agents:
                numbers[agent] = networks.number(member)
    return numbers


class KernelMatchups:
    """Policies of a game's seats in the kernels, and what plays their matchups."""

    def __init__(
        self,
        game: Game,
        worlds: Worlds,
        policies: Mapping[str, Mapping[int, PolicyProtocol]],
        seeds: Sequence[int],
    ) -> None:
        """Pack the networks; arguments as of `SeatMatchups`, all policies with `plays_in_kernels`."""
        self.game: Game = game
        self.worlds: Worlds = worlds
        self.core: Core = worlds.core
        self._seed, self._draws = seeds[0], None  # of the mixtures
        for seat in game.seats:
            worlds.check(policies[seat.role], seat)
        networks = Networks()
        largest = max(map(len, worlds.rows))  # number of agents of a seat
        rows: list[list[int]] = []

        def add_row(policy: PolicyProtocol) -> int:
            """Return the row of a policy among `_of_agents`."""
            rows.append(agent_numbers(networks, policy, largest))
            return len(rows) - 1

        self._members: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {}  # of mixtures
        self._places: dict[str, np.ndarray] = {}  # rows of `_of_agents`, by index
        for role, pool in policies.items():
            self._members[role], indices = {}, [NO_POLICY] * (max(pool) + 1)
            for index, policy in pool.items():
                if isinstance(policy, MixturePolicy):
                    weights = policy.weights.cpu().double().numpy()
                    members = np.array([add_row(member) for member in policy.members])
                    self._members[role][index] = (members, weights / weights.sum())
                else:
                    indices[index] = add_row(policy)
            self._places[role] = np.array(indices)
        self._of_agents = np.array(rows)  # network of each agent of a seat, by policy
        self.policies: list[KernelPolicy] = kernel_policies(networks.members, self.core.device)

    def simulate(self, lineups: Lineups, seed: int, greedy: bool, max_steps: int) -> np.ndarray:
        """Play the episodes of lineups in the first worlds, see `SeatMatchups.simulate`."""
        core, worlds = self.core, self.worlds
        rows, counts = self._sampled(lineups)
        one_each = worlds.rows == [[row] for row in range(core.num_agents)]  # seat s has agent s
        index = np.full((len(rows), core.num_agents), NO_POLICY)
        for seat, agents in enumerate(worlds.rows):
            index[:, agents] = self._of_agents[rows[:, seat], : len(agents)]
        played, matchup = int(counts.sum()), np.zeros(core.num_envs, np.int64)
        if len(counts) > 1:
            matchup[:played] = of_worlds(counts)
        results = worlds.kernels.play_matchups(
            self.policies, index, matchup, seed, count=played, greedy=greedy, max_steps=max_steps
        )
        returns = results.returns(played)
        if one_each:
            return returns
        earned = torch.from_numpy(returns).double()
        return torch.stack([earned[:, agents].sum(1) for agents in worlds.rows], 1).numpy()

    def _sampled(self, lineups: Lineups) -> tuple[np.ndarray, np.ndarray]:
        """Return lineups of rows of `_of_agents` (R, S), and their numbers of worlds (R,), in the order of the lineups.

        A mixture samples a member for every world: its lineups are split.
        """
        rows, counts = lineups.policies, lineups.count
        if any(self._members.values()):
            self._draws = self._draws or np.random.default_rng(self._seed)
        for column, seat in enumerate(self.game.seats):
            policies, rows = rows[:, column], rows.copy()
            rows[:, column] = self._places[seat.role][policies]
            for index, (members, weights) in self._members[seat.role].items():
                assert self._draws is not None
                mixed = policies == index
                sizes = self._draws.multinomial(counts[mixed], weights)  # (mixed lineups, members)
                of = np.arange(len(policies)).repeat(np.where(mixed, len(members), 1))
                rows, policies, counts = rows[of], policies[of], counts[of]
                rows[policies == index, column] = np.tile(members, len(sizes))
                counts[policies == index] = sizes.flatten()
                nonempty = counts > 0
                rows, policies, counts = rows[nonempty], policies[nonempty], counts[nonempty]
        return rows, counts
