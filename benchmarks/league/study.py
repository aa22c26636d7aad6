"""Study of leagues and joint PPO at equal environment steps: exploitability and cross-play.

Every method trains policies within the same number of environment steps. Then best responses of a fixed budget are
trained against its frozen mixture: a lower bound on NashConv. In a small game NashConv is exact instead. Results are
added to `benchmarks/results/league/study-NAME.json` after every training, and a second call continues. Policies stay in
`out/study/NAME` for cross-play. Two processes with different `--seeds` may run at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.hardware import provenance
from benchmarks.league.cross_play import Side, cross_play
from benchmarks.league.study_methods import train_config, train_method
from benchmarks.league.study_section import JOINT
from benchmarks.league.study_settings import STUDIES, Study, study_file
from league.evaluation.approximate_exploitability import approximate_exploitability
from league.evaluation.tabular_game import TabularGame
from league.policies.kinds import KINDS, kind_of
from trainers.models.policy import Policy

__all__ = ["main", "measure", "run_study"]


def run_study(
    name: str, methods: Sequence[str], seeds: Sequence[int], commit: str = "", remeasure: bool = False
) -> None:
    """Run the missing trainings of a study, then cross-play if all are there and some are new.

    Args:
        name: Name of the study.
        methods: Methods, those before the ones that refer to them.
        seeds: Random seeds.
        commit: Commit of the code of this process; empty: the present one.
        remeasure: Measure the exploitability of recorded trainings again.
    """
    study, commit = STUDIES[name], commit or provenance.commit()
    for seed in seeds:
        for method in methods:
            row = recorded_run(name, study, method, seed)
            if seed in study.seeds(method) and row is None:
                _record(name, method, seed, _train(name, study, method, seed, commit))
            elif remeasure and row is not None:
                _record(name, method, seed, row | {"sides": _measured(name, study, method, seed, row["sides"])})
    runs = {
        label: [recorded_run(name, study, label, seed) for seed in study.seeds(label)] for label in study.compared()
    }
    seconds = {method: [row and row["processor_seconds"] for row in rows] for method, rows in runs.items()}
    if all(map(all, seconds.values())) and _read(name).get("cross_play", {}).get("runs") != seconds:
        table = _cross_play(name, study, runs) | {"runs": seconds, "commit": commit, "date": date.today().isoformat()}
        _change(name, lambda result: result | {"cross_play": table})


def recorded_run(name: str, study: Study, method: str, seed: int) -> dict[str, Any] | None:
    """Return the results of a training with the present settings; None if it is missing."""
    row = _read(name)["runs"].get(method, {}).get(str(seed))
    return row if row is not None and row["settings"] == study.settings_of(method) else None


def measure(study: Study, side: Side, seed: int) -> dict[str, Any]:
    """Return NashConv of a mixture: exact in a small game, else a lower bound by learned best responses.

    A response that loses against the mixture counts as no gain, because a seat can keep its mixture.
    """
    game = study.game()
    tabular = TabularGame.of(game)
    if tabular is not None:
        policies = {role: list(population) for role, population in side.policies.items()}
        value = tabular.nash_conv(policies, [side.weights[seat.role] for seat in game.seats])
        return {"nash_conv": value}
    train = dataclasses.replace(train_config(game, study.overrides()), total_steps=study.budget)
    start: dict[str, Policy] = {}
    for role, weights in side.weights.items():
        policy = side.policies[role][int((weights == weights.max()).nonzero()[-1])]  # the latest of the most probable
        if isinstance(policy, Policy):
            start[role] = policy
    marginals = [side.weights[seat.role] for seat in game.seats]
    bound = approximate_exploitability(
        game, side.policies, marginals, train, episodes=study.episodes, seed=seed, start=start
    )
    gains = {estimate.seat: [estimate.value, estimate.response, estimate.gain] for estimate in bound.seats}
    nash_conv = sum(max(estimate.gain, 0.0) for estimate in bound.seats)
    return {"nash_conv": nash_conv, "half_width": bound.half_width, "seats": gains, "seconds": bound.seconds}


def _train(name: str, study: Study, method: str, seed: int, commit: str) -> dict[str, Any]:
    """Train a method, save its policies, and return the results."""
    about, game, steps = study.methods[method], study.game(), study.steps
    if about.equal != "steps":
        like, joint = (recorded_run(name, study, reference, seed) for reference in (about.like, JOINT))
        if like is None or joint is None:
            raise SystemExit(
                f"{method}, seed {seed}: expected recorded runs of {about.like} and {JOINT}; run them first"
            )
        if about.equal == "samples":
            steps = like["samples"] // len(game.roles)
        else:
            steps = round(joint["steps"] * like["processor_seconds"] / joint["processor_seconds"])
    trained, seconds, used = train_method(about.kind, game, steps, seed, about.settings, study.overrides())
    for side_name, side in trained.sides.items():
        _save(_folder(name, method, side_name, seed), side)
    row: dict[str, Any] = {
        "commit": commit,
        "date": date.today().isoformat(),
        "machine": provenance.machine(),
        "settings": study.settings_of(method),
        "steps": trained.steps,
        "samples": trained.samples,
        "episodes": trained.episodes,
        "seconds": seconds,
        "processor_seconds": used,
        "sides": _measured(name, study, method, seed, trained.sides),
    }
    summary = {key: round(side_row["nash_conv"], 3) for key, side_row in row["sides"].items()}
    print(name, method, seed, f"{trained.steps:,} steps {seconds:.0f} s", summary, flush=True)
    return row


def _measured(name: str, study: Study, method: str, seed: int, sides: Iterable[str]) -> dict[str, Any]:
    """Return the exploitability of the saved sides of a training."""
    rows = {}
    for side_name in sides:
        side = _load(_folder(name, method, side_name, seed))
        rows[side_name] = measure(study, side, seed)
        rows[side_name]["policies"] = {role: len(population) for role, population in side.policies.items()}
    return rows


def _record(name: str, method: str, seed: int, row: dict[str, Any]) -> None:
    """Add the results of a training."""

    def add(result: dict[str, Any]) -> dict[str, Any]:
        result["runs"].setdefault(method, {})[str(seed)] = row
        return result

    _change(name, add)


def _cross_play(name: str, study: Study, runs: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Play populations and joint PPO against joint PPO, all seeds against all: returns as tables of seeds."""
    sides, places = list[Side](), dict[str, list[int]]()
    for method, rows in runs.items():
        for side_name in rows[0]["sides"]:
            folders = [_folder(name, method, side_name, seed) for seed in range(len(rows))]
            places[f"{method}, {side_name}" if side_name else method] = list(range(len(sides), len(sides) + len(rows)))
            sides += map(_load, folders)
    populations = [label for label in places if label in study.methods and study.methods[label].population]
    baselines = [label for label in places if label not in populations]
    keys = [(player, other) for other in baselines for player in (*populations, other)]
    keys += [(other, player) for player, other in keys if player != other]
    pairs = [(a, b) for player, other in keys for a in places[player] for b in places[other]]
    outcome = cross_play(study.game(), sides, pairs, study.cross_play_episodes)
    tables: dict[str, dict[str, Any]] = {}
    start = 0
    for first, second in keys:
        shape = (len(places[first]), len(places[second]))
        part = outcome.mean[start : start + shape[0] * shape[1]].reshape(*shape, 2)
        start += shape[0] * shape[1]
        tables.setdefault(first, {})[second] = part.permute(2, 0, 1).tolist()
    # by side in the first seat and side in the second: (seat, seed of the first, seed of the second)
    return {"returns": tables, "episodes": study.cross_play_episodes}


