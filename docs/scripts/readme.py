"""Measured figures in the README and on the page that compares libraries, and families of environments."""

import json
from typing import Any

from benchmarks.pages import results
from benchmarks.pages.performance_page import number, ranges
from docs.scripts.tables import names, table

SIMULATION = ("peers-simple-tag", "16,384 worlds", "SimpleTag, 16,384 worlds")
ONE_WORLD = ("peers-simple-tag", "1 world", "SimpleTag, 1 world")
TRAINING = ("peers-training", "SimpleSpread-v0, all cores", "PPO on SimpleSpread with updates")
ONE_CORE = ("peers-training", "SimpleSpread-v0, 16 worlds, 1 thread", "PPO on SimpleSpread, one core")
GAMES = ("peers-games", "LeducPoker-v0, observed", "random games of Leduc poker")
CELLS = results.RESULTS / "league" / "cells.json"
TITLES = {
    "tag": "Tag",
    "mpe": "MPE",
    "vmas": "VMAS",
    "grid": "Grids",
    "kitchen": "Kitchens",
    "economy": "Economies",
    "smax": "Battles",
    "cards": "Cards",
    "games": "Games",
    "classic": "Classic control",
}
"""Families by folder, in the order of the README."""


def _times(ratio: float) -> str:
    """Return a ratio as text for people, rounded down to two digits."""
    return f"{int(ratio)}" if ratio >= 10 else f"{int(10 * ratio) / 10:g}"


def headline() -> str:
    """Return the sentences with the figures that the README starts with.

    Raises:
        AssertionError: The fastest other library is not JaxMARL, so that the sentences would be wrong.
    """
    result = results.published_result()
    pairs = [results.pair(result, *round_) for round_ in (SIMULATION, TRAINING, ONE_WORLD, ONE_CORE)]
    for pair in pairs:
        assert "JaxMARL" in pair.other, f"{pair.label}: the fastest library is {pair.other}; write another headline"
        assert pair.cores == 2, f"{pair.label}: measured on {pair.cores} cores; write another headline"
    simulation, training, one_world, one_core = pairs
    return (
        f"**On two CPU cores: {_times(simulation.ratio)} times JaxMARL in simulation, {_times(training.ratio)} times "
        f"in training.** These are environment steps per second of {simulation.label} "
        f"({simulation.processor}), and of {training.label} ({training.processor}). With JaxMARL's own "
        f"settings on one core, training is {_times(one_core.ratio)} times as fast. With one world, simulation is "
        f"{number(one_world.ratio)} times as fast. [Performance](docs/performance.md) has the method and the figures."
    )


def measured() -> str:
    """Return the table of the README: simulation, training, games and leagues, each with a measured figure."""
    result = results.published_result()
    simulation, training, games = (results.pair(result, *round_) for round_ in (SIMULATION, TRAINING, GAMES))
    cells = json.loads(CELLS.read_text())
    row = next(row for row in cells["rows"] if row["env_id"] == "LeducPoker-v0" and row["batch"] == "table")
    rows = [
        (
            "[Simulation](docs/guides/use.md)",
            "Gymnasium, PettingZoo, TorchRL, ... interfaces",
            f"{_rate(simulation)}, {simulation.label}",
            _over(simulation),
        ),
        (
            "[Training](docs/guides/train.md)",
            "PPO, MAPPO, DQN, QMIX, SAC, MADDPG, [...](docs/guides/algorithms.md)",
            f"{_rate(training)}, {training.label}",
            _over(training),
        ),
        (
            "[Games](docs/environments.md#games)",
            "poker, boards, matrices; exact exploitability",
            f"{_rate(games)}, {games.label}",
            f"{_times(games.ratio)} x OpenSpiel",
        ),
        (
            "[Leagues](docs/guides/league.md)",
            "PSRO, AlphaStar, self-play, populations",
            f"{_cell(row)} ms for 1,000 games of Leduc poker",
            f"{_times(row['ratio'])} x OpenSpiel's PSRO",
        ),
    ]
    return table(("", "with", "on two CPU cores", "compared"), rows)


def _rate(pair: results.Pair) -> str:
    return f"{number(pair.rate)} {pair.unit}"


def _over(pair: results.Pair) -> str:
    return f"{_times(pair.ratio)} x {'JaxMARL' if 'JaxMARL' in pair.other else pair.other}"


def _cell(row: dict[str, Any]) -> str:
    return number(sorted(row["gpu_envs"])[len(row["gpu_envs"]) // 2])


def hardware() -> str:
    """Return the hardware that the package has run on: the processors of the result files, and no GPU."""
    machines = [json.loads(path.read_text()).get("machine", {}) for path in sorted(results.RESULTS.glob("*.json"))]
    processors = {(results.processor(machine["cpu"]), machine["cores"]) for machine in machines if machine}
    listed = " and ".join(f"{cpu} with {cores} cores" for cpu, cores in sorted(processors))
    return (
        f"**Hardware.** Tested on Linux x86-64 CPUs with Python 3.11 to 3.13; measured on {listed}. Kernels are "
        "compiled for CUDA, but **nothing has run on a GPU yet**. "
        "[Other platforms](docs/start.md#supported-platforms) are untested."
    )


def families() -> str:
    """Return one line per family of environments, with their names."""
    lines = []
    for folder, title in TITLES.items():
        ids = [id.rpartition("-v")[0] for page, id in sorted(names().items()) if page.startswith(f"{folder}/")]
        lines.append(f"- [{title}](docs/environments.md#{title.lower().replace(' ', '-')}): {', '.join(ids)}")
    return "\n".join(lines)


def against() -> str:
    """Return the lowest and highest ratio to each compared library."""
    return ranges(results.published_result())
