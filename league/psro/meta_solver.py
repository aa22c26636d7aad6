"""The meta-solver of a run: its choice, its settings, and equal strategies for seats that share a population."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league import solvers
from league.game import Game
from league.psro.config import DEFAULTS, PSROConfig
from league.solvers import MetaStrategy

__all__ = ["MetaSolver"]


class MetaSolver:
    """A solver of `league.solvers` with the settings of a run."""

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Choose the solver; raise ConfigError if it does not fit the game, or one of its settings is invalid."""
        self.game: Game = game
        self.name: str = _solver_name(game, config.meta_solver)
        self.settings: dict[str, Any] = config.meta_solver_kwargs or DEFAULTS.get(self.name, {})
        self._check_settings()

    def _check_settings(self) -> None:
        """Solve a meta-game with one policy per seat, since solvers check their settings when they run."""
        num_seats = len(self.game.seats)
        self.solve(torch.zeros((num_seats, *[1] * num_seats)))

    def solve(self, meta_game: Tensor) -> MetaStrategy:
        """Return the meta-strategy of payoffs (S, N_1, ..., N_S).

        With a shared population all seats have the same marginal, and a joint distribution is the mean over all orders
        of the seats.
        """
        strategy = solvers.solve(self.name, meta_game, **self.settings)
        if not self.game.shared:
            return strategy
        marginal = self.game.marginals_by_role(strategy.marginals)[self.game.roles[0]]
        joint = strategy.joint
        if joint is not None:
            orders = list(permutations(range(joint.dim())))
            joint = torch.stack([joint.permute(order) for order in orders]).mean(0)
        return MetaStrategy((marginal,) * len(self.game.seats), joint)


def _solver_name(game: Game, name: str) -> str:
    """Return the name of the solver; raise ConfigError if it does not fit the game."""
    if name == "auto":
        return "nash" if game.zero_sum and len(game.seats) == 2 else "prd"
    if name in ("nash", "max_entropy_nash") and not game.zero_sum and len(game.seats) == 2:
        raise ConfigError(
            f"meta_solver={name!r}: expected a zero-sum game, got {game.env_id}, which is not declared zero-sum; "
            "use prd, alpharank or cce"
        )
    return name
