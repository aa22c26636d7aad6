"""Play the heats of a comparison, and put them into figures and rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from benchmarks import hotspots
from benchmarks.cases import Case
from benchmarks.compare import Player, Rounds, Spread, alternate
from benchmarks.contest import MICROSECONDS, STEPS, Contest, Heat
from benchmarks.contests import CONTESTS
from benchmarks.entrants import Seat, seated
from benchmarks.peers.process import Task
from benchmarks.roofline import copy_bandwidth, traffic
from benchmarks.targets import NOISE, Effort, Figure, Target
from gpu_envs.factory import make_core

MEMORY = "the memory bound"


@dataclass(frozen=True)
class Result:
    """How one entrant of a heat has done."""

    seat: Seat
    seconds: list[float]  # of one step, by round
    units: float  # of a step
    note: str


@dataclass(frozen=True)
class Played:
    """A heat that has been played."""

    heat: Heat
    results: list[Result]
    rounds: Rounds
    absent: dict[str, str]
    """Name of who could not take part -> why."""


def play(contest: Contest, heat: Heat, effort: Effort) -> Played:
    """Let all who are there take turns."""
    with seated(heat.entrants) as (seats, absent):
        subjects = {seat.entrant.name: seat.subject for seat in seats}
        wanted = min(effort.rounds, contest.rounds or effort.rounds)
        rounds = alternate(subjects, wanted, effort.seconds, effort.seconds, effort.patience)
        kept = [(seat, rounds.seconds[seat.entrant.name]) for seat in seats if seat.entrant.name not in rounds.lost]
        results = [Result(seat, seconds, seat.units(), _note(seat, heat)) for seat, seconds in kept]
    return Played(heat, results, rounds, absent | rounds.lost)


def _note(seat: Seat, heat: Heat) -> str:
    """Versions of a peer; where the time of a door goes, and of what it is compared with."""
    if seat.note:
        return seat.note
    compared = any(entrant.kind == "door" for entrant in heat.entrants)
    if not compared or isinstance(seat.subject, Player):
        return ""
    return hotspots.told(hotspots.shares(seat.subject))


def promised(heat: Heat) -> dict[str, Figure]:
    """The goals of a heat without their values, by whom or in what the first one is compared."""
    first = heat.entrants[0].name
    over = {name: ("ratio", f"{first} over {name}, {heat.title}", target) for name, target in heat.goals.items()}
    alone = {unit: (unit, f"{first} by itself, {heat.title}", target) for unit, target in heat.alone.items()}
    return {key: Figure(what, unit, None, target=target) for key, (unit, what, target) in (over | alone).items()}


def figures(contest: Contest, played: Played) -> Iterator[Figure]:
    """Ratios and goals first, then throughputs, the memory bound, who was absent, and the noise."""
    heat, rows, goals = played.heat, rows_of(contest, played), promised(played.heat)
    for row in rows[1:]:
        figure = goals.get(row["name"], Figure(f"{rows[0]['name']} over {row['name']}, {heat.title}", "ratio", None))
        yield replace(figure, value=row["ratio"], low=row["ratio_low"], high=row["ratio_high"])
    for unit in heat.alone:
        yield _measured(goals[unit], played.results[0])
    for name in (name for name in heat.goals if name in played.absent):
        yield replace(goals[name], note=played.absent[name])
    for row in rows:
        what = f"{row['name']}, {heat.title}"
        curve = {"curve": row["name"], "at": row[contest.along], "along": contest.along} if contest.along else {}
        yield Figure(what, contest.unit, row["rate"], row["low"], row["high"], note=row["note"], row=row, **curve)
    for name, why in played.absent.items():
        row = {"heat": heat.title, "name": name, "kind": "absent"}
        yield Figure(f"{name}, {heat.title}", contest.unit, None, note=why, row=row)
    noise = Spread.of(played.rounds.disturbance)
    yield Figure(NOISE, "% of the machine", 100 * noise.median, 100 * noise.low, 100 * noise.high)


def _measured(goal: Figure, result: Result) -> Figure:
    """A goal of an entrant by itself, with its value."""
    by_time = goal.unit == MICROSECONDS
    spread = Spread.of([1e6 * sample if by_time else result.units / sample for sample in result.seconds])
    return replace(goal, value=spread.median, low=spread.low, high=spread.high)


def rows_of(contest: Contest, played: Played) -> list[dict[str, Any]]:
    """A row for every entrant that played, and for the memory bound, with the first one's ratio to it."""
    first = played.results[0]
    rows = []
    for result in played.results:
        rate = Spread.of([result.units / sample for sample in result.seconds])
        ratio = played.rounds.ratio(result.seat.entrant.name, first.seat.entrant.name)
        scale = first.units / result.units
        rows.append(
            {
                "heat": played.heat.title,
                "name": result.seat.entrant.name,
                "kind": result.seat.entrant.kind,
                **result.seat.describe(),
                "unit": contest.unit,
                **_spread(rate, ("rate", "low", "high"), 1.0),
                **_spread(ratio, ("ratio", "ratio_low", "ratio_high"), scale),
                "others": Spread.of(played.rounds.disturbance).median,
                "note": result.note,
            }
        )
    case = first.seat.entrant.what
    if contest.unit == STEPS and isinstance(case, Case) and first.seat.entrant.kind == "ours":
        rows.append(_memory_bound(case, rows[0]))
    return rows


