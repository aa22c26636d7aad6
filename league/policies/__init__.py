"""Policies of a league other than networks (random, tabular, mixtures, teams), and populations of policies."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from league.policies.kinds import KINDS, StorablePolicy
    from league.policies.mixture import MixturePolicy
    from league.policies.population import PolicyRecord, Population
    from league.policies.random import RandomPolicy
    from league.policies.tabular import TablePolicy
    from league.policies.team import TeamPolicy


__all__ = [
    "KINDS",
    "MixturePolicy",
    "PolicyRecord",
    "Population",
    "RandomPolicy",
    "StorablePolicy",
    "TablePolicy",
    "TeamPolicy",
]

__getattr__, __dir__ = lazy_exports(__name__)
