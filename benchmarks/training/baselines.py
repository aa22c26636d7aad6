"""Baselines of other programs, run here at equal steps: thresholds of training tasks."""

import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.hardware import provenance

__all__ = ["BASELINES", "PROGRAMS", "baseline_of", "bound_of", "describe", "file_of", "run"]

PROGRAMS: dict[str, tuple[str, str]] = {
    "jaxmarl": ("benchmarks.peers.inside.jaxmarl_learning", "out/peers/jaxmarl/bin/python"),
    "jaxmarl_smax": ("benchmarks.peers.inside.jaxmarl_baselines", "out/peers/jaxmarl/bin/python"),
    "openspiel": ("benchmarks.peers.openspiel_dqn", sys.executable),
    "sb3": ("benchmarks.peers.sb3_learning", "out/peers/sb3/bin/python"),
}
"""Module and interpreter by the first word of a baseline's name."""
SMAX_STEPS = {
    ("mappo", "2s3z"): 1_000_000,
    ("mappo", "5m_vs_6m"): 1_000_000,
    ("qmix", "2s3z"): 500_000,
    ("qmix", "5m_vs_6m"): 250_000,
}
"""Steps of trainings on SMAX by both libraries, by algorithm and map. JaxMARL plays whole updates, up to 2,048 steps
fewer for QMIX and 16,384 for MAPPO. QMIX has fewer steps, because JaxMARL's takes hours on two cores."""
BASELINES: dict[str, dict[str, Any]] = {
    "jaxmarl": {"game": "MPE_simple_spread_v3", "worlds": 16, "steps": 1_000_000, "seeds": 3, "rate": 2.5e-3},
    "jaxmarl overcooked": {"game": "overcooked", "worlds": 16, "steps": 1_000_000, "seeds": 3, "rate": 2.5e-4},
    "jaxmarl hanabi": {"game": "hanabi", "worlds": 64, "steps": 1_000_000, "seeds": 1, "rate": 5e-4},
    "jaxmarl hanabi-small": {
        "game": "hanabi",
        "worlds": 64,
        "steps": 1_000_000,
        "seeds": 1,
        "rate": 5e-4,
        "options": {"num_colors": 2, "hand_size": 2, "max_info_tokens": 3, "max_life_tokens": 1},
    },
    "jaxmarl riddle": {"game": "switch_riddle", "worlds": 64, "steps": 1_500_000, "seeds": 3, "rate": 2.5e-4},
    "jaxmarl coins": {
        "game": "coin_game",
        "worlds": 64,
        "steps": 1_000_000,
        "seeds": 3,
        "rate": 2.5e-4,
        "against": "random",
    },
    "jaxmarl coins-shared": {
        "game": "coin_game",
        "worlds": 64,
        "steps": 1_000_000,
        "seeds": 3,
        "rate": 2.5e-4,
        "options": {"shared_rewards": True},
    },
    **{
        f"openspiel {game}": {"game": game, "steps": steps, "seeds": 3, "episodes": 1000}
        for game, steps in (
            ("liars_dice", 100_000),
            ("goofspiel", 100_000),
            ("phantom_ttt", 50_000),
            ("dark_hex", 100_000),
            ("oshi_zumo", 100_000),
            ("markov_soccer", 100_000),
        )
    },
    **{
        f"jaxmarl_smax {name}-{area}": {
            "algorithm": name,
            "map": area,
            "steps": steps,
            "seeds": 1,
            "episodes": 1024,
        }
        for (name, area), steps in SMAX_STEPS.items()
    },
    **{
        f"sb3 {game}": {"game": game, "steps": steps, "seeds": seeds, "episodes": 1000}
        for game, steps, seeds in (
            ("collect_treasure_v1", 500_000, 1),  # mpe2 takes ten times as long for a step of it
            ("simple_formation_v1", 1_000_000, 3),
            ("simple_line_v1", 1_000_000, 3),
            ("Foraging-8x8-2p-2f-coop-v3", 1_000_000, 1),  # 20 minutes a seed
        )
    },
}
"""Argument of the program by name of the baseline."""
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


def run(name: str) -> dict[str, Any]:
    """Run a baseline and return its results."""
    module, python = PROGRAMS[name.partition(" ")[0]]
    task = BASELINES[name]
    command = [str(provenance.ROOT / python), "-m", module, json.dumps(task)]
    answer = subprocess.run(command, cwd=provenance.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    about = {"command": shlex.join(command[1:]), "task": task, "commit": provenance.commit()}
    return {**json.loads(answer.splitlines()[-1]), **about}


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
