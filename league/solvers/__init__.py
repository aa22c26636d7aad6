"""Meta-solvers: payoffs of a meta-game in, how often each policy is to be met out. Pure functions, float64.

The iterative ones run where the payoffs are, linear programmes on the host.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from gpu_envs.errors import ConfigError
from league.game import Game
from league.solvers.arrays import MetaStrategy, checked, deviations, nash_gap, product, uniform
from league.solvers.correlated import cce, ce
from league.solvers.dynamics import prd, replicator
from league.solvers.evolution import alpharank
from league.solvers.learning import fictitious_play, multiplicative_weights, regret_matching
from league.solvers.minimax import max_entropy_nash, nash

SOLVERS: dict[str, Callable[..., MetaStrategy]] = {
    "uniform": uniform,
    "fictitious_play": fictitious_play,
    "regret_matching": regret_matching,
    "multiplicative_weights": multiplicative_weights,
    "replicator": replicator,
    "prd": prd,
    "nash": nash,
    "max_entropy_nash": max_entropy_nash,
    "alpharank": alpharank,
    "ce": ce,
    "cce": cce,
}
"""By name; sources are with the functions."""

__all__ = ["SOLVERS", "MetaStrategy", "by_role", "checked", "deviations", "nash_gap", "product", "solve"]


def solve(name: str, payoffs: Tensor, **settings: Any) -> MetaStrategy:
    """A meta-strategy by the name of its solver.

    Args:
        name: One of `SOLVERS`.
        payoffs: (S, N_1, ..., N_S): what seat s earns at [s] where policy i_t sits on seat t. Any device.
        **settings: Of the solver, see its function.

    Returns:
        Distributions, on the payoffs' device.

    Raises:
        ConfigError: No such solver or setting; payoffs of another shape, or with NaN; a game that it cannot take.
    """
    if name not in SOLVERS:
        close = difflib.get_close_matches(name, SOLVERS, 1)
        hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(SOLVERS)}"
        raise ConfigError(f"no meta-solver {name!r}; {hint}")
    known = list(inspect.signature(SOLVERS[name]).parameters)[1:]
    for setting in settings:
        if setting not in known:
            raise ConfigError(f"{name}: no setting {setting!r}; it takes {', '.join(known) or 'none'}")
    return SOLVERS[name](checked(payoffs), **settings)


def by_role(strategy: MetaStrategy, game: Game) -> dict[str, Tensor]:
    """How often each policy of a role is to be met, (N,) per role: the mean over the seats of the role.

    In a symmetric zero-sum game the mean of the seats' equilibrium strategies is again an equilibrium.

    Raises:
        ConfigError: Seats of the game and of the strategy differ in number, or those of one role in policies.
    """
    if len(strategy.marginals) != len(game.seats):
        raise ConfigError(
            f"{game.env_id}: expected a meta-strategy for {len(game.seats)} seats, got {len(strategy.marginals)}"
        )
    roles = {}
    for role in game.roles:
        marginals = [strategy.marginals[seat] for seat in game.seats_of(role)]
        sizes = {len(each) for each in marginals}
        if len(sizes) > 1:
            raise ConfigError(f"{game.env_id}: seats of role {role} have {sorted(sizes)} policies, expected one number")
        roles[role] = sum(marginals[1:], marginals[0]) / len(marginals)
    return roles
