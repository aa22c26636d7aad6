"""Utilization of simulated devices by leagues and pipelines, with a barrier and without.

A task sleeps in place of a device, and then trains for a moment in its process. It is a part of
`python -m benchmarks.league.executor_scaling --leagues`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from league import Game, League, LeagueBuilder, LeagueConfig, Match, Player, PSROConfig
from league.executors import ProcessExecutor, RemoteTask
from league.leagues.async_league import AsyncLeague
from league.leagues.builder import LeagueResult, Roster, players_per_role, uniform_matches
from league.leagues.transitions import Change
from league.psro.psro import PSRO
from league.storage.open_run import open_run

__all__ = ["DEVICES", "LENGTHS", "measure"]

DEVICES = 8
"""Number of simulated devices."""
LENGTHS = tuple(range(1, DEVICES + 1))
"""Lengths of the trainings of the players, and of the segments of the levels, in units."""
UNIT = 2.0
"""Sleep of a training of length 1 [s]."""
GAME = "RockPaperScissors-v0"
TINY = {"num_envs": 4, "learner.rollout_length": 4, "learner.hidden_sizes": [4], "num_threads": 1}


def asleep(
    policies: Mapping[str, Sequence[Any]], seconds: float, function: Callable[..., Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Sleep, then call a function; return its result and the time that both took [s]."""
    began = time.perf_counter()
    time.sleep(seconds)
    result = function(policies, **arguments)
    return {"result": result, "busy": time.perf_counter() - began}


class SleepingDevices:
    """Processes whose trainings sleep first; it measures the time in which they have tasks."""

    remote = True

    def __init__(self, seconds: Callable[[str], float]) -> None:
        """Start one process per device; `seconds` returns the sleep of a task with some key [s]."""
        self.processes = ProcessExecutor(DEVICES)
        self.seconds = seconds
        for number in range(DEVICES):  # all processes start before the measurement
            self._submit(RemoteTask(f"start/{number}", nothing), 4 * UNIT)
        for _ in range(DEVICES):
            self.processes.next()
        self.busy, self.began = 0.0, time.perf_counter()

    @property
    def utilization(self) -> float:
        """Share of the devices' time so far in which they had a task."""
        return self.busy / (DEVICES * (time.perf_counter() - self.began))

    @property
    def pending(self) -> int:
        """Number of tasks whose results were not returned."""
        return self.processes.pending

    def device(self, name: str | None) -> str:
        """Return the CPU."""
        return self.processes.device("cpu")

    def _submit(self, task: RemoteTask, seconds: float) -> None:
        arguments = {"seconds": seconds, "function": task.function, "arguments": task.arguments}
        self.processes.submit(RemoteTask(task.key, asleep, task.policies, arguments, task.learns, task.device))

    def submit(self, task: RemoteTask) -> None:
        """Queue a task."""
        self._submit(task, self.seconds(task.key))

    def next(self, within: float | None = None) -> tuple[str, Any] | None:
        """Return the key and result of the next finished task."""
        finished = self.processes.next(within)
        if finished is None:
            return None
        self.busy += finished[1]["busy"]
        return finished[0], finished[1]["result"]

    def cancel(self) -> None:
        """Remove all tasks."""
        self.processes.cancel()

    def close(self) -> None:
        """Stop the processes."""
        self.processes.close()


def nothing(policies: Any) -> None:
    """Import PyTorch and what a training needs."""
    import league.leagues.training_group
    import league.psro.variants.pipeline  # noqa: F401


class EightPlayers(LeagueBuilder):
    """Learning players against each other, one per device."""

    def players(self, game: Game) -> list[Player]:
        """Return a player per device."""
        return players_per_role(game, "main", DEVICES)

    def matches(self, roster: Roster, player: Player, role: str) -> list[Match]:
        """Return all other players."""
        return uniform_matches([name for name in roster.learning() if name != player.name])

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Return no transitions."""
        return []


def of_league(asynchronous: bool, iterations: int) -> float:
    """Return the utilization of a league of `DEVICES` players."""

    def seconds(key: str) -> float:
        return UNIT * LENGTHS[int(key.rpartition("_")[2])] if "/train/" in key else 0.0

    config = LeagueConfig(
        iterations=iterations, steps=16, episodes_per_matchup=10, asynchronous=asynchronous, train_overrides=TINY
    )
    kind = AsyncLeague if asynchronous else League
    return _run(lambda store, executor: kind(store, config, EightPlayers(), executor=executor), "own", config, seconds)


def of_pipeline(asynchronous: bool, iterations: int) -> float:
    """Return the utilization of a pipeline of `DEVICES` levels."""

    def seconds(key: str) -> float:
        parts = key.split("/")
        level = parts[2] if parts[0] == "segment" else parts[4] if parts[1] == "part" else None
        return 0.0 if level is None else UNIT * LENGTHS[int(level) * 3 % DEVICES]

    settings: dict[str, Any] = {"variant": "pipeline", "pipeline_depth": DEVICES, "num_segments": 2}
    config = PSROConfig(
        iterations=iterations,
        episodes_per_matchup=10,
        asynchronous=asynchronous,
        train_overrides={**TINY, "total_steps": 256},
        **settings,
    )
    return _run(lambda store, executor: PSRO(store, config, executor=executor), "psro", config, seconds)


def _run(make: Callable[[Any, Any], Any], algorithm: str, config: Any, seconds: Callable[[str], float]) -> float:
    """Run a league on the sleeping devices and return their utilization."""
    devices = SleepingDevices(seconds)
    try:
        game = Game.of(GAME, {"num_repetitions": 1})
        with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", game, algorithm, config) as store:
            make(store, devices).run()
            return devices.utilization
    finally:
        devices.close()


def measure() -> dict[str, Any]:
    """Measure leagues and pipelines with a barrier and without, one after the other."""
    rows = []
    for name, run, synchronous, asynchronous in (("league", of_league, 4, 24), ("pipeline PSRO", of_pipeline, 2, 4)):
        summary = {"run": name, "synchronous": run(False, synchronous), "asynchronous": run(True, asynchronous)}
        rows.append(summary | {"iterations": [synchronous, asynchronous]})
    return {"devices": DEVICES, "lengths": LENGTHS, "unit": UNIT, "game": GAME, "rows": rows}
