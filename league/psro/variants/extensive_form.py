"""XDO: best responses are mixed at every information set instead of at the start of an episode.

Source: McAleer et al. 2021, "XDO: A Double Oracle Algorithm for Extensive-Form Games" (arXiv 2103.06426). The choices
of the best responses at an information set define a restricted game. Its equilibrium is a policy whose support is any
combination of these choices, while PSRO only mixes whole policies. The number of iterations is therefore at most linear
in the number of information sets, where PSRO may need exponentially many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.exact.counterfactual_regret import solve_restricted_game
from league.game import Game, require_two_player_zero_sum
from league.psro.config import PSROConfig
from league.psro.variants.standard import StandardVariant
from league.psro.work import NewPolicy, PSROContext, StoreUpdate, Work
from league.solvers import MetaStrategy


class ExtensiveFormVariant(StandardVariant):
    """XDO: two policies per role and iteration, a best response and the equilibrium of the restricted game.

    All probability of the meta-strategy is on the latest equilibrium, to which the next best responses respond.
    """

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant; raise ConfigError if the game is not two-player zero-sum, or responses are learned."""
        super().__init__(game, config)
        require_two_player_zero_sum(game, "xdo")
        if not config.has_exact_responses:
            raise ConfigError(
                f"variant='xdo': expected oracle='exact', got {config.oracle!r}; the restricted game needs the tree of "
                "a small game, use variant='standard' with learned responses"
            )

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work]]:
        """Yield the best responses, then the equilibrium of the restricted game with them."""
        yield self.tasks(context)
        step = f"{context.iteration}/restricted"
        if context.store.done(step):
            yield [StoreUpdate(step, plan_payoffs=True)]
        else:
            yield [self._equilibrium(context, step)]

    def meta_strategy(self, context: PSROContext, payoffs: Tensor) -> MetaStrategy:
        """Return the strategy that plays the latest policy of each population with probability 1."""
        weights = [torch.zeros(size, dtype=torch.float64) for size in payoffs.shape[1:]]
        for weight in weights:
            weight[-1] = 1.0
        return MetaStrategy(tuple(weights))

    def _equilibrium(self, context: PSROContext, step: str) -> StoreUpdate:
        """Return the update that adds the equilibrium of the restricted game to the populations."""
        tabular = context.require_tabular()
        allowed = [_choices(context, seat) for seat in range(len(self.game.seats))]
        solution = solve_restricted_game(tabular.tree, allowed, tolerance=self.config.restricted_tolerance)
        policies = [
            NewPolicy(role, tabular.policy(role, [solution.profile[seat] for seat in self.game.seats_of(role)]))
            for role in self.game.roles
        ]
        sizes = [int(mask.sum()) for mask in allowed]
        result = {"choices": sizes, "nash_conv": solution.nash_conv, "iterations": solution.iterations}
        return StoreUpdate(step, policies, result=result, plan_payoffs=True)


def _choices(context: PSROContext, seat: int) -> Tensor:
    """Return the choices of all best responses of a seat (I, C) bool.

    Equilibria of earlier iterations only use these choices. The random policy of the start is no best response.
    """
    tabular = context.require_tabular()
    tables = tabular.tabulate_all(context.populations)[seat]
    entries = context.populations[context.game.seats[seat].role].entries
    used = [table > 0 for table, entry in zip(tables, entries, strict=True) if entry.kind != "random"]
    return torch.stack(used).any(0)