def _spread(spread: Spread, names: tuple[str, str, str], scale: float) -> dict[str, float]:
    return dict(zip(names, (scale * part for part in (spread.median, spread.low, spread.high)), strict=True))


def _memory_bound(case: Case, ours: dict[str, Any]) -> dict[str, Any]:
    """The throughput at which the bytes that a step must move take all of the machine's bandwidth."""
    core = make_core(case.env_id, min(2, case.num_envs), **case.settings)
    core.reset()
    needed, copied = traffic(core).bytes, bandwidth(case.device)
    rate = {name: value / needed for name, value in _spread(copied, ("rate", "low", "high"), 1.0).items()}
    share = dict.fromkeys(("ratio", "ratio_low", "ratio_high"), ours["rate"] / rate["rate"])
    told = f"{needed:.0f} bytes a step, {copied.median / 1e9:.1f} GB/s copied; beyond 1: worlds stay in the caches"
    kept = {name: ours[name] for name in ("heat", "worlds", "agents", "env_id", "device", "unit")}
    return {**kept, "name": MEMORY, "kind": "memory", **rate, **share, "note": told}


@cache
def bandwidth(device: str) -> Spread:
    """Bytes a second that a device copies, read and written, measured once."""
    return copy_bandwidth(device)


def planned(played: Iterable[tuple[Contest, Heat]], effort: Effort, cores: int = 2) -> float:
    """Seconds that heats take about, on a quiet machine: peers start side by side, then all take their turns."""
    seconds = 0.0
    for contest, heat in played:
        starts = [STARTS.get(entrant.what.peer, 2.0) for entrant in heat.entrants if isinstance(entrant.what, Task)]
        rounds = WARM_UPS + min(effort.rounds, contest.rounds or effort.rounds)
        seconds += sum(starts) / cores + len(heat.entrants) * rounds * max(effort.seconds, contest.turn)
    return seconds


STARTS = {"jaxmarl": 18.0, "gymnax": 8.0, "vmas": 6.0, "sb3": 8.0, "doors": 8.0}
"""Core-seconds until a peer can play, about: imports, and compiling; 2 without an entry."""
WARM_UPS = 2
"""Turns that a warm-up and what is built before it take, about."""


def measure(contest: Contest, effort: Effort) -> Iterator[Figure]:
    """Play all heats of a comparison."""
    for heat in contest.heats:
        yield from figures(contest, play(contest, heat, effort))


def promises(contest: Contest) -> Iterator[Figure]:
    """The goals of a comparison, without their values."""
    for heat in contest.heats:
        yield from promised(heat).values()


TARGETS = tuple(
    Target(
        contest.id,
        contest.title,
        contest.env_id,
        partial(measure, contest),
        tuple(promises(contest)),
    )
    for contest in CONTESTS
)
"""The comparisons as groups of the report."""