def _folder(name: str, method: str, side: str, seed: int) -> Path:
    parts = [part.replace(" ", "-").replace(",", "") for part in (method, side or "mixture")]
    return provenance.ROOT / "out" / "study" / name / "-".join([*parts, str(seed)])


def _save(folder: Path, side: Side) -> None:
    """Write the policies and weights of a side to a folder, which is complete or missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent))
    kinds: dict[str, list[str]] = {}
    for role, policies in side.policies.items():
        kinds[role] = [kind_of(policy) for policy in policies]
        for index, policy in enumerate(policies):
            policy.save(partial / f"{role}-{index}")  # pyright: ignore[reportAttributeAccessIssue]
    weights = {role: marginal.tolist() for role, marginal in side.weights.items()}
    (partial / "side.json").write_text(json.dumps({"kinds": kinds, "weights": weights}))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _load(folder: Path) -> Side:
    """Read a side; exit with a message if the folder is missing, as in a new clone."""
    if not folder.exists():
        raise SystemExit(f"{folder}: expected the policies of a recorded training, got none; remove its results")
    about = json.loads((folder / "side.json").read_text())
    policies = {
        role: [KINDS[kind](folder / f"{role}-{index}", "cpu") for index, kind in enumerate(kinds)]
        for role, kinds in about["kinds"].items()
    }
    return Side(
        policies, {role: torch.tensor(marginal, dtype=torch.float64) for role, marginal in about["weights"].items()}
    )


def _read(name: str) -> dict[str, Any]:
    file = study_file(name)
    return json.loads(file.read_text()) if file.exists() else {"runs": {}}


def _change(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the results of a study; other processes wait."""
    file = study_file(name)
    with (file.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = change(_read(name)) | {"settings": STUDIES[name].to_json()}
        temporary = file.with_suffix(".tmp")
        temporary.write_text(_format(result))
        temporary.replace(file)


def _format(result: dict[str, Any]) -> str:
    """Return the results as JSON with a line per run, floats rounded to six digits."""
    rounded = json.loads(json.dumps(result), parse_float=lambda text: float(f"{float(text):.6g}"))
    runs = rounded.pop("runs")
    lines = [
        f'"{method}": {{\n'
        + ",\n".join(f'"{seed}": {json.dumps(runs[method][seed])}' for seed in sorted(runs[method], key=int))
        + "\n}"
        for method in sorted(runs)
    ]
    entries = "".join(f',\n"{key}": {json.dumps(value)}' for key, value in sorted(rounded.items()))
    return '{"runs": {\n' + ",\n".join(lines) + "\n}" + entries + "}\n"


def main(argv: Sequence[str]) -> None:
    """Run a study, and write its section of docs/league.md."""
    from benchmarks.league.demonstrations import write_page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=tuple(STUDIES))
    parser.add_argument("--methods", nargs="*", help="some of the study's methods (default: all)")
    parser.add_argument("--seeds", nargs="*", type=int, help="some of the seeds (default: all)")
    parser.add_argument("--measure", action="store_true", help="measure the exploitability of recorded policies again")
    parser.add_argument("--write", action="store_true", help="write only the page, from recorded results")
    args = parser.parse_args(argv)
    methods = STUDIES[args.study].methods
    if unknown := set(args.methods or ()) - methods.keys():
        parser.error(f"no method {', '.join(sorted(unknown))}; expected some of {'; '.join(methods)}")
    if wrong := set(args.seeds or ()) - set(range(STUDIES[args.study].num_seeds)):
        parser.error(f"--seeds: expected some of 0 to {STUDIES[args.study].num_seeds - 1}, got {min(wrong)}")
    torch.set_num_threads(1)
    began, commit = time.perf_counter(), provenance.commit()  # before the code can change
    if not args.write:
        seeds = range(STUDIES[args.study].num_seeds) if args.seeds is None else args.seeds
        run_study(args.study, args.methods or list(methods), seeds, commit, args.measure)
        print(f"{args.study}: {(time.perf_counter() - began) / 60:.1f} minutes", flush=True)
    write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
