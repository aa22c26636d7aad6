"""Rectified PSRO: best responses to the opponents that a policy does not lose to."""

from __future__ import annotations

from gpu_envs.errors import ConfigError
from league.game import Game, require_two_player_zero_sum
from league.psro.best_response_task import BestResponseTask
from league.psro.config import PSROConfig
from league.psro.context import PSROContext
from league.psro.variants.standard import StandardVariant
from league.solvers import MetaStrategy

__all__ = ["SUPPORT", "RectifiedVariant"]

SUPPORT = 1e-3
"""Smallest probability of a policy in the support of a meta-strategy; solvers leave smaller rests."""


class RectifiedVariant(StandardVariant):
    """PSRO-rN: one response per policy of the support, to the opponents that this policy does not lose to.

    Source: Balduzzi et al. 2019, "Open-ended learning in symmetric zero-sum games", algorithm 4.
    """

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant; raise ConfigError if the game is not two-player zero-sum with a shared population."""
        super().__init__(game, config)
        require_two_player_zero_sum(game, "rectified")
        if not game.shared:
            raise ConfigError(
                f"variant='rectified': {game.env_id}: expected one population for both seats, "
                f"got roles {', '.join(game.roles)}; share it, or use variant='standard'"
            )

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration, in the order of the policies."""
        strategy, table, (role,) = context.opponents.marginals[0], context.meta_game()[0], self.game.roles
        tasks: list[BestResponseTask] = []
        for index in (strategy > SUPPORT).nonzero().flatten().tolist():
            weights = strategy * (table[index, : len(strategy)] >= -1e-9)
            if weights.sum() > 0:
                opponents = MetaStrategy((weights / weights.sum(),) * 2)
                tasks.append(BestResponseTask(context.iteration, role, len(tasks), opponents, parent=index))
        return tasks
