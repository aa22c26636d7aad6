"""docs/scaling.md, from recorded results: what was measured, and an estimate toward many GPUs that rests on it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.origin import ROOT
from league.executors.ray import SHARING

PAGE = ROOT / "docs" / "scaling.md"
EFFICIENCY, COST = 0.9, 2.0
"""What is asked for: with the most workers, and milliseconds of the coordinator for a call."""
GPUS = 1000
"""Toward which the estimate goes."""
PER_NODE = 8
"""GPUs of a node: assumed."""
LINK = 1.25e9
"""Bytes per second to and from the coordinator's node: assumed, 10 Gbit/s."""
LONG = 600.0
"""Seconds of a response that is long: assumed."""
PAYOFF_CALLS = 4
"""Calls that fill the cells of a new policy: assumed."""
LEAGUES = {"psro": "PSRO", "alphastar": "an AlphaStar league"}
FAULTS = {
    "response": "workers killed (SIGKILL) in the middle of a best response, or of a player's matches",
    "payoffs": "workers killed in the middle of payoff cells",
    "saving": "workers killed with a part in bytes of what they have learned",
    "node": "a node goes in the middle of a call",
    "coordinator": "the coordinator killed at any moment, and begun again",
    "half a file": "the same, with half a file of a policy or a learner's state written",
    "files": "the same, with all files of a step under their names, and before SQLite commits it",
    "commit": "the same, ended by the system in the middle of what SQLite's commit writes",
}
"""By name: what happens, see `tests/libraries/ray_faults.py`."""

HEAD = """# How far it scales

Made by `python -m benchmarks.dispatch` from `benchmarks/results/league/dispatch.json`; do not edit. A league's work is
given out by one process, the coordinator, which also writes down what comes back
(`league/executors`). This page tells how much of it one coordinator can give out.

"""


@dataclass(frozen=True)
class Load:
    """Something that fills up."""

    name: str
    need: str
    """Of one response and the payoff calls of its policy, in words."""
    of: Callable[[float], float]
    """Seconds of it that a response needs, by the number of GPUs."""


def write(results: Mapping[str, Any]) -> None:
    """Write the page.

    Args:
        results: As recorded: "dispatch", "faults" and "constants".
    """
    PAGE.write_text(
        HEAD + "\n".join([*_dispatch(results), *_faults(results), *_constants(results), *_estimate(results)]), "utf-8"
    )


def _dispatch(results: Mapping[str, Any]) -> list[str]:
    rows = results["dispatch"]
    most = rows[-1]
    met = [most["efficiency"] >= EFFICIENCY, most["ms_per_call"] <= COST]
    lines = [
        "## Speed-up with simulated devices",
        "",
        "    python -m benchmarks.dispatch",
        "",
        f"A call sleeps for {most['sleep']:g} s, as if a device were at work, and gives what a payoff call gives; a "
        "local Ray cluster has as many cores as there are to be workers, and all workers are there before the clock "
        "starts. The coordinator is the league's, with `RayExecutor` and a run's store in SQLite: results that are "
        "there at once are committed in one transaction. Efficiency is the time that the calls slept over the time "
        "that all workers had. The coordinator's time is what it does not spend waiting for results; waiting for the "
        'disk is in it, but not in "writing". Of a core its thread needs less, and its process more, as Ray has '
        "threads there.",
        "",
        "| workers | calls | seconds | speed-up | efficiency | coordinator, ms per call | of it writing | "
        "of a core: its thread | its process |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row['workers']} | {row['calls']} | {row['seconds']:.2f} | {row['workers'] * row['efficiency']:.1f} | "
            f"{100 * row['efficiency']:.1f} % | {row['ms_per_call']:.2f} | {row['commit_ms']:.2f} | "
            f"{row['thread_ms_per_call']:.2f} | {row['process_ms_per_call']:.2f} |"
        )
    return [
        *lines,
        "",
        f"At least {100 * EFFICIENCY:.0f} % with {most['workers']} workers: {_yes(met[0])}. At most {COST:g} ms of the "
        f"coordinator for a call: {_yes(met[1])} ({most['ms_per_call']:.2f} ms; on a core "
        f"{most['thread_ms_per_call']:.2f} ms).",
        "",
        *(f"{row['workers']} workers: {_where(row)}" for row in rows[-1:]),
        "",
    ]


