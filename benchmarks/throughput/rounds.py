"""Run the rounds of a comparison and convert the results to figures and rows."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from benchmarks.hardware import hotspots
from benchmarks.hardware.bandwidth import copy_rates
from benchmarks.peers.process import Peer
from benchmarks.throughput.cases import Case
from benchmarks.throughput.comparisons import COMPARISONS, MICROSECONDS, STEPS, ComparisonGroup, Round
from benchmarks.throughput.contenders import ContenderSlot, open_contenders
from benchmarks.throughput.roofline import traffic
from benchmarks.throughput.target import NOISE, Effort, Figure, PerformanceTarget
from benchmarks.throughput.timing import AlternatingSamples, Spread, TimedSubject, alternate
from gpu_envs.runtime.factory import make_core

MEMORY = "the memory bound"


@dataclass(frozen=True)
class Result:
    """Result of one contender of a round."""

    seat: ContenderSlot
    seconds: list[float]  # of one step, by round
    units: float  # of a step
    note: str


@dataclass(frozen=True)
class Played:
    """Result of a round."""

    round: Round
    results: list[Result]
    samples: AlternatingSamples
    absent: dict[str, str]
    """Reason by name of each contender that was not available."""


def play(comparison: ComparisonGroup, round_: Round, effort: Effort) -> Played:
    """Run a round with all available contenders in alternation."""
    with open_contenders(round_.contenders) as (seats, absent), busy_processes(round_.busy_cores) as busy:
        subjects = {seat.contender.name: seat.subject for seat in seats}
        repeats = min(effort.repeats, comparison.repeats or effort.repeats)
        rounds = alternate(subjects, repeats, effort.seconds, effort.seconds, effort.patience, busy)
        completed = [
            (seat, rounds.seconds[seat.contender.name]) for seat in seats if seat.contender.name not in rounds.lost
        ]
        results = [Result(seat, seconds, seat.units(), _note(seat, round_)) for seat, seconds in completed]
    return Played(round_, results, rounds, absent | rounds.lost)


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list[int]]:
    """Run processes that each keep a core busy within the block, and return their ids."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _note(seat: ContenderSlot, round_: Round) -> str:
    """Return the versions of another library, or the profile of an interface."""
    if isinstance(seat.subject, Peer):
        return seat.subject.describe()
    compared = any(contender.kind == "interface" for contender in round_.contenders)
    if not compared or isinstance(seat.subject, TimedSubject):
        return ""
    return hotspots.format_shares(hotspots.shares(seat.subject))


def goals_of_round(round_: Round) -> dict[str, Figure]:
    """Return the targets of a round without values, by contender or unit."""
    first = round_.contenders[0].name
    over = {name: ("ratio", f"{first} over {name}, {round_.title}", target) for name, target in round_.goals.items()}
    alone = {unit: (unit, f"{first} by itself, {round_.title}", target) for unit, target in round_.alone.items()}
    return {key: Figure(title, unit, None, target=target) for key, (unit, title, target) in (over | alone).items()}


def figures(comparison: ComparisonGroup, played: Played) -> Iterator[Figure]:
    """Yield ratios and targets, then throughputs, the memory bound, missing contenders and the noise."""
    round_, rows, goals = played.round, rows_of(comparison, played), goals_of_round(played.round)
    for row in rows[1:]:
        figure = goals.get(row["name"], Figure(f"{rows[0]['name']} over {row['name']}, {round_.title}", "ratio", None))
        yield replace(figure, value=row["ratio"], low=row["ratio_low"], high=row["ratio_high"])
    for unit in round_.alone:
        yield _measured(goals[unit], played.results[0])
    for name in (name for name in round_.goals if name in played.absent):
        yield replace(goals[name], note=played.absent[name])
    for row in rows:
        title = f"{row['name']}, {round_.title}"
        curve = (
            {"curve": row["name"], "at": row[comparison.along], "along": comparison.along} if comparison.along else {}
        )
        yield Figure(title, comparison.unit, row["rate"], row["low"], row["high"], note=row["note"], row=row, **curve)
    for name, why in played.absent.items():
        row = {"round": round_.title, "name": name, "kind": "absent"}
        yield Figure(f"{name}, {round_.title}", comparison.unit, None, note=why, row=row)
    noise = Spread.of(played.samples.disturbance)
    yield Figure(NOISE, "% of the machine", 100 * noise.median, 100 * noise.low, 100 * noise.high)


def _measured(goal: Figure, result: Result) -> Figure:
    """Return a target of a single contender with its value."""
    by_time = goal.unit == MICROSECONDS
    spread = Spread.of([1e6 * sample if by_time else result.units / sample for sample in result.seconds])
    return replace(goal, value=spread.median, low=spread.low, high=spread.high)


def rows_of(comparison: ComparisonGroup, played: Played) -> list[dict[str, Any]]:
    """Return a row for each contender and the memory bound, with the ratio of the first contender to it."""
    first = played.results[0]
    rows = []
    for result in played.results:
        rate = Spread.of([result.units / sample for sample in result.seconds])
        ratio = played.samples.ratio(result.seat.contender.name, first.seat.contender.name)
        scale = first.units / result.units
        row = {"round": played.round.title, "name": result.seat.contender.name, "kind": result.seat.contender.kind}
        row |= {**result.seat.describe(), "unit": comparison.unit}
        row |= _spread(rate, ("rate", "low", "high"), 1.0)
        row |= _spread(ratio, ("ratio", "ratio_low", "ratio_high"), scale)
        rows.append(row | {"others": Spread.of(played.samples.disturbance).median, "note": result.note})
    case = first.seat.contender.workload
    if comparison.unit == STEPS and isinstance(case, Case) and first.seat.contender.kind == "gpu_envs":
        rows.append(_memory_bound(case, rows[0]))
    return rows


def _spread(spread: Spread, names: tuple[str, str, str], scale: float) -> dict[str, float]:
    return dict(zip(names, (scale * part for part in (spread.median, spread.low, spread.high)), strict=True))


def _memory_bound(case: Case, core_row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the throughput at which the necessary memory traffic uses the whole bandwidth."""
    core = make_core(case.env_id, min(2, case.num_envs), **case.settings)
    core.reset()
    needed, copied = traffic(core).bytes, bandwidth(case.device)
    rate = {name: value / needed for name, value in _spread(copied, ("rate", "low", "high"), 1.0).items()}
    share = dict.fromkeys(("ratio", "ratio_low", "ratio_high"), core_row["rate"] / rate["rate"])
    note = f"{needed:.0f} bytes a step, {copied.median / 1e9:.1f} GB/s copied; beyond 1: worlds stay in the caches"
    row = {name: core_row[name] for name in ("round", "worlds", "agents", "env_id", "device", "unit")}
    return {**row, "name": MEMORY, "kind": "memory", **rate, **share, "note": note}


@cache
def bandwidth(device: str) -> Spread:
    """Return the copy bandwidth of a device [B/s], read and write, measured once."""
    return Spread.of(copy_rates(device))


def measure(comparison: ComparisonGroup, effort: Effort) -> Iterator[Figure]:
    """Yield the figures of all rounds of a comparison."""
    for round_ in comparison.rounds:
        yield from figures(comparison, play(comparison, round_, effort))


TARGETS = tuple(
    PerformanceTarget(
        comparison.id,
        comparison.title,
        partial(measure, comparison),
        tuple(goal for round_ in comparison.rounds for goal in goals_of_round(round_).values()),
    )
    for comparison in COMPARISONS
)
"""Comparisons as groups of the report."""
