"""Run the demonstrations of leagues, record the figures, and write docs/league.md.

python -m benchmarks.league.demonstrations                      # all, then the page
python -m benchmarks.league.demonstrations psro-kuhn cells      # selected ones; the others are unchanged
python -m benchmarks.league.demonstrations --write              # only the page and its figure, from recorded results
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import torch

from benchmarks.hardware import provenance
from benchmarks.hardware.result_folder import ResultFolder
from benchmarks.league.correlated_curves import correlated_curves
from benchmarks.league.league_page import write
from benchmarks.league.population_curves import KUHN, LEDUC, nash_conv_curve, population_curves
from benchmarks.league.self_play_curves import self_play_curves
from benchmarks.league.study_settings import STUDIES, study_file
from benchmarks.peers import openspiel_psro
from league.game import Game
from league.policies.random import RandomPolicy
from league.psro.config import PSROConfig
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import MatchupDistribution
from league.rollout.matchups import simulate_matchups
from league.storage import presets
from league.storage.run_config import training

RESULTS = ResultFolder(provenance.ROOT / "benchmarks" / "results" / "league")
CELL_EPISODES = 1_000
TURNS = 5
"""Samples per library of a ratio."""


@dataclass(frozen=True)
class Demonstration:
    """A demonstration and its claim."""

    run: Callable[..., dict[str, Any]]
    settings: Mapping[str, Any]
    claim: str
    """Expected result."""


def exploitability(
    env_id: str, below: float, patience: float, learned: Mapping[str, Any], exact: Mapping[str, Any], turns: int
) -> dict[str, Any]:
    """Measure NashConv over time, gpu-envs and OpenSpiel in alternation, with learned and exact responses.

    Args:
        env_id: The game.
        below: Threshold of NashConv.
        patience: Time limit of OpenSpiel's learned responses, checked after each iteration [s].
        learned: Fields of `PSROConfig` in addition to the preset; payoffs are sampled.
        exact: Fields of `PSROConfig` with exact responses.
        turns: Runs per library.
    """
    lines: list[dict[str, Any]] = []
    for seed in range(turns):
        config = {**presets.psro_preset(env_id), "seed": seed, "episodes_per_matchup": CELL_EPISODES}
        curves = {
            ("gpu_envs", "learned"): nash_conv_curve(env_id, PSROConfig(**{**config, **learned})),
            ("OpenSpiel", "learned"): _openspiel_curve(env_id, "learned", 100, patience, seed),
        }
        config |= {"oracle": "exact", **exact}
        curves["gpu_envs", "exact"] = nash_conv_curve(env_id, PSROConfig(**config))
        curves["OpenSpiel", "exact"] = _openspiel_curve(env_id, "exact", config["iterations"], 600.0, seed)
        lines += [{"library": library, "oracle": oracle, **curve} for (library, oracle), curve in curves.items()]
        for line in lines[-4:]:
            print(line["library"], line["oracle"], json.dumps(line["curve"]), flush=True)
    reached = {
        f"{library} {oracle}": [
            reach(line["curve"], below) for line in lines if (line["library"], line["oracle"]) == (library, oracle)
        ]
        for library in ("gpu_envs", "OpenSpiel")
        for oracle in ("learned", "exact")
    }
    verdicts = {
        oracle: all(
            native is not None and (openspiel is None or native < openspiel)
            for native, openspiel in zip(reached[f"gpu_envs {oracle}"], reached[f"OpenSpiel {oracle}"], strict=True)
        )
        for oracle in ("learned", "exact")
    }
    return {"env_id": env_id, "below": below, "lines": lines, "reached": reached, "met": verdicts}


def reach(curve: Sequence[Sequence[float]], below: float) -> float | None:
    """Return the seconds until NashConv is at most `below`, or None."""
    return next((seconds for seconds, nash_conv in curve if nash_conv <= below), None)


def _openspiel_curve(env_id: str, oracle: str, iterations: int, patience: float, seed: int) -> dict[str, Any]:
    openspiel_psro.load()  # its imports are not its work
    began = time.perf_counter()
    run = openspiel_psro.Theirs(env_id, oracle, CELL_EPISODES, seed=seed)
    watched = 0.0  # OpenSpiel does not need NashConv for its run, so its time is not counted
    curve: list[list[float]] = []
    for number in range(iterations + 1):
        if number:
            run.iterate()
        seconds = time.perf_counter() - began - watched
        start = time.perf_counter()
        curve.append([seconds, run.nash_conv()])
        watched += time.perf_counter() - start
        if seconds > patience:
            break
    return {"curve": curve, "seed": seed}


def cells(envs: Sequence[str], side: int, goals: Mapping[str, float]) -> dict[str, Any]:
    """Measure milliseconds per payoff cell of 1,000 games: networks in gpu-envs, random tables in OpenSpiel.

    Args:
        envs: IDs of the games.
        side: Policies per role; gpu-envs simulates single cells, and all cells of a table at once.
        goals: Least ratio of OpenSpiel's time for a single "cell" and for a cell of a "table".
    """
    rows = []
    for env_id in envs:
        game = Game.of(env_id)
        populations = _short(game, side)
        pairs = [(i, j) for i in range(side) for j in range(side)]
        batches = {"cell": [[pair] for pair in pairs[:: side + 1]], "table": [pairs]}

        def simulate(batch: list[list[tuple[int, int]]], seed: int, game: Game = game, pools: Any = populations) -> int:
            for matchups in batch:
                simulate_matchups(
                    pools, game=game, matchups=matchups, episodes=CELL_EPISODES, seed=seed, engine="kernel"
                )
            return sum(map(len, batch))

        for batch in batches.values():
            simulate(batch, 0)  # worlds and kernels are made once
        openspiel_psro.cell(env_id, 10, seed=0)
        took: dict[str, list[float]] = {f"{name}{of}": [] for name in (*batches, "openspiel") for of in ("", "_cpu")}
        for turn in range(TURNS):
            for name, batch in batches.items():
                clocks = _clocks()
                _count(took, name, clocks, simulate(batch, turn))
            clocks = _clocks()
            for number in range(3):
                openspiel_psro.cell(env_id, CELL_EPISODES, seed=3 * turn + number)
            _count(took, "openspiel", clocks, 3)
        for name in batches:
            ratio, ratio_cpu = (
                statistics.median(b / a for a, b in zip(took[f"{name}{of}"], took[f"openspiel{of}"], strict=True))
                for of in ("", "_cpu")
            )
            times = {"gpu_envs": took[name], "gpu_envs_cpu": took[f"{name}_cpu"]}
            times |= {key: took[key] for key in ("openspiel", "openspiel_cpu")}
            met = {"ratio": ratio, "ratio_cpu": ratio_cpu, "met": ratio >= goals[name]}
            rows.append({"env_id": env_id, "batch": name, **times, **met})
            print(env_id, name, json.dumps(rows[-1]), flush=True)
    return {"rows": rows, "met": {f"{row['env_id']}, {row['batch']}": row["met"] for row in rows}, "side": side}


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _count(took: dict[str, list[float]], label: str, since: tuple[float, float], cells: int) -> None:
    """Record milliseconds per cell: wall-clock time and CPU time."""
    for name, now, then in zip((label, f"{label}_cpu"), _clocks(), since, strict=True):
        took[name].append(1e3 * (now - then) / cells)


def _short(game: Game, count: int) -> dict[str, list[Any]]:
    """Return briefly trained network policies per role."""
    pools = {role: [RandomPolicy.of(game, role)] for role in game.roles}
    populations: dict[str, list[Any]] = {role: [] for role in game.roles}
    for seed in range(count):
        config = dataclasses.replace(training(game, "cpu", {"total_steps": 4_000}), seed=seed)
        learner = BestResponseTraining(game, MatchupDistribution.self_play(game), pools, config)
        while learner.steps < config.total_steps:
            learner.iterate()
        for role in game.roles:
            populations[role].append(learner.learner(role).policy())
    return populations


WELFARE = {"meta_solver_kwargs": {"objective": "max_welfare"}}
"""Settings of the correlated equilibrium of maximum welfare."""
SHOWS: dict[str, Demonstration] = {
    "cells": Demonstration(
        cells,
        {"envs": ("KuhnPoker-v0", "LeducPoker-v0"), "side": 10, "goals": {"cell": 60.0, "table": 100.0}},
        "A payoff cell of 1,000 games takes at most 1/60 of OpenSpiel's time, in a table of 10 x 10 cells 1/100.",
    ),
    "psro-kuhn": Demonstration(
        exploitability,
        {
            "env_id": "KuhnPoker-v0",
            "below": 0.1,
            "patience": 60.0,
            "learned": {},
            "exact": {"iterations": 15},
            "turns": 1,
        },
        "NashConv 0.1 is reached earlier than by OpenSpiel with the same oracle, sampled payoffs.",
    ),
    "psro-leduc": Demonstration(
        exploitability,
        {
            "env_id": "LeducPoker-v0",
            "below": 2.5,
            "patience": 120.0,
            "learned": {},
            "exact": {"iterations": 20},
            "turns": 1,
        },
        "NashConv 2.5 is reached earlier than by OpenSpiel with the same oracle, sampled payoffs.",
    ),
    "curves-kuhn": Demonstration(
        population_curves,
        KUHN,
        "Exact responses: anytime PSRO never rises where PSRO does; XDO needs fewer iterations than PSRO to NashConv "
        "0.1; SP-PSRO needs at most 5.",
    ),
    "curves-leduc": Demonstration(
        population_curves,
        LEDUC,
        "Exact responses: anytime PSRO never rises where PSRO does; XDO needs 1/10 of PSRO's iterations to NashConv "
        "0.1; SP-PSRO needs at most 5.",
    ),
    "jpsro-kuhn": Demonstration(
        correlated_curves,
        {
            "env_id": "KuhnPoker-v0",
            "env": {"num_players": 3},
            "methods": {
                "JPSRO(CE)": {"meta_solver": "ce", "iterations": 16, **WELFARE},
                "JPSRO(CE), all recommendations": {
                    "meta_solver": "ce",
                    "max_recommendations": None,
                    "iterations": 16,
                    **WELFARE,
                },
                "JPSRO(CCE)": {"meta_solver": "cce", "iterations": 16, **WELFARE},
            },
            "below": 1e-6,
        },
        "Joint PSRO with exact responses reaches a CE and a CCE of three-player Kuhn poker: gaps below 1e-6.",
    ),
    "ppo-kuhn": Demonstration(
        self_play_curves,
        {"env_id": "KuhnPoker-v0", "iterations": 10, "entropies": (0.05, 0.2), "seeds": 3, "claimed": 0.2},
        "PPO in self-play with entropy 0.2 has a lower NashConv than PSRO after equal environment steps.",
    ),
    "ppo-leduc": Demonstration(
        self_play_curves,
        {"env_id": "LeducPoker-v0", "iterations": 25, "entropies": (0.05, 0.2), "seeds": 3, "claimed": 0.2},
        "PPO in self-play with entropy 0.2 has a lower NashConv than PSRO after equal environment steps.",
    ),
}


def main(argv: Sequence[str]) -> None:
    """Run the selected demonstrations and record the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shows", nargs="*", metavar="SHOW", help=f"some of {', '.join(SHOWS)}; none: all")
    parser.add_argument("--write", action="store_true", help="write only the page, from recorded results")
    parser.add_argument("--num-threads", type=int, default=1, help="torch threads (default: 1)")
    args = parser.parse_args(argv)
    if unknown := set(args.shows) - SHOWS.keys():
        parser.error(f"no show {', '.join(sorted(unknown))}; there are {', '.join(SHOWS)}")
    torch.set_num_threads(args.num_threads)
    for name in () if args.write else args.shows or SHOWS:
        show = SHOWS[name]
        began = time.perf_counter()
        about = {"commit": provenance.commit(), "date": date.today().isoformat(), "machine": provenance.machine()}
        result = show.run(**show.settings)
        settings = {key: list(value) if isinstance(value, tuple) else value for key, value in show.settings.items()}
        result |= {"settings": settings, "minutes": (time.perf_counter() - began) / 60, "threads": args.num_threads}
        RESULTS.write(name, _rounded({**result, **about}))
        print(name, json.dumps(result["met"]), f"{result['minutes']:.1f} min", flush=True)
    write_page()


def write_page() -> None:
    """Write docs/league.md from all recorded results."""
    files = {name: study_file(name) for name in STUDIES}
    studies = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    write(recorded(), {name: show.claim for name, show in SHOWS.items()}, studies)


def recorded() -> dict[str, Any]:
    """Return all recorded results by demonstration."""
    return RESULTS.read(SHOWS)


def _rounded(value: Any) -> Any:
    """Round floats to five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(sys.argv[1:])
