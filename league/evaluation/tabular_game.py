"""A game that is small enough to walk, and the policies of a run as tables of it."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import permutations

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.exact import TablePolicy, Tree, tabulate
from league.game import Game
from league.population import MixturePolicy, RandomPolicy
from league.records import to_json
from league.targets import Target
from trainers.policy import Plays

KEPT = 4
"""Trees that a process keeps, those that were asked for last."""
_TREES: OrderedDict[str, Tree] = OrderedDict()
"""By what is played."""
_ASKED: weakref.WeakKeyDictionary[Tree, list[weakref.WeakKeyDictionary[Plays, Tensor]]] = weakref.WeakKeyDictionary()
"""Per tree and seat the tables of policies; they are frozen."""


class Small:
    """Exact payoffs, best responses and NashConv of populations. A process asks each policy once what it does."""

    def __init__(self, tree: Tree) -> None:
        """Takes a tree."""
        self.tree, self.game = tree, tree.game
        self.tables: list[list[Tensor]] = [[] for _ in self.game.seats]
        self.asked = _ASKED.setdefault(tree, [weakref.WeakKeyDictionary() for _ in self.game.seats])

    @classmethod
    def of(cls, game: Game, required: bool = False) -> Small | None:
        """None where the game cannot be walked; ConfigError instead, if it is `required`."""
        try:
            return cls(_tree_of(game))
        except ConfigError:
            if required:
                raise
            return None

    def know(self, populations: Mapping[str, Sequence[Plays]]) -> list[list[Tensor]]:
        """The tables (I, C) of all policies, per seat; those that came since the last time are made."""
        for index, (seat, tables) in enumerate(zip(self.game.seats, self.tables, strict=True)):
            population = populations[seat.role]
            tables += [self._table(population[place], index) for place in range(len(tables), len(population))]
        return self.tables

    def _table(self, policy: Plays, seat: int) -> Tensor:
        asked = self.asked[seat]
        if policy not in asked:
            asked[policy] = self._ask(policy, seat)
        return asked[policy]

    def _ask(self, policy: Plays, seat: int) -> Tensor:
        # a network that acts at random does so in float32, and rounding decides between responses that are alike
        if isinstance(policy, RandomPolicy):
            return self.tree.uniform(seat)
        if isinstance(policy, MixturePolicy):
            return self.tree.mix([self._table(each, seat) for each in policy.members], policy.weights.cpu(), seat)
        return tabulate(policy, self.tree, seat)

    # ---------------------------------------------------------------- payoffs

    def payoffs(self, populations: Mapping[str, Sequence[Plays]]) -> Tensor:
        """(S, N_1, ..., N_S), what every seat earns in every matchup.

        Seats of one population: what a policy earns that sits in every seat equally often, as a payoff table has it.
        """
        payoffs = self.tree.payoffs(self.know(populations))
        if not self.game.shared:
            return payoffs
        orders = list(permutations(range(len(payoffs))))
        return torch.stack([payoffs[list(order)].permute(0, *(1 + axis for axis in order)) for order in orders]).mean(0)

    def mixtures(self, populations: Mapping[str, Sequence[Plays]], marginals: Sequence[Tensor]) -> list[Tensor]:
        """Per seat the table that plays as its mixture does; marginals (n,) of the first n policies of a population."""
        tables = self.know(populations)
        return [
            self.tree.mix(torch.stack(tables[seat][: len(weights)]), weights.cpu(), seat)
            for seat, weights in enumerate(marginals)
        ]

    def nash_conv(
        self, populations: Mapping[str, Sequence[Plays]], marginals: Sequence[Tensor], joint: Tensor | None = None
    ) -> float:
        """What the seats could gain in all, each leaving a meta-strategy alone for a best response.

        Of a joint one (N_1, ..., N_S): before the profile is drawn, which is 0 in a coarse correlated equilibrium.
        """
        if joint is None:
            return self.tree.nash_conv(self.mixtures(populations, marginals))
        target, tables = Target(tuple(marginals), joint), self.know(populations)
        best = sum(self._respond(populations, target, seat)[1] for seat in range(joint.dim()))
        payoffs = self.tree.payoffs([each[:size] for each, size in zip(tables, joint.shape, strict=True)])
        return best - float((payoffs.sum(0) * joint.cpu()).sum())

    # ---------------------------------------------------------------- best responses

    def best_response(
        self, populations: Mapping[str, Sequence[Plays]], role: str, target: Target
    ) -> tuple[TablePolicy, float]:
        """A pure policy of a role that earns the most against opponents on the other seats, and what it earns.

        It knows what to do in every seat of the role; what it earns is the mean over those.
        """
        found = [self._respond(populations, target, seat) for seat in self.game.seats_of(role)]
        return self.policy(role, [table for table, _ in found]), sum(value for _, value in found) / len(found)

    def _respond(self, populations: Mapping[str, Sequence[Plays]], target: Target, seat: int) -> tuple[Tensor, float]:
        """The table that earns one seat the most, and what it earns."""
        if target.joint is None:
            return self.tree.best_response(self.mixtures(populations, target.marginals), seat)
        tables = self.know(populations)
        joint, worth = target.joint.sum(seat, keepdim=True), []  # policy 0 stands for the seat's own
        for who in joint.nonzero().tolist():
            profile = [tables[other][index] for other, index in enumerate(who)]
            worth.append(float(joint[tuple(who)]) * self.tree.against(profile, seat))
        return self.tree.best_against(torch.stack(worth).sum(0), seat)

    def policy(self, role: str, found: Sequence[Tensor]) -> TablePolicy:
        """The policy that plays tables (I, C), one for each seat of a role."""
        seats = self.game.seats_of(role)
        width = max(self.tree.observations[seat].shape[1] for seat in seats)
        rows: dict[bytes, int] = {}
        observations, table = [], []
        for seat, actions in zip(seats, found, strict=True):
            for obs, row in zip(self.tree.observations[seat], actions, strict=True):
                padded = torch.nn.functional.pad(obs, (0, width - len(obs)))
                if rows.setdefault(padded.numpy().tobytes(), len(rows)) == len(table):  # else of another seat: alike
                    observations.append(padded)
                    table.append(row)
        return TablePolicy(torch.stack(observations), torch.stack(table))


def _tree_of(game: Game) -> Tree:
    """Walked once; ConfigError where it cannot be."""
    key = to_json(game.to_json())
    if key not in _TREES:
        _TREES[key] = Tree.of(game)
    _TREES.move_to_end(key)
    while len(_TREES) > KEPT:
        _TREES.popitem(last=False)
    return _TREES[key]
