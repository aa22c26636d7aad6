"""Exact values, best responses and mixtures on the whole tree of a small game.

The tree is stored in sequence form (von Stengel 1996, "Efficient computation of behavior strategies"; Koller, Megiddo
and von Stengel 1996). With perfect recall, the last action of a seat before a leaf determines all its actions on the
path, its sequence. A table of behavior becomes a realization plan: the probabilities of the seat's sequences if chance
and all other seats play towards them. The probability of a leaf is the product of chance and the seats' plans.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from league.exact.enumeration import enumerate_tree
from league.game import Game

Profile = Sequence[Tensor]
"""A table for every seat: probabilities of the choices (I, C) float64, 0 for illegal ones."""


class GameTree:
    """The tree of a game. All tensors are on the CPU; numbers are float64.

    Attributes:
        game: The game.
        observations: Observations of each seat at its information sets (I, D) float32, in the order of the steps.
        legal: Legal choices of each seat (I, C) bool.
        parent: Sequence of each seat before its information sets (I,) int64, see `PlayerTree.parent`.
        layers: Information sets of each seat by the number of its earlier actions, (N,) int64 each.
        sequence: Last sequence of each seat at the leaves (Z,) int64.
        stakes: Returns of the seats at the leaves, times the probability of chance (S, Z).
    """

    def __init__(self, game: Game) -> None:
        """Enumerate the tree of a game; raise ConfigError as `league.exact.enumeration.enumerate_tree`."""
        sides, *leaves = enumerate_tree(game)
        sequence, chance, returns = map(torch.from_numpy, leaves)
        self.game = game
        self.observations: tuple[Tensor, ...] = tuple(torch.from_numpy(side.observations) for side in sides)
        self.legal: tuple[Tensor, ...] = tuple(torch.from_numpy(side.legal) for side in sides)
        self.parent: tuple[Tensor, ...] = tuple(torch.from_numpy(side.parent) for side in sides)
        self.layers: tuple[list[Tensor], ...] = tuple(
            _layers(*arrays) for arrays in zip(self.parent, self.legal, strict=True)
        )
        self.sequence: tuple[Tensor, ...] = tuple(sequence.T.contiguous())
        self.stakes: Tensor = (returns * chance[:, None]).T.contiguous()  # (S, Z)

    def uniform(self, seat: int) -> Tensor:
        """Return the uniform table over legal choices (I, C)."""
        legal = self.legal[seat].double()
        return legal / legal.sum(-1, keepdim=True)

    def plan(self, tables: Tensor, seat: int) -> Tensor:
        """Return the realization plans (..., 1 + I C) of tables (..., I, C) of a seat."""
        tables, choices = tables.double(), tables.shape[-1]
        plan = tables.new_ones((*tables.shape[:-2], 1 + tables.shape[-2] * choices))
        below = plan[..., 1:].unflatten(-1, tables.shape[-2:])
        for rows in self.layers[seat]:
            below[..., rows, :] = plan[..., self.parent[seat][rows], None] * tables[..., rows, :]
        return plan

    def values(self, profile: Profile) -> Tensor:
        """Return the expected returns of the seats (S,)."""
        return self.payoffs([table.unsqueeze(0) for table in profile]).flatten()

    def payoffs(self, tables: Sequence[Tensor | Sequence[Tensor]]) -> Tensor:
        """Return the expected returns of the seats in every matchup.

        Args:
            tables: Policies of each seat: N_s tables, or (N_s, I, C).

        Returns:
            (S, N_1, ..., N_S).
        """
        reach = [self._reach(_stacked(plan), seat) for seat, plan in enumerate(tables)]
        cells = self.stakes  # (S, ..., Z), with one more axis for every seat but the last
        for plan in reach[:-1]:
            cells = cells[..., None, :] * plan
        return cells @ reach[-1].T

    def best_response(self, profile: Profile, seat: int, tie: float = 0.0) -> tuple[Tensor, float]:
        """Return a pure best response (I, C) of a seat to the other tables of a profile, and its return.

        Ties go to the lowest action index, also at unreachable information sets. By default only equal floats tie, as
        in OpenSpiel 2.0.2, so that rounding can separate actions of equal value. PSRO with the uniform meta-strategy
        depends on this in Kuhn poker from iteration 5. A `tie` of 1e-12 removes the effect of rounding, and then
        results differ from OpenSpiel's. All sums have a fixed order, so that rounding is equal on every CPU.

        Args:
            profile: Tables of all seats; the seat's own is ignored.
            seat: Seat of the response.
            tie: Largest difference to the best value of a tie. Values are weighted by the probability that chance and
                the other seats play towards the information set.
        """
        return self.best_against(self.against(profile, seat), seat, tie)

    def against(self, profile: Profile, seat: int) -> Tensor:
        """Return the seat's returns of the leaves (Z,), weighted by chance and the other tables of a profile."""
        weight = self.stakes[seat].clone()
        for other, table in enumerate(profile):
            if other != seat:
                weight *= self._reach(table, other)
        return weight

    def best_against(self, weight: Tensor, seat: int, tie: float = 0.0) -> tuple[Tensor, float]:
        """Return `best_response` for weighted returns (Z,); sums of `against` stand for correlated opponents."""
        legal, parent = self.legal[seat], self.parent[seat]
        returns = weight.new_zeros(1 + legal.numel()).index_add_(0, self.sequence[seat], weight)
        table = torch.zeros_like(legal, dtype=weight.dtype)
        for rows in reversed(self.layers[seat]):
            options = returns[1:].view(legal.shape)[rows].masked_fill(~legal[rows], -torch.inf)
            best = options.amax(-1, keepdim=True)
            action = (options >= best - tie).byte().argmax(-1, keepdim=True)  # the first of the largest
            table[rows] = table[rows].scatter_(-1, action, 1.0)
            returns.index_add_(0, parent[rows], options.gather(-1, action).squeeze(-1))
        return table, float(returns[0])

    def nash_conv(self, profile: Profile) -> float:
        """Return the sum over seats of the gain by a unilateral best response; 0 at a Nash equilibrium."""
        best = sum(self.best_response(profile, seat)[1] for seat in range(len(profile)))
        return best - float(self.values(profile).sum())

    def mix(self, tables: Tensor | Sequence[Tensor], weights: Tensor, seat: int) -> Tensor:
        """Return the table equivalent to a mixture that samples one of N tables, with weights (N,), in every episode.

        At an information set, tables are weighted by their own probability to play towards it (Kuhn's theorem). Where
        all of these are 0, the choices are uniform, as in OpenSpiel's policy_aggregator.
        """
        plan = torch.zeros(1 + self.legal[seat].numel(), dtype=torch.float64)
        for weighted in weights.double().unsqueeze(-1) * self.plan(_stacked(tables), seat):
            plan += weighted  # in order, see `best_response`
        mass = plan[1:].view(self.legal[seat].shape)
        total = mass.sum(-1, keepdim=True)
        return torch.where(total > 0, mass / total, self.uniform(seat))

    def _reach(self, tables: Tensor, seat: int) -> Tensor:
        """Return the factors of a seat in the probabilities of the leaves (..., Z)."""
        return self.plan(tables, seat)[..., self.sequence[seat]]


def _stacked(tables: Tensor | Sequence[Tensor]) -> Tensor:
    return tables if isinstance(tables, Tensor) else torch.stack(tuple(tables))


def _layers(parent: Tensor, legal: Tensor) -> list[Tensor]:
    """Return information sets by the number of earlier actions of their seat."""
    layers = [torch.nonzero(parent == 0).squeeze(-1)]
    above = torch.div(parent - 1, legal.shape[1], rounding_mode="floor")
    while len(layers[-1]):
        layers.append(torch.nonzero((parent > 0) & torch.isin(above, layers[-1])).squeeze(-1))
    return layers[:-1]
