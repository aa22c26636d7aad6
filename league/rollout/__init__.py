"""Rollouts of policies: distributions over matchups, batched policies, best responses and payoff tables."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.rollout.best_response import BestResponse, BestResponseTraining, LearnedResponse, train_best_response
    from league.rollout.episode_tally import EpisodeTally
    from league.rollout.matchup_distribution import LEARNER, MatchupDistribution
    from league.rollout.matchups import MatchupResults, simulate_matchups
    from league.rollout.opponent_sampler import OpponentSampler
    from league.rollout.payoff_table import PayoffTable
    from league.rollout.seat_policies import SeatPolicies

_MODULES = {
    "BestResponse": "league.rollout.best_response",
    "BestResponseTraining": "league.rollout.best_response",
    "EpisodeTally": "league.rollout.episode_tally",
    "LEARNER": "league.rollout.matchup_distribution",
    "LearnedResponse": "league.rollout.best_response",
    "MatchupDistribution": "league.rollout.matchup_distribution",
    "MatchupResults": "league.rollout.matchups",
    "OpponentSampler": "league.rollout.opponent_sampler",
    "PayoffTable": "league.rollout.payoff_table",
    "SeatPolicies": "league.rollout.seat_policies",
    "simulate_matchups": "league.rollout.matchups",
    "train_best_response": "league.rollout.best_response",
}

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
    "SeatPolicies",
    "simulate_matchups",
    "train_best_response",
]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
