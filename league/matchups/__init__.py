"""Rollouts of policies: distributions over matchups, batched policies, best responses and payoff tables."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.matchups.best_response import BestResponse, BestResponseTraining, LearnedResponse, train_best_response
    from league.matchups.episode_tally import EpisodeTally
    from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
    from league.matchups.matchups import MatchupResults, simulate_matchups
    from league.matchups.opponent_sampler import OpponentSampler
    from league.matchups.payoff_table import PayoffTable


__all__ = [
    "LEARNER",
    "BestResponse",
    "BestResponseTraining",
    "EpisodeTally",
    "LearnedResponse",
    "MatchupDistribution",
    "MatchupResults",
    "OpponentSampler",
    "PayoffTable",
    "simulate_matchups",
    "train_best_response",
]

__getattr__, __dir__ = lazy_exports(__name__)
