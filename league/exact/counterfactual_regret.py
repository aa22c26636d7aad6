"""Equilibria of two-player zero-sum games on the whole tree, by counterfactual regret minimization (CFR+).

Source: Tammelin 2014, "Solving Large Imperfect Information Games Using CFR+" (arXiv 1407.5042). The seats update in
turn. Regrets are cut off at 0, and the average weights iteration t by t. Each information set minimizes the regret of
its own choices, so a game can be restricted by a set of allowed choices at every information set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.exact.game_tree import GameTree
from league.game import is_two_player_zero_sum

_CHECKED_EVERY = 20  # iterations between two computations of NashConv, which cost as much as one iteration


@dataclass(frozen=True)
class EquilibriumProfile:
    """An approximate Nash equilibrium of a two-player zero-sum game, possibly a restricted one."""

    profile: tuple[Tensor, Tensor]
    """Tables (I, C) float64 of both seats; uniform over the allowed choices where the seat itself does not play."""
    value: float
    """Return of the first seat."""
    nash_conv: float
    """NashConv among policies that use allowed choices only."""
    iterations: int
    """Number of iterations of CFR+."""


def solve_restricted_game(
    tree: GameTree, allowed: Sequence[Tensor] | None = None, *, tolerance: float = 1e-3, max_iterations: int = 100_000
) -> EquilibriumProfile:
    """Return an approximate Nash equilibrium of a game in which only some choices are allowed.

    Args:
        tree: Tree of a two-player zero-sum game.
        allowed: Allowed choices of each seat (I, C) bool, at least one per information set; None: all legal choices.
        tolerance: Largest NashConv of the result among policies that use allowed choices only.
        max_iterations: Number of iterations after which the search fails.

    Raises:
        ConfigError: The game is not two-player zero-sum, or an information set has no allowed choice or an illegal one.
        GpuEnvsError: NashConv is above the tolerance after `max_iterations`.
    """
    if not is_two_player_zero_sum(tree.game):
        raise ConfigError(f"CFR+: expected a two-player zero-sum game, got {tree.game.env_id}; use another game")
    sides = _sides(tree, tree.legal if allowed is None else allowed)
    payoffs, nash_conv = _payoffs(tree, sides), float("inf")
    for iteration in range(1, max_iterations + 1):
        for seat, side in enumerate(sides):
            side.update(payoffs[seat] @ sides[1 - seat].plan, iteration)
        if iteration % _CHECKED_EVERY and iteration < max_iterations:
            continue
        averages = [side.average / side.average[0] for side in sides]
        values = [payoffs[seat] @ averages[1 - seat] for seat in range(2)]
        nash_conv = sum(side.best(returns) for side, returns in zip(sides, values, strict=True))
        if nash_conv <= tolerance:
            tables = tuple(torch.from_numpy(side.table()) for side in sides)
            return EquilibriumProfile((tables[0], tables[1]), float(averages[0] @ values[0]), nash_conv, iteration)
    raise GpuEnvsError(
        f"CFR+: expected NashConv of at most {tolerance:g} within {max_iterations} iterations, got {nash_conv:g}; "
        "use a larger tolerance"
    )


class _Side:
    """Regrets, current policy and average policy of one seat."""

    def __init__(self, tree: GameTree, seat: int, allowed: np.ndarray) -> None:
        self.allowed, self.parent = allowed, tree.parent[seat].numpy()
        self.regret = np.zeros(allowed.shape)
        self.uniform = allowed / allowed.sum(1, keepdims=True)
        self.reachable = tree.plan(torch.from_numpy(self.uniform), seat).numpy() > 0
        self.layers = [rows for layer in tree.layers[seat] if len(rows := self._reached(layer.numpy()))]
        self.policy = self.uniform.copy()
        self.plan = np.zeros(len(self.reachable))
        self.average = np.zeros(len(self.reachable))
        self._set_plan()

    def _reached(self, rows: np.ndarray) -> np.ndarray:
        """Return the information sets among `rows` that the seat can reach with allowed choices."""
        return rows[self.reachable[self.parent[rows]]]

    def update(self, returns: np.ndarray, weight: float) -> None:
        """Update regrets and policy, and add the policy to the average.

        Args:
            returns: Returns of the leaves by sequence (1 + I C,), weighted by chance and the opponent; overwritten.
            weight: Weight of the policy in the average.
        """
        options = returns[1:].reshape(self.allowed.shape)
        for rows in reversed(self.layers):
            values = (self.policy[rows] * options[rows]).sum(1)
            regret = np.where(self.allowed[rows], self.regret[rows] + options[rows] - values[:, None], 0.0)
            self.regret[rows] = regret = np.maximum(regret, 0.0)
            total = regret.sum(1, keepdims=True)
            self.policy[rows] = np.divide(regret, total, out=self.uniform[rows], where=total > 0)
            np.add.at(returns, self.parent[rows], values)
        self._set_plan()
        self.average += weight * self.plan

    def _set_plan(self) -> None:
        """Compute the realization plan of the current policy."""
        self.plan[0] = 1.0
        below = self.plan[1:].reshape(self.allowed.shape)
        for rows in self.layers:
            below[rows] = self.plan[self.parent[rows], None] * self.policy[rows]

    def best(self, returns: np.ndarray) -> float:
        """Return the return of a best response with allowed choices; `returns` is as in `update`, and kept."""
        returns = returns.copy()
        options = returns[1:].reshape(self.allowed.shape)
        for rows in reversed(self.layers):
            np.add.at(returns, self.parent[rows], np.where(self.allowed[rows], options[rows], -np.inf).max(1))
        return float(returns[0])

    def table(self) -> np.ndarray:
        """Return the average policy (I, C)."""
        mass = self.average[1:].reshape(self.allowed.shape)
        total = mass.sum(1, keepdims=True)
        return np.divide(mass, total, out=self.uniform.copy(), where=total > 0)


def _sides(tree: GameTree, allowed: Sequence[Tensor]) -> list[_Side]:
    for seat, (mask, legal) in enumerate(zip(allowed, tree.legal, strict=True)):
        if mask.shape != legal.shape or (mask & ~legal).any() or not mask.any(1).all():
            raise ConfigError(
                f"allowed: seat {seat}: expected at least one legal choice and no illegal one per information set, "
                f"{tuple(legal.shape)} bool, got another mask {tuple(mask.shape)}"
            )
    return [_Side(tree, seat, mask.numpy()) for seat, mask in enumerate(allowed)]


def _payoffs(tree: GameTree, sides: Sequence[_Side]) -> list[sparse.csr_array]:
    """Return the payoffs of each seat by its own and the opponent's sequence, weighted by chance."""
    rows, columns = (sequence.numpy() for sequence in tree.sequence)
    used = sides[0].reachable[rows] & sides[1].reachable[columns]
    shape = (len(sides[0].plan), len(sides[1].plan))
    first, second = (
        sparse.coo_array((stake.numpy()[used], (rows[used], columns[used])), shape) for stake in tree.stakes
    )
    return [first.tocsr(), second.T.tocsr()]
