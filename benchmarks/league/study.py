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
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.hardware import provenance
from benchmarks.league.cross_play import Side, cross_play
from benchmarks.league.study_methods import train_config, train_method
from benchmarks.league.study_settings import STUDIES, Study, study_file
from league.evaluation.approximate_exploitability import approximate_exploitability
from league.evaluation.tabular_game import TabularGame
from league.policies.kinds import KINDS, kind_of
from trainers.models.policy import Policy

__all__ = ["main", "measure", "run_study"]


def run_study(name: str, methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Run the missing trainings of a study, then cross-play if all are there."""
    study = STUDIES[name]
    for seed in seeds:
        for method in methods:
            if seed < study.methods[method].seeds and str(seed) not in _read(name)["runs"].get(method, {}):
                _run(name, study, method, seed)
    recorded = _read(name)["runs"]
    if all(len(recorded.get(each, {})) >= study.methods[each].seeds for each in study.compared()):
        _change(name, lambda result: result | {"cross_play": _cross_play(name, study)})


def measure(study: Study, side: Side, seed: int) -> dict[str, Any]:
    """Return NashConv of a mixture: exact in a small game, else a lower bound by learned best responses."""
    game = study.game()
    tabular = TabularGame.of(game)
    if tabular is not None:
        policies = {role: list(own) for role, own in side.policies.items()}
        value = tabular.nash_conv(policies, [side.weights[seat.role] for seat in game.seats])
        return {"nash_conv": value}
    train = dataclasses.replace(train_config(game, study.overrides()), total_steps=study.budget)
    start: dict[str, Policy] = {}
    for role, weights in side.weights.items():
        found = side.policies[role][int((weights == weights.max()).nonzero()[-1])]  # the latest of the most probable
        if isinstance(found, Policy):
            start[role] = found
    marginals = [side.weights[seat.role] for seat in game.seats]
    bound = approximate_exploitability(
        game, side.policies, marginals, train, episodes=study.episodes, seed=seed, start=start
    )
    gains = {each.seat: [each.value, each.response, each.gain] for each in bound.seats}
    return {"nash_conv": bound.nash_conv, "half_width": bound.half_width, "seats": gains, "seconds": bound.seconds}


def _run(name: str, study: Study, method: str, seed: int) -> None:
    """Train a method, measure the exploitability of its policies, and record both."""
    about, game = study.methods[method], study.game()
    steps = round(study.steps * about.share_of_steps)
    if about.as_long_as is not None:
        known = _read(name)["runs"]
        own, longest = known[about.speed_of][str(seed)], known[about.as_long_as][str(seed)]
        steps = round(own["steps"] * longest["processor_seconds"] / own["processor_seconds"])
    found, seconds, used = train_method(about.kind, game, steps, seed, about.settings, study.overrides())
    row: dict[str, Any] = {
        "commit": provenance.commit(),
        "date": date.today().isoformat(),
        "machine": provenance.machine(),
        "steps": found.steps,
        "episodes": found.episodes,
        "seconds": seconds,
        "processor_seconds": used,
        "sides": {},
    }
    for side_name, side in found.sides.items():
        row["sides"][side_name] = measure(study, side, seed) if about.measured else {}
        row["sides"][side_name]["policies"] = {role: len(own) for role, own in side.policies.items()}
        _save(_folder(name, method, side_name, seed), side)
    shown = {key: round(each["nash_conv"], 3) for key, each in row["sides"].items() if "nash_conv" in each}
    print(name, method, seed, f"{found.steps:,} steps {seconds:.0f} s", shown, flush=True)

    def add(result: dict[str, Any]) -> dict[str, Any]:
        result["runs"].setdefault(method, {})[str(seed)] = row
        return result

    _change(name, add)


def _cross_play(name: str, study: Study) -> dict[str, Any]:
    """Play populations against joint PPO, all seeds against all: returns of each seat as tables of seeds."""
    game, recorded = study.game(), _read(name)["runs"]
    sides, places = list[Side](), dict[str, list[int]]()
    for method in study.compared():
        for side_name in recorded[method]["0"]["sides"]:
            label = f"{method}, {side_name}" if side_name else method
            places[label] = []
            for seed in range(study.methods[method].seeds):
                places[label].append(len(sides))
                sides.append(_load(_folder(name, method, side_name, seed)))
    populations = [label for label in places if study.methods[label.split(",")[0]].population]
    baselines = [label for label in places if label not in populations]
    pairs, keys = list[tuple[int, int]](), list[tuple[str, str]]()
    for one in populations:
        for other in baselines:
            keys += [(one, other), (other, one)]
            pairs += [(a, b) for a in places[one] for b in places[other]]
            pairs += [(b, a) for b in places[other] for a in places[one]]
    found = cross_play(game, sides, pairs, study.cross_play_episodes)
    tables: dict[str, dict[str, Any]] = {}
    start = 0
    for first, second in keys:
        shape = (len(places[first]), len(places[second]))
        part = found.mean[start : start + shape[0] * shape[1]].reshape(*shape, 2)
        start += shape[0] * shape[1]
        tables.setdefault(first, {})[second] = part.permute(2, 0, 1).tolist()
    return {
        "returns": tables,  # by side in the first seat and side in the second: (seat, seed of first, seed of second)
        "episodes": study.cross_play_episodes,
        "commit": provenance.commit(),
        "date": date.today().isoformat(),
    }


def _folder(name: str, method: str, side: str, seed: int) -> Path:
    parts = [each.replace(" ", "-").replace(",", "") for each in (method, side or "mixture")]
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
    weights = {role: own.tolist() for role, own in side.weights.items()}
    (partial / "side.json").write_text(json.dumps({"kinds": kinds, "weights": weights}))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _load(folder: Path) -> Side:
    about = json.loads((folder / "side.json").read_text())
    policies = {
        role: [KINDS[kind](folder / f"{role}-{index}", "cpu") for index, kind in enumerate(kinds)]
        for role, kinds in about["kinds"].items()
    }
    return Side(policies, {role: torch.tensor(own, dtype=torch.float64) for role, own in about["weights"].items()})


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
    others = "".join(f',\n"{key}": {json.dumps(value)}' for key, value in sorted(rounded.items()))
    return '{"runs": {\n' + ",\n".join(lines) + "\n}" + others + "}\n"


def main(argv: Sequence[str]) -> None:
    """Run a study, and write its section of docs/league.md."""
    from benchmarks.league.demonstrations import write_page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=tuple(STUDIES))
    parser.add_argument("--methods", nargs="*", help="some of the study's methods (default: all)")
    parser.add_argument("--seeds", nargs="*", type=int, help="some of the seeds (default: all)")
    parser.add_argument("--write", action="store_true", help="write only the page, from recorded results")
    args = parser.parse_args(argv)
    methods = STUDIES[args.study].methods
    if unknown := set(args.methods or ()) - methods.keys():
        parser.error(f"no method {', '.join(sorted(unknown))}; expected some of {'; '.join(methods)}")
    torch.set_num_threads(1)
    began = time.perf_counter()
    if not args.write:
        seeds = range(max(each.seeds for each in methods.values())) if args.seeds is None else args.seeds
        run_study(args.study, args.methods or list(methods), seeds)
        print(f"{args.study}: {(time.perf_counter() - began) / 60:.1f} minutes", flush=True)
    write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
