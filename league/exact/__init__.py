"""Exact solutions of small games: game trees, and policies as tables."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.exact.game_tree import GameTree, Profile
    from league.exact.tabulation import table_policy, tabulate
    from league.policies.tabular import TablePolicy

__all__ = ["GameTree", "Profile", "TablePolicy", "table_policy", "tabulate"]

_MODULES = {
    "GameTree": "league.exact.game_tree",
    "Profile": "league.exact.game_tree",
    "TablePolicy": "league.policies.tabular",
    "table_policy": "league.exact.tabulation",
    "tabulate": "league.exact.tabulation",
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
