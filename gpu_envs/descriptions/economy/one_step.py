"""Observations, actions and rewards of OneStepEconomy-v0."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ANY, ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.economy.one_step import Config
from warp_kernels.economy.one_step import HOURS

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Worker": ("worker_0", {}),
    "Planner": ("planner_0", {}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("worker", "every step", "change of its utility"),
    RewardTerm("planner", "every step", "change of the social welfare"),
)


def action_tables() -> list[Table]:
    """Return the action tables."""
    hours = tuple((index, name) for index, name in enumerate(action_names(Config(), 0)[0]) if index in (0, 1, 2, HOURS))
    rates = tuple((index, name) for index, name in enumerate(action_names(Config(), Config().n_agents)[0]))
    return [
        Table(
            f"Worker: `MultiDiscrete([{HOURS + 1}])`, and so on for every number of hours", ("index", "action"), hours
        ),
        Table("Planner: `MultiDiscrete([22] * 7)` with default settings, in every bracket", ("index", "action"), rates),
    ]


def action_names(config: Config, row: int) -> Sequence[Sequence[str]]:
    """Return the names of the choices of every component of the agent in this row."""
    if row < config.n_agents:
        return [["keep the labor", *(f"work {hours} h" for hours in range(1, HOURS + 1))]]
    if not config.chooses:
        return [["nothing"]]
    return [["keep the rate", *(f"rate {100 * rate:.4g} %" for rate in config.rates)]] * len(config.cutoffs)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    workers, cutoffs, chooses = config.n_agents, config.cutoffs.astype(np.float32), config.chooses

    def rates(world: World) -> np.ndarray:
        if chooses:
            return world.state["rate"][world.state["rate_index"]]
        return np.minimum(world.state["rate"], world.params["tax_limit"] * world.params["rate_max"])

    def marginal(world: World, worker: int) -> float:
        if config.saez and world.state["fresh"]:
            return float(min(world.state["average_rates"][0], world.params["tax_limit"] * world.params["rate_max"]))
        return float(rates(world)[np.searchsorted(cutoffs, world.state["income"][worker], side="right") - 1])

    def equality(world: World) -> float:
        coin = world.state["coin"].astype(float)
        if workers < 30:
            gini = np.abs(coin[:, None] - coin).sum() / (2 * workers * coin.sum() + 1e-10) / ((workers - 1) / workers)
            return 1.0 - gini
        return 2.0 / (workers + 1) * np.cumsum(np.sort(coin)).sum() / (coin.sum() + 1e-10)

    def block(meaning: str, unit: str, high: float, read: Callable[[World, int], Any], width: int = 1, parts=()):
        return ObservationBlock(meaning, unit, 0, high, read, width, parts)

    brackets = tuple(f"{cutoff:g} coin" for cutoff in cutoffs)
    order = tuple(f"rank {rank}" for rank in range(workers))
    system = [
        block("rate of the bracket from this income on", "", 1, lambda world, _: rates(world), len(cutoffs), brackets),
        block("1 in the first step of a tax period", "", 1, lambda world, _: world.state["period_step"] == 0),
        block("1 in its last step", "", 1, lambda world, _: world.state["period_step"] + 1 >= config.period),
        block(
            "incomes of the last period per step, ascending",
            "coin",
            ANY,
            lambda world, _: np.sort(world.state["last_income"]) / config.period,
            workers,
            order,
        ),
    ]
    phase = block(
        "step of the tax period / `period`", "", 1, lambda world, _: (world.state["period_step"] + 1) / config.period
    )
    time = block("time", "`episode_length`", 1, lambda world, _: world.time)
    if row < workers:
        skill = block(
            "own skill / `payment_max_skill_multiplier`",
            "coin/h",
            ANY,
            lambda world, row: world.state["skill"][row] / world.params["payment_max_skill_multiplier"],
        )
        return [*system, block("own marginal rate", "", 1, marginal), phase, skill, time]
    return [
        *system,
        phase,
        time,
        block("equality of coin: 1 - Gini index", "", 1, lambda world, _: equality(world)),
        block("mean coin / 1000", "coin", ANY, lambda world, _: world.state["coin"].mean() / 1000.0),
        block(
            "of each worker: its marginal rate, its income of the last period per step, and the marginal rate on that",
            "",
            ANY,
            lambda world, _: np.stack(
                [
                    [marginal(world, worker) for worker in range(workers)],
                    world.state["last_income"] / config.period,
                    world.state["last_marginal_rate"],
                ],
                1,
            ).ravel(),
            3 * workers,
            ("marginal rate", "income", "rate on it"),
        ),
    ]
