"""Meta-solvers: pure functions from the payoffs of a meta-game to a meta-strategy, in float64.

Iterative solvers run on the device of the payoffs, linear programs on the host. A function of your own, named by
"module:NAME", returns a `MetaStrategy` or one distribution per seat.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message
from league.solvers.alpha_rank import alpharank
from league.solvers.correlated_equilibrium import cce, ce
from league.solvers.meta_strategy import (
    MetaStrategy,
    checked,
    checked_strategy,
    deviations,
    nash_gap,
    product,
    uniform,
)
from league.solvers.nash import max_entropy_nash, nash
from league.solvers.no_regret import fictitious_play, multiplicative_weights, regret_matching
from league.solvers.replicator import prd, replicator

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
"""Solvers by name; the source paper of each is in its docstring."""

__all__ = ["SOLVERS", "MetaStrategy", "checked", "deviations", "nash_gap", "product", "solve"]


def solve(name: str, payoffs: Tensor, **settings: Any) -> MetaStrategy:
    """Return the meta-strategy of a solver.

    Args:
        name: Name in `SOLVERS`, or "module:NAME", a function of a module that is imported already.
        payoffs: (S, N_1, ..., N_S) on any device; entry [s, i_1, ..., i_S] is the payoff of seat s.
        **settings: Arguments of the solver, see its function.

    Returns:
        The meta-strategy, on the device of the payoffs.

    Raises:
        ConfigError: The solver or an argument is unknown, payoffs have another shape or NaN, the solver does not
            support the game, or a function of "module:NAME" returns no meta-strategy.
    """
    if ":" not in name and name not in SOLVERS:
        raise ConfigError(unknown_name_message("meta-solver", name, SOLVERS))
    solver = SOLVERS.get(name) or named_object("meta-solver", name, ["payoffs"])
    names = list(inspect.signature(solver).parameters)[1:]
    for setting in settings:
        if setting not in names:
            raise ConfigError(f"{name}: no setting {setting!r}; it takes {', '.join(names) or 'none'}")
    payoffs = checked(payoffs)
    strategy = solver(payoffs, **settings)
    return strategy if name in SOLVERS else checked_strategy(name, strategy, payoffs)
