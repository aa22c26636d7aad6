"""Comparisons: rounds, contenders and their targets."""

from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.hardware.provenance import THREADS
from benchmarks.peers.process import PeerTask
from benchmarks.throughput.cases import Case
from benchmarks.throughput.contenders import Contender

CORE_STEP = "core.step"
STEPS, GAMES, MICROSECONDS = "env-steps/s", "games/s", "µs a step"


@dataclass(frozen=True)
class Round:
    """Contenders of one alternating run; all others are compared with the first."""

    title: str
    contenders: tuple[Contender, ...]
    goals: dict[str, str] = field(default_factory=dict)
    """Name of a contender -> target of the ratio of the first one's throughput to its own."""
    alone: dict[str, str] = field(default_factory=dict)
    """Unit of the comparison or ``MICROSECONDS`` -> target of the first contender."""
    quick: bool = False
    """True: the round is part of ``make bench-quick``."""
    busy_cores: int = 0
    """Number of cores that another program keeps busy meanwhile; it does not count as a disturbance."""


@dataclass(frozen=True)
class ComparisonGroup:
    """Rounds of one section of the report."""

    id: str
    title: str
    env_id: str
    rounds: tuple[Round, ...]
    along: str = ""
    """"worlds" or "agents": the x axis of the plot over rounds; empty without a plot."""
    unit: str = STEPS
    repeats: int | None = None
    """Maximum number of samples per contender, for long turns."""
    turn: float = 0.0
    """Approximate duration of a long turn [s]."""


def core_contenders(case: Case, bound: bool = False) -> tuple[Contender, ...]:
    """Return the core and, if it exists, the C step of a case."""
    c_step = (Contender("the C step", "bound", replace(case, interface="bound")),) if bound else ()
    return (Contender(CORE_STEP, "gpu_envs", case), *c_step)


def peer(name: str, library: str, game: str, worlds: int = 1, **more: Any) -> Contender:
    """Return a contender of another library, with at most one thread per world."""
    return Contender(name, "peer", PeerTask(library, game, worlds, **{"threads": min(THREADS, worlds), **more}))


def envpool(game: str, worlds: int) -> Contender:
    """Return a game of EnvPool in its fastest mode: all worlds at once, or those that are ready first."""
    return peer("EnvPool", "envpool", game, worlds)


def envpool_mpe(scenario: str, worlds: int) -> Contender:
    """Return a scenario of MPE in EnvPool with the episode length of gpu-envs; it has them since 1.2.8."""
    task = PeerTask(
        "envpool_mpe",
        scenario,
        worlds,
        {"max_episode_steps": 25},
        "benchmarks.peers.inside.envpool",
        min(THREADS, worlds),
    )
    return Contender("EnvPool", "peer", task)


def world_count(count: int) -> str:
    """Return the number of worlds as text."""
    return f"{count:,} world{'s' if count > 1 else ''}"


def mpe2(name: str, game: str) -> Contender:
    """Return one world of mpe2 with the episode length of gpu-envs."""
    return peer(name, "mpe2", game, options={"max_cycles": 25})


def warpdrive_tag(case: Case) -> Contender:
    """Return WarpDrive's NumPy world with the settings of a case; WarpDrive has no batch on a CPU."""
    names = ("num_taggers", "num_runners", "grid_length", "tagging_distance", "runner_exits_game_after_tagged")
    theirs = {name: case.config[name] for name in names}
    theirs |= {"use_full_observation": False, "num_other_agents_observed": 10, "episode_length": 500}
    theirs |= {"max_acceleration": 0.1, "min_acceleration": -0.1, "max_turn": 2.35, "min_turn": -2.35}
    return peer("WarpDrive's NumPy world", "warpdrive", "tag_continuous", options=theirs)
