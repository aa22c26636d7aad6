"""Evaluation of meta-strategies: payoff tables, NashConv and exploitability."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.evaluation.approximate_exploitability import DeviationGain, ExploitabilityBound
    from league.evaluation.nash_conv import Evaluation
    from league.evaluation.payoff_filler import PayoffFiller, PayoffSamplingConfig
    from league.evaluation.tabular_game import TabularGame, is_tabular

_MODULES = {
    "DeviationGain": "league.evaluation.approximate_exploitability",
    "Evaluation": "league.evaluation.nash_conv",
    "ExploitabilityBound": "league.evaluation.approximate_exploitability",
    "PayoffFiller": "league.evaluation.payoff_filler",
    "PayoffSamplingConfig": "league.evaluation.payoff_filler",
    "TabularGame": "league.evaluation.tabular_game",
    "is_tabular": "league.evaluation.tabular_game",
}

__all__ = [
    "DeviationGain",
    "Evaluation",
    "ExploitabilityBound",
    "PayoffFiller",
    "PayoffSamplingConfig",
    "TabularGame",
    "is_tabular",
]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
