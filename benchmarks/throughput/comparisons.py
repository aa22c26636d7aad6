"""What a comparison is made of: heats, entrants, and what is promised of them."""

from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.cases import Case
from benchmarks.entrants import Entrant
from benchmarks.origin import THREADS
from benchmarks.peers.process import Task

OURS = "core.step"
STEPS, GAMES, MICROSECONDS = "env-steps/s", "games/s", "µs a step"


@dataclass(frozen=True)
class Heat:
    """Who takes turns in one alternating run; all others are compared with the first."""

    title: str
    entrants: tuple[Entrant, ...]
    goals: dict[str, str] = field(default_factory=dict)
    """Name of an entrant -> what is promised of the first one's throughput over its."""
    alone: dict[str, str] = field(default_factory=dict)
    """The contest's unit, or ``MICROSECONDS`` -> what is promised of the first one by itself."""
    quick: bool = False
    """Played in ``make bench-quick`` too."""


@dataclass(frozen=True)
class Contest:
    """Heats that belong together."""

    id: str
    title: str
    env_id: str
    heats: tuple[Heat, ...]
    along: str = ""
    """"worlds" or "agents": what grows from heat to heat along the curves of a picture; empty where there is none."""
    unit: str = STEPS
    rounds: int | None = None
    """Rounds of a heat, where turns are long by their nature."""
    turn: float = 0.0
    """Seconds that such a turn takes, about."""


def ours(case: Case, bound: bool = False) -> tuple[Entrant, ...]:
    """The core, and the C step where there is one of these settings."""
    c_step = (Entrant("the C step", "bound", replace(case, entrance="bound")),) if bound else ()
    return (Entrant(OURS, "ours", case), *c_step)


def peer(name: str, library: str, game: str, worlds: int = 1, **more: Any) -> Entrant:
    """A peer may use as many cores as ours: one per world at most."""
    return Entrant(name, "peer", Task(library, game, worlds, **{"threads": min(THREADS, worlds), **more}))


def worlds_of(count: int) -> str:
    """A title."""
    return f"{count:,} world{'s' if count > 1 else ''}"


def mpe2(name: str, game: str) -> Entrant:
    """A world of mpe2, whose episodes are as long as ours."""
    return peer(name, "mpe2", game, options={"max_cycles": 25})


def warpdrive_tag(case: Case) -> Entrant:
    """WarpDrive's NumPy world, since it has no batch on a CPU, with the settings of a case."""
    names = ("num_taggers", "num_runners", "grid_length", "tagging_distance", "runner_exits_game_after_tagged")
    theirs = {name: case.config[name] for name in names}
    theirs |= {"use_full_observation": False, "num_other_agents_observed": 10, "episode_length": 500}
    theirs |= {"max_acceleration": 0.1, "min_acceleration": -0.1, "max_turn": 2.35, "min_turn": -2.35}
    return peer("WarpDrive's NumPy world", "warpdrive", "tag_continuous", options=theirs)
