"""A game whose tree can be enumerated, with the policies of a run as tables."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.utils.lru_cache import LRUCache
from league.exact.game_tree import GameTree
from league.exact.tabulation import tabulate
from league.game import Game
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.tabular import TablePolicy
from league.solvers import MetaStrategy
from league.storage.records import to_json
from trainers.config.train_config import TrainConfig
from trainers.models.networks import RECURRENT
from trainers.models.overrides import override_of
from trainers.models.policy import PolicyProtocol

KEPT = 4
"""Trees that a process keeps, those that were asked for last."""
_TREES: LRUCache[str, GameTree] = LRUCache(max_items=KEPT)
"""Trees by game."""
_ASKED: weakref.WeakKeyDictionary[GameTree, list[weakref.WeakKeyDictionary[PolicyProtocol, Tensor]]] = (
    weakref.WeakKeyDictionary()
)
"""Tables of the policies by tree and seat; policies are frozen."""


@dataclass(frozen=True)
class JointDeviation:
    """The best response of a seat that deviates from a joint distribution."""

    table: Tensor
    """Best response (I, C)."""
    gain: float
    """Increase of the return; after a recommendation, times the probability of the recommendation."""


class TabularGame:
    """Compute exact payoffs, best responses and NashConv of populations. Each process tabulates a policy once."""

    def __init__(self, tree: GameTree) -> None:
        """Use the tree of a game."""
        self.tree: GameTree = tree
        self.game: Game = tree.game
        self.tables: list[list[Tensor]] = [[] for _ in self.game.seats]
        self.cache: list[weakref.WeakKeyDictionary[PolicyProtocol, Tensor]] = _ASKED.setdefault(
            tree, [weakref.WeakKeyDictionary() for _ in self.game.seats]
        )

    @classmethod
    def of(cls, game: Game, required: bool = False) -> TabularGame | None:
        """Return the tabular form of a game, or None if its tree cannot be enumerated.

        Raises:
            ConfigError: The tree is `required` and cannot be enumerated.
        """
        try:
            return cls(_tree_of(game))
        except ConfigError:
            if required:
                raise
            return None

    def tabulate_all(self, populations: Mapping[str, Sequence[PolicyProtocol]]) -> list[list[Tensor]]:
        """Return the tables (I, C) of all policies of each seat; policies that are new are tabulated."""
        for index, (seat, tables) in enumerate(zip(self.game.seats, self.tables, strict=True)):
            population = populations[seat.role]
            tables += [self._table(population[number], index) for number in range(len(tables), len(population))]
        return self.tables

    def _table(self, policy: PolicyProtocol, seat: int) -> Tensor:
        tables = self.cache[seat]
        if policy not in tables:
            tables[policy] = self._tabulate(policy, seat)
        return tables[policy]

    def _tabulate(self, policy: PolicyProtocol, seat: int) -> Tensor:
        # exact: a network's uniform probabilities are float32, and rounding would decide between equal responses
        if isinstance(policy, RandomPolicy) and not override_of(policy, RandomPolicy, ("act",)):
            return self.tree.uniform(seat)
        if isinstance(policy, MixturePolicy) and not override_of(policy, MixturePolicy, ("act",)):
            return self.tree.mix([self._table(member, seat) for member in policy.members], policy.weights.cpu(), seat)
        return tabulate(policy, self.tree, seat)

    # ---------------------------------------------------------------- payoffs

    def payoffs(self, populations: Mapping[str, Sequence[PolicyProtocol]]) -> Tensor:
        """Return the payoffs of all matchups, (S, N_1, ..., N_S).

        In a game with a shared population a policy's payoff is the mean over all orders of the seats, as in a
        `PayoffTable`.
        """
        payoffs = self.tree.payoffs(self.tabulate_all(populations))
        if not self.game.shared:
            return payoffs
        orders = list(permutations(range(len(payoffs))))
        return torch.stack([payoffs[list(order)].permute(0, *(1 + axis for axis in order)) for order in orders]).mean(0)

    def mixtures(
        self, populations: Mapping[str, Sequence[PolicyProtocol]], marginals: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return for each seat the table equivalent to its mixture; marginals (n,) of its first n policies."""
        tables = self.tabulate_all(populations)
        return [
            self.tree.mix(torch.stack(tables[seat][: len(weights)]), weights.cpu(), seat)
            for seat, weights in enumerate(marginals)
        ]

    def nash_conv(
        self,
        populations: Mapping[str, Sequence[PolicyProtocol]],
        marginals: Sequence[Tensor],
        joint: Tensor | None = None,
    ) -> float:
        """Return NashConv: the sum over seats of the gain by a unilateral best response to a meta-strategy.

        With a joint distribution (N_1, ..., N_S) a seat deviates before the profile is sampled. The sum is 0 in a
        coarse correlated equilibrium.
        """
        if joint is None:
            return self.tree.nash_conv(self.mixtures(populations, marginals))
        return sum(self.gains(populations, marginals, joint))

    def gains(
        self,
        populations: Mapping[str, Sequence[PolicyProtocol]],
        marginals: Sequence[Tensor],
        joint: Tensor | None = None,
    ) -> list[float]:
        """Return the gain of each seat by a unilateral best response to a meta-strategy, see `nash_conv`."""
        seats = range(len(marginals))
        if joint is not None:
            return [self.deviation_gains(populations, joint, seat, recommended=False)[None].gain for seat in seats]
        strategy = MetaStrategy(tuple(marginals))
        values = self.tree.values(self.mixtures(populations, marginals)).tolist()
        return [self._respond(populations, strategy, seat)[1] - values[seat] for seat in seats]

    def deviation_gains(
        self, populations: Mapping[str, Sequence[PolicyProtocol]], joint: Tensor, seat: int, recommended: bool = True
    ) -> dict[int | None, JointDeviation]:
        """Return the gains of a seat by a best response to a joint distribution.

        Args:
            populations: Policies by role.
            joint: (N_1, ..., N_S), distribution over profiles.
            seat: Index of the seat.
            recommended: The seat deviates after its recommendation, else before.

        Returns:
            The gains by the index of the recommended policy, without policies that are never recommended; else one
            gain with the index None.
        """
        tables = [
            seat_tables[:size] for seat_tables, size in zip(self.tabulate_all(populations), joint.shape, strict=True)
        ]
        joint = joint.cpu()
        earned = (self.tree.payoffs(tables)[seat] * joint).movedim(seat, 0).flatten(1).sum(1)
        if not recommended:
            table, value = self._respond_to_joint(populations, joint.sum(seat, keepdim=True), seat)
            return {None: JointDeviation(table, value - float(earned.sum()))}
        deviations: dict[int | None, JointDeviation] = {}
        for index in joint.movedim(seat, 0).flatten(1).sum(1).nonzero().flatten().tolist():
            table, value = self._respond_to_joint(populations, joint.narrow(seat, index, 1), seat)
            deviations[index] = JointDeviation(table, value - float(earned[index]))
        return deviations

    def ce_gap(self, populations: Mapping[str, Sequence[PolicyProtocol]], joint: Tensor) -> float:
        """Return the CE gap: the sum over seats of the gain by a best response to every recommendation.

        It is at least `nash_conv` of the joint distribution (N_1, ..., N_S), and 0 in a correlated equilibrium.
        """
        seats = range(joint.dim())
        gains = [self.deviation_gains(populations, joint, seat).values() for seat in seats]
        return sum(max(deviation.gain, 0.0) for of_seat in gains for deviation in of_seat)

    # ---------------------------------------------------------------- best responses

    def best_response(
        self,
        populations: Mapping[str, Sequence[PolicyProtocol]],
        role: str,
        opponents: MetaStrategy,
        recommendation: int | None = None,
    ) -> tuple[TablePolicy, float]:
        """Return a pure best response of a role to the meta-strategy of the other seats, and its mean return.

        The policy plays every seat of the role; the return is the mean over these seats. With the index of a
        `recommendation`, the response is to the joint distribution conditional on it.
        """
        if recommendation is not None:
            assert opponents.joint is not None
            joint, responses = opponents.joint.cpu(), []
            for seat in self.game.seats_of(role):
                conditional = joint.narrow(seat, recommendation, 1)
                table, value = self._respond_to_joint(populations, conditional, seat)  # ties as in `deviation_gains`
                responses.append((table, value / float(conditional.sum())))
        else:
            responses = [self._respond(populations, opponents, seat) for seat in self.game.seats_of(role)]
        value = sum(value for _, value in responses) / len(responses)
        return self.policy(role, [table for table, _ in responses]), value

    def _respond(
        self, populations: Mapping[str, Sequence[PolicyProtocol]], opponents: MetaStrategy, seat: int
    ) -> tuple[Tensor, float]:
        """Return the table of a best response of one seat, and its return."""
        if opponents.joint is None:
            return self.tree.best_response(self.mixtures(populations, opponents.marginals), seat)
        return self._respond_to_joint(populations, opponents.joint.sum(seat, keepdim=True), seat)

    def _respond_to_joint(
        self, populations: Mapping[str, Sequence[PolicyProtocol]], joint: Tensor, seat: int
    ) -> tuple[Tensor, float]:
        """Return the table of a best response to weighted profiles (N_1, ..., 1, ..., N_S), and its weighted return."""
        tables, returns = self.tabulate_all(populations), []
        for matchup in joint.nonzero().tolist():  # index 0 of the seat stands for its own policy
            profile = [tables[other][index] for other, index in enumerate(matchup)]
            returns.append(float(joint[tuple(matchup)]) * self.tree.against(profile, seat))
        return self.tree.best_against(torch.stack(returns).sum(0), seat)

    def policy(self, role: str, tables: Sequence[Tensor]) -> TablePolicy:
        """Return the policy that plays tables (I, C), one for each seat of a role."""
        seats = self.game.seats_of(role)
        width = max(self.tree.observations[seat].shape[1] for seat in seats)
        rows: dict[bytes, int] = {}
        observations, table = [], []
        for seat, actions in zip(seats, tables, strict=True):
            for obs, row in zip(self.tree.observations[seat], actions, strict=True):
                padded = torch.nn.functional.pad(obs, (0, width - len(obs)))
                if rows.setdefault(padded.numpy().tobytes(), len(rows)) == len(
                    table
                ):  # else a row of another seat with the same observation
                    observations.append(padded)
                    table.append(row)
        return TablePolicy(torch.stack(observations), torch.stack(table))


def _tree_of(game: Game) -> GameTree:
    """Return the cached tree of a game; raise ConfigError if it cannot be enumerated."""
    key = to_json(game.to_json())
    return _TREES.get_or_make(key, lambda: GameTree(game))


def is_recurrent(train: TrainConfig) -> bool:
    """Return whether learned policies may be recurrent, as "module:Name" may, and so cannot be tabulated."""
    return RECURRENT.allow(getattr(train.learner, "network", "mlp"))


def is_tabular(game: Game, train: TrainConfig | None = None) -> bool:
    """Return whether a game's tree can be enumerated and its learned policies, if any, can be tabulated."""
    return (train is None or not is_recurrent(train)) and TabularGame.of(game) is not None
