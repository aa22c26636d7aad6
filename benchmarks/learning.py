"""Train what `benchmarks/bars.py` lists, judge it, and write docs/learning.md and the model zoo.

python -m benchmarks.learning                       # all bars, then the page
python -m benchmarks.learning --only pendulum-sac   # some of them; the others stay as they were measured
python -m benchmarks.learning --write               # only the page and its pictures, from what is recorded
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import origin
from benchmarks.bars import BARS, Bar
from benchmarks.learning_page import write
from trainers import checkpoint
from trainers.config import TrainConfig, make_eval_core, members_by_policy
from trainers.evaluate import Outcome, play
from trainers.logs import read_rows

OUT = origin.ROOT / "out" / "learning"
RESULTS = origin.ROOT / "benchmarks" / "results" / "learning" / "bars.json"
EPISODES = 1024
"""Judged per seed, one per world."""
JUDGES = 577_215
"""Seed of the judged episodes, of no training."""
POINTS = 50
"""Points of a curve that are kept."""


def learn(bar: Bar, seed: int, threads: str | None) -> dict[str, Any]:
    """Run one seed of a bar and judge it."""
    out = OUT / bar.name / f"{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    options = [*shlex.split(bar.options), "--seed", str(seed), "--out", str(out), "--no-video"]
    begin = time.perf_counter()
    run = subprocess.run(
        [str(Path(sys.executable).with_name("gpu-envs")), "train", *options],
        check=False,
        cwd=origin.ROOT,
        env={**os.environ, **({"OMP_NUM_THREADS": threads} if threads else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wall = time.perf_counter() - begin
    (out / "output.txt").write_text(run.stdout)
    rows = read_rows(out / "metrics.csv")
    result: dict[str, Any] = {"seed": seed, "exit": run.returncode, "wall": wall, "steps": int(rows[-1]["steps"])}
    result |= {"seconds": float(rows[-1]["seconds"]), "curve": _curve(rows), "checkpoint": str(checkpoint.find(out))}
    return result | judge(bar, out)


def judge(bar: Bar, run: Path) -> dict[str, Any]:
    """What the policies of a run reach, and what random ones do."""
    saved = checkpoint.load(run)
    config = TrainConfig.from_json(saved.config)
    core = make_eval_core(config, EPISODES, JUDGES)
    sides = members_by_policy(config, core)
    players = {
        member: saved.policy(name)
        for name, members in sides.items()
        if not bar.versus or name in bar.versus
        for member in members
    }
    learned, chance = play(core, players, JUDGES, bar.greedy), play(core, {}, JUDGES)
    return {"returns": _returns(learned), "random": _returns(chance), "length": learned.length.mean}


def _returns(outcome: Outcome) -> dict[str, list[float]]:
    return {group: [estimate.mean, estimate.half] for group, estimate in outcome.returns.items()}


def _curve(rows: Sequence[dict[str, str]]) -> dict[str, list[list[float]]]:
    """Steps and return per agent, by group, thinned out."""
    curve = {}
    for column in rows[0]:
        if column.endswith("/return_per_agent"):
            points = [[int(row["steps"]), float(row[column])] for row in rows if row[column]]
            every = max(1, math.ceil(len(points) / POINTS))
            curve[column.rpartition("/")[0]] = [points[0], *points[every::every]] if points else []
    return curve


def verdict(bar: Bar, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each seed's value, with the end of its interval that counts, and whether all of them reach the bound."""
    values, ends = [], []
    for run in runs:
        if bar.of == "seconds":
            values.append(run["wall"])
            ends.append(run["wall"] if run["exit"] == 0 else math.inf)
        else:
            mean, half = run["returns"][bar.of.removeprefix("return ")]
            values.append(mean)
            ends.append(mean + half if bar.below else mean - half)
    met: bool | None = None
    if bar.bound is not None:
        met = all(end <= bar.bound if bar.below else end >= bar.bound for end in ends)
        met &= all(run["exit"] == 0 for run in runs)
    return {"values": values, "ends": ends, "mean": statistics.fmean(values), "met": met}


def keep(bar: Bar, run: dict[str, Any]) -> None:
    """Put the policies of a run into the model zoo."""
    from trainers import zoo

    saved = checkpoint.load(Path(run["checkpoint"]))
    words = f"gpu-envs train {bar.options} --seed {run['seed']}"
    about = {"command": words, "commit": origin.commit(), "returns": run["returns"], "random": run["random"]}
    zoo.put(bar.name, saved, {**about, "episodes": EPISODES, "greedy": bar.greedy})


def main(argv: Sequence[str]) -> None:
    """Measure what is asked for and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [bar.name for bar in BARS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these bars")
    parser.add_argument("--write", action="store_true", help="nothing but the page, from what is recorded")
    parser.add_argument("--threads", help="OMP_NUM_THREADS of the runs, if not torch's own choice")
    args = parser.parse_args(argv)
    recorded: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for bar in BARS if not args.write else ():
        if bar.name not in args.only:
            continue
        runs = []
        for seed in range(bar.seeds):
            runs.append(learn(bar, seed, args.threads))
            shown = {key: value for key, value in runs[-1].items() if key != "curve"}
            print(bar.name, json.dumps(shown), flush=True)
        if bar.zoo:
            keep(bar, runs[0])
        for run in runs:
            del run["checkpoint"]
        recorded[bar.name] = {
            "runs": runs,
            **verdict(bar, runs),
            **{"options": bar.options, "of": bar.of, "bound": bar.bound, "greedy": bar.greedy},
            **{"commit": origin.commit(), "date": date.today().isoformat(), "machine": origin.machine()},
        }
        _record({name: recorded[name] for name in names if name in recorded})
    write(recorded, BARS)


def _record(results: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    lines = (f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items())  # a line per bar
    temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    temporary.replace(RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
