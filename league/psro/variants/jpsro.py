"""JPSRO: best responses to correlated equilibria.

Source: Marris et al. 2021, "Multi-agent training beyond zero-sum with correlated equilibrium meta-solvers" (arXiv
2106.09435), algorithm 1. In a coarse correlated equilibrium (cce), a seat deviates before a profile is sampled, and
has one best response to the joint distribution of the other seats. In a correlated equilibrium (ce), a seat deviates
after a policy is recommended to it. The recommendation carries information about the other seats, so there is one best
response per recommended policy, to the joint distribution conditional on it.
"""

from __future__ import annotations

import torch

from league.psro.best_response_task import BestResponseTask
from league.psro.context import PSROContext

__all__ = ["SMALLEST_GAIN", "SUPPORT", "jpsro_tasks"]

SUPPORT = 1e-3
"""Smallest probability of a recommendation with a learned response; solvers leave smaller rests."""
SMALLEST_GAIN = 1e-7
"""Smallest gain of an exact response, weighted by the probability of its recommendation; smaller ones are rounding."""


def jpsro_tasks(context: PSROContext) -> list[BestResponseTask]:
    """Return the best responses to the joint meta-strategy of ce or cce, by role.

    With ce, a role has at most `max_recommendations` of them. Exact responses that gain nothing, or that are already in
    the population, are left out, so that a role may have none.
    """
    config, tasks = context.config, list[BestResponseTask]()
    for role in context.game.roles:
        if config.oracle == "exact":
            recommended = _with_gain(context, role)
        else:
            recommended = _most_probable(context, role) if config.meta_solver == "ce" else [None]
        for number, index in enumerate(recommended[: config.max_recommendations]):
            task = BestResponseTask(
                context.iteration, role, number, context.opponents, recommendation=index, parent=index
            )
            tasks.append(task)
    return tasks


def _most_probable(context: PSROContext, role: str) -> list[int]:
    """Return the recommendations in the support of the meta-strategy, the most probable first."""
    marginal = context.opponents.marginals[context.game.seats_of(role)[0]]
    order = marginal.argsort(descending=True, stable=True).tolist()
    return [order[0], *(index for index in order[1:] if float(marginal[index]) > SUPPORT)]


def _with_gain(context: PSROContext, role: str) -> list[int | None]:
    """Return the recommendations with new responses that gain, the largest gain first; with cce, None stands for all.

    Only policies from before this iteration count as known, so that a resumed run finds the same recommendations.
    """
    tabular, joint, seats = context.require_tabular(), context.opponents.joint, context.game.seats_of(role)
    assert joint is not None
    tables = tabular.tabulate_all(context.populations)
    responses = [[tables[seat][index] for seat in seats] for index in range(joint.shape[seats[0]])]
    recommended = context.config.meta_solver == "ce"
    by_seat = [tabular.deviation_gains(context.populations, joint, seat, recommended) for seat in seats]
    gains = {index: sum(gain_of[index].gain for gain_of in by_seat) for index in by_seat[0]}
    chosen: list[int | None] = []
    for index in sorted(gains, key=lambda index: -gains[index]):
        response = [gain_of[index].table for gain_of in by_seat]
        is_known = any(all(map(torch.equal, response, earlier)) for earlier in responses)
        if gains[index] > SMALLEST_GAIN and not is_known:
            chosen.append(index)
            responses.append(response)
    return chosen
