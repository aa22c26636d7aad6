"""Exact values, best responses and mixtures on the whole tree of a small game.

The tree is kept in its sequence form (von Stengel 1996, "Efficient computation of behavior strategies"; Koller, Megiddo
and von Stengel 1996): with perfect recall all that a seat does on the way to a leaf is told by the last of its own
actions there, its sequence. A table of behaviour becomes a plan, the probability that the seat plays a sequence if
all others let it; a leaf's probability is the product of chance and the seats' plans.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from league.exact.walk import Side, walk
from league.game import Game

Profile = Sequence[Tensor]
"""A table for every seat: (infosets, choices) float64, the probabilities of what it does; illegal choices have 0."""


class Tree:
    """A game's tree. All tensors are on the CPU, float64 where they hold numbers.

    Attributes:
        game: The game.
        observations: Per seat (I, D) float32, what it observes at its infosets; step by step.
        legal: Per seat (I, C) bool.
    """

    def __init__(self, game: Game, sides: Sequence[Side], sequence: Tensor, chance: Tensor, returns: Tensor) -> None:
        """Takes what `walk` found, see there; use `of`."""
        self.game = game
        self.observations = tuple(torch.from_numpy(side.observations) for side in sides)
        self.legal = tuple(torch.from_numpy(side.legal) for side in sides)
        self._parent = tuple(torch.from_numpy(side.parent) for side in sides)
        self._layers = tuple(_layers(*each) for each in zip(self._parent, self.legal, strict=True))
        self._sequence = tuple(sequence.T.contiguous())
        self._stakes = (returns * chance[:, None]).T.contiguous()  # (S, Z)

    @classmethod
    def of(cls, game: Game) -> Tree:
        """Walks a game; ConfigError where it cannot be walked, see `league.exact.walk.walk`."""
        found = walk(game)
        arrays = (torch.from_numpy(each) for each in (found.sequence, found.chance, found.returns))
        return cls(game, found.sides, *arrays)

    def uniform(self, seat: int) -> Tensor:
        """The table (I, C) that takes every legal choice alike."""
        legal = self.legal[seat].double()
        return legal / legal.sum(-1, keepdim=True)

    def plan(self, tables: Tensor, seat: int) -> Tensor:
        """Probabilities (..., 1 + I C) that a seat plays its sequences if all others let it, of tables (..., I, C)."""
        tables, choices = tables.double(), tables.shape[-1]
        plan = tables.new_ones((*tables.shape[:-2], 1 + tables.shape[-2] * choices))
        below = plan[..., 1:].unflatten(-1, tables.shape[-2:])
        for rows in self._layers[seat]:
            below[..., rows, :] = plan[..., self._parent[seat][rows], None] * tables[..., rows, :]
        return plan

    def values(self, profile: Profile) -> Tensor:
        """What every seat earns, (S,)."""
        return self.payoffs([table.unsqueeze(0) for table in profile]).flatten()

    def payoffs(self, tables: Sequence[Tensor | Sequence[Tensor]]) -> Tensor:
        """What every seat earns in every matchup.

        Args:
            tables: Per seat its policies: N_s tables, or (N_s, I, C).

        Returns:
            (S, N_1, ..., N_S).
        """
        reach = [self._reach(_stacked(each), seat) for seat, each in enumerate(tables)]
        cells = self._stakes  # (S, ..., Z), an axis more for every seat but the last
        for each in reach[:-1]:
            cells = cells[..., None, :] * each
        return cells @ reach[-1].T

    def best_response(self, profile: Profile, seat: int, tie: float = 0.0) -> tuple[Tensor, float]:
        """A pure table (I, C) that earns a seat the most against the others of a profile, and what it earns.

        Ties go to the lowest action index, also at infosets that chance or the others never let it reach. Values tie
        where their sums, as floats, are equal. So they do in OpenSpiel 2.0.2, and rounding may tell actions apart that
        are worth the same: PSRO with the uniform meta-strategy hangs on it on Kuhn from iteration 5 on. A `tie` of
        1e-12 leaves rounding no say, and there parts with OpenSpiel. All sums that responses and mixtures hang on are
        taken one by one in a fixed order, so that rounding decides alike on every CPU.

        Args:
            profile: All seats' tables; the seat's own is not looked at.
            seat: Who responds.
            tie: Values up to that far below the best are ties too; values count by the probability that chance and the
                others let the seat come to the infoset.
        """
        return self.best_against(self.against(profile, seat), seat, tie)

    def against(self, profile: Profile, seat: int) -> Tensor:
        """What every leaf is worth to a seat that plays all that leads there, the others as in a profile, (Z,)."""
        weight = self._stakes[seat].clone()
        for other, table in enumerate(profile):
            if other != seat:
                weight *= self._reach(table, other)
        return weight

    def best_against(self, weight: Tensor, seat: int, tie: float = 0.0) -> tuple[Tensor, float]:
        """`best_response` to what leaves are worth, (Z,): sums of `against` are others who draw tables together."""
        legal, parent = self.legal[seat], self._parent[seat]
        worth = weight.new_zeros(1 + legal.numel()).index_add_(0, self._sequence[seat], weight)
        table = torch.zeros_like(legal, dtype=weight.dtype)
        for rows in reversed(self._layers[seat]):
            options = worth[1:].view(legal.shape)[rows].masked_fill(~legal[rows], -torch.inf)
            best = options.amax(-1, keepdim=True)
            action = (options >= best - tie).byte().argmax(-1, keepdim=True)  # the first of the largest
            table[rows] = table[rows].scatter_(-1, action, 1.0)
            worth.index_add_(0, parent[rows], options.gather(-1, action).squeeze(-1))
        return table, float(worth[0])

    def nash_conv(self, profile: Profile) -> float:
        """What the seats could gain in all if each changed its policy alone; 0 at a Nash equilibrium."""
        best = sum(self.best_response(profile, seat)[1] for seat in range(len(profile)))
        return best - float(self.values(profile).sum())

    def mix(self, tables: Tensor | Sequence[Tensor], weights: Tensor, seat: int) -> Tensor:
        """The one table that plays as a mixture does that draws one of N tables (weights (N,)) for every episode.

        At an infoset the tables count by how probably they themselves go there (Kuhn's theorem). Where none of them
        goes, all legal choices are alike, as in OpenSpiel's policy_aggregator.
        """
        plan = torch.zeros(1 + self.legal[seat].numel(), dtype=torch.float64)
        for each in weights.double().unsqueeze(-1) * self.plan(_stacked(tables), seat):
            plan += each  # in order, see `best_response`
        mass = plan[1:].view(self.legal[seat].shape)
        total = mass.sum(-1, keepdim=True)
        return torch.where(total > 0, mass / total, self.uniform(seat))

    def _reach(self, tables: Tensor, seat: int) -> Tensor:
        """A seat's part (..., Z) in the probability of the leaves."""
        return self.plan(tables, seat)[..., self._sequence[seat]]


def _stacked(tables: Tensor | Sequence[Tensor]) -> Tensor:
    return tables if isinstance(tables, Tensor) else torch.stack(tuple(tables))


def _layers(parent: Tensor, legal: Tensor) -> list[Tensor]:
    """Infosets by how often their seat has acted before: a layer needs those before it alone."""
    layers = [torch.nonzero(parent == 0).squeeze(-1)]
    above = torch.div(parent - 1, legal.shape[1], rounding_mode="floor")
    while len(layers[-1]):
        layers.append(torch.nonzero((parent > 0) & torch.isin(above, layers[-1])).squeeze(-1))
    return layers[:-1]