def _faults(results: Mapping[str, Any]) -> list[str]:
    found = results["faults"]
    runs = found["runs"]
    leagues = {run["kind"]: run["game"] for run in runs}
    named = [f"{LEAGUES[kind]} on {game}" for kind, game in leagues.items()]
    equal = all(run["equal"] and run["happened"] for run in runs)
    told = [f"- {fault}: {FAULTS[fault]}" for fault in dict.fromkeys(run["fault"] for run in runs)]
    return [
        "## Faults",
        "",
        f"    python -m benchmarks.dispatch --faults {len(runs)}",
        "",
        f"Small runs of {' and '.join(named)} on a Ray cluster of this machine, with two nodes of a core each, and to "
        "each something happens, which is drawn from its seed:",
        "",
        *told,
        "",
        "Equal: policies, payoffs, matches, summaries and the counts of episodes are those of the run without a fault "
        "in one process, bit for bit, so that every episode is counted once.",
        "",
        *tally(runs),
        "",
        f"All equal, and in none nothing happened: {_yes(equal)}.",
        "",
        _where(found),
        "",
    ]


def tally(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of runs to which something happened.

    Args:
        runs: As `tests/libraries/ray_faults.py` tells them.
    """
    lines = [
        "| league | game | fault | runs | it happened, times | equal | seconds of a run |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key in sorted({(run["kind"], run["game"], run["fault"]) for run in runs}, reverse=True):
        same = [run for run in runs if (run["kind"], run["game"], run["fault"]) == key]
        happened, equal = sum(run["happened"] for run in same), sum(run["equal"] for run in same)
        seconds = statistics.median(run["seconds"] for run in same)
        lines.append(f"| {' | '.join(key)} | {len(same)} | {happened} | {equal} | {seconds:.1f} |")
    return lines


def _constants(results: Mapping[str, Any]) -> list[str]:
    found = results["constants"]
    lines = [
        "## What a call costs and carries",
        "",
        "    python -m benchmarks.dispatch --constants",
        "",
        "Best responses with the presets of a league (`league/presets.py`), on one core of this machine:",
        "",
        "| game | seconds per response | policy, bytes | learner's state, bytes |",
        "| --- | --- | --- | --- |",
    ]
    for row in found["games"]:
        lines.append(
            f"| {row['env_id']} | {row['response_seconds']:.1f} | {row['policy_bytes']:,} | {row['state_bytes']:,} |"
        )
    lines += [
        "",
        f"The coordinator's time for a call with {found['policies']} policies per role of {found['env_id']}: sending, "
        f"receiving and committing. A payoff call plays {found['cells']} cells and gives "
        f"{found['calls'][0]['result_bytes']:,} bytes; a response sends a learner's state, and gives one and a policy, "
        "which are put into files and flushed.",
        "",
        "| call | coordinator, ms per call | of it writing |",
        "| --- | --- | --- |",
        *(f"| {row['kind']} | {row['ms_per_call']:.2f} | {row['commit_ms']:.2f} |" for row in found["calls"]),
        "",
        _where(found),
        "",
    ]
    return lines


def _estimate(results: Mapping[str, Any]) -> list[str]:
    """On paper: the rate of responses against what each needs of the one coordinator."""
    found = results["constants"]
    game = max(found["games"], key=lambda row: row["policy_bytes"])
    costs = {row["kind"]: row for row in found["calls"]}
    loads = loads_of(game, costs)
    seconds = game["response_seconds"]
    rows = sorted(((load, full_at(load, seconds)) for load in loads), key=lambda row: row[1])
    first, second = rows[0], rows[1]
    lines = [
        f"## On paper: toward {GPUS:,} GPUs",
        "",
        f"Nobody has run this. Assumed: {SHARING} learners share a GPU, {PER_NODE} GPUs a node, the coordinator's node "
        f"has a link of {8 * LINK / 1e9:g} Gbit/s, {PAYOFF_CALLS} payoff calls fill the cells of a new policy, every "
        f"node fetches every policy once and from the coordinator (Ray also fetches from other nodes, which is less), "
        f"and a response lasts as long on its share of a GPU as measured above on a core, with the largest policy "
        f"there: {game['env_id']}, {seconds:.1f} s. G GPUs then end {SHARING} G / {seconds:.1f} responses a second. "
        "What each needs of what there is only one of, from the constants above:",
        "",
        "| what | a response needs | full at, GPUs | "
        f"shortest response that {GPUS:,} GPUs may have | load with {GPUS:,} GPUs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for load, full in rows:
        lines.append(
            f"| {load.name} | {load.need} | {full:,.0f} | {shortest(load):.1f} s | {shortest(load) / seconds:.0%} |"
        )
    return [
        *lines,
        "",
        f"First to fill is {first[0].name}, at {first[1]:,.0f} GPUs, then {second[0].name}, at {second[1]:,.0f}. "
        f"With {GPUS:,} GPUs responses have to last at least {max(shortest(load) for load, _ in rows):.1f} s, or as "
        "many times longer than that as there is to be room: all limits grow with the length of a "
        f"response, {_with(rows, LONG)}.",
        "",
        "That is what can be given out. What there is to give out may be less, and then the schedule is full first: "
        "PSRO has one response per role in an iteration (a pipeline as many as it has levels, for each role), a league "
        "one call for each player that learns (before them, where sides are unlike, one that measures a draw), and "
        "both wait for the last of them; more devices than that are used by splitting one training over several "
        "(`docs/guides/train.md`).",
        "",
    ]


def loads_of(game: Mapping[str, Any], costs: Mapping[str, Mapping[str, float]]) -> list[Load]:
    """What a response and the payoff calls of its policy need of the one coordinator.

    Args:
        game: Bytes of a policy and of a learner's state.
        costs: Of the coordinator, by kind of call.
    """
    response, payoffs = costs["response"], costs["payoffs"]
    total = 1e-3 * (response["ms_per_call"] + PAYOFF_CALLS * payoffs["ms_per_call"])
    commits = 1e-3 * (response["commit_ms"] + PAYOFF_CALLS * payoffs["commit_ms"])
    states = 2 * game["state_bytes"]
    own = states + game["policy_bytes"] + PAYOFF_CALLS * payoffs["result_bytes"]
    return [
        Load("the coordinator's time", f"{1e3 * total:.1f} ms", lambda gpus: total),
        Load("writing to SQLite and files, part of it", f"{1e3 * commits:.1f} ms", lambda gpus: commits),
        Load(
            "the link, for learners' states and results",
            f"{own:,} bytes",
            lambda gpus: own / LINK,
        ),
        Load(
            "the link, for policies to all nodes",
            f"{game['policy_bytes']:,} bytes a node",
            lambda gpus: game["policy_bytes"] * gpus / PER_NODE / LINK,
        ),
    ]


def shortest(load: Load, gpus: float = GPUS) -> float:
    """Seconds that a response has to last so that so many GPUs do not overload something."""
    return SHARING * gpus * load.of(gpus)


def full_at(load: Load, seconds: float) -> float:
    """GPUs with which something is full, with responses of so many seconds."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if shortest(load, middle) < seconds else (low, middle)
    return low


def _with(rows: list[tuple[Load, float]], seconds: float) -> str:
    load, full = min(((load, full_at(load, seconds)) for load, _ in rows), key=lambda row: row[1])
    return f"and with {seconds:.0f} s the first to fill is {load.name}, at {full:,.0f} GPUs"


def _where(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    return (
        f"Commit {result['commit']}, {result['date']}, {machine['cpu'].split(' (')[0]}, {machine['cores']} cores, "
        f"Ray {machine['ray']}, torch {machine['torch']}; {result['load']:.1f} processes wanted a "
        "core in the quarter of an hour before its end, on average, those of others included."
    )


def _yes(met: bool) -> str:
    return "yes" if met else "**no**"
