"""Exact solutions of small games: game trees, equilibria, and policies as tables."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.exact.counterfactual_regret import EquilibriumProfile, solve_restricted_game
    from league.exact.game_tree import GameTree, Profile
    from league.exact.tabulation import table_policy, tabulate
    from league.policies.tabular import TablePolicy

__all__ = [
    "EquilibriumProfile",
    "GameTree",
    "Profile",
    "TablePolicy",
    "solve_restricted_game",
    "table_policy",
    "tabulate",
]

_MODULES = {
    "EquilibriumProfile": "league.exact.counterfactual_regret",
    "GameTree": "league.exact.game_tree",
    "Profile": "league.exact.game_tree",
    "TablePolicy": "league.policies.tabular",
    "solve_restricted_game": "league.exact.counterfactual_regret",
    "table_policy": "league.exact.tabulation",
    "tabulate": "league.exact.tabulation",
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
