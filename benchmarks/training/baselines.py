"""Recorded results of other programs at equal steps, which are thresholds of training tasks, see docs/learning.md."""

import statistics
from collections.abc import Mapping
from typing import Any

PROGRAMS = ("jaxmarl", "jaxmarl_smax", "openspiel", "sb3")
"""First words of the names of baselines."""
SB3_ACTIONS = {"greedy": "most probable actions", "sampled": "sampled actions"}
"""Description by way of acting in the evaluation of Stable-Baselines3's policies."""


def baseline_of(bound: float | str | None) -> str | None:
    """Return the name of the baseline of a threshold; None if it is no baseline.

    The threshold is the name. The index of a seat may follow, as in "openspiel liars_dice 1". The measure of
    SMAX follows if it is not the win rate, as in "jaxmarl_smax qmix-2s3z return", and the group of agents of mpe2 or
    lbforaging, as in "sb3 simple_line_v1 agent".
    """
    if not isinstance(bound, str) or bound.partition(" ")[0] not in PROGRAMS:
        return None
    return " ".join(bound.split()[:2])


def bound_of(bound: str, results: Mapping[str, Any]) -> float:
    """Return the value of a threshold: the mean over seeds of the return of all agents or the seat, or the win rate.

    Stable-Baselines3's policies act in two ways; the better one counts.
    """
    result = results[str(baseline_of(bound))]
    if bound.startswith("jaxmarl_smax") and not bound.endswith(" return"):
        return statistics.fmean(result["win_rates"])
    if bound.startswith("openspiel") or "against" in result["task"]:
        return statistics.fmean(result["returns"][int(bound.split()[2])])
    if bound.startswith("sb3"):
        group = bound.split()[2]
        best = max(statistics.fmean(seed[group] for seed in result[way]) for way in SB3_ACTIONS)
        return round(best, 6)  # sums of float32 rewards exceed 1 by 1e-8
    return statistics.fmean(result["returns"]) * result["agents"]


def describe(name: str, result: Mapping[str, Any]) -> str:
    """Return a sentence with the returns of all seeds and the command."""
    if name.startswith("openspiel") or "against" in result["task"]:
        seats = "; ".join(
            f"seat {seat} {', '.join(f'{value:.3f}' for value in values)}"
            for seat, values in enumerate(result["returns"])
        )
        program = "OpenSpiel" if name.startswith("openspiel") else "JaxMARL"
        return f"{program}'s returns, {len(result['returns'][0])} seeds: {seats}, by `python {result['command']}`."
    if name.startswith("sb3"):
        ways = "; ".join(
            f"{words}: "
            + ", ".join(
                f"{group} {', '.join(f'{seed[group]:.3f}' for seed in result[way])}" for group in result[way][0]
            )
            for way, words in SB3_ACTIONS.items()
        )
        return f"Returns of PPO of Stable-Baselines3, {ways}; by `python {result['command']}`."
    if name.startswith("jaxmarl_smax"):
        rates, task = ", ".join(f"{rate:.3f}" for rate in result["win_rates"]), result["task"]
        returns = ", ".join(f"{mean * result['agents']:.2f}" for mean in result["returns"])
        count = len(result["win_rates"])
        about = f"{task['algorithm'].upper()} on {task['map']}, {count} seed{'s' * (count != 1)}"
        return (
            f"JaxMARL's win rates, {about}: {rates}; returns of all allies: {returns}; by `python {result['command']}`."
        )
    returns = ", ".join(f"{value:.2f}" for value in result["returns"])
    count = len(result["returns"])
    return f"JaxMARL's returns per agent, {count} seed{'s' * (count != 1)}: {returns}, by `python {result['command']}`."


def file_of(name: str) -> str:
    """Return the name of the record of a baseline."""
    return name.replace(" ", "-").replace("_", "-")
