"""Train what `benchmarks/bars.py` lists, judge it, and write docs/learning.md and the model zoo.

python -m benchmarks.learning                       # all bars, then the page
python -m benchmarks.learning --only pendulum-sac   # some of them; the others stay as they were measured
python -m benchmarks.learning --write               # only the page and its pictures, from what is recorded
"""

import argparse
import fcntl
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
from benchmarks.bars import BARS, Bar, Goal
from benchmarks.learning_page import write
from trainers import checkpoint
from trainers.config import TrainConfig, make_eval_core, members_by_policy
from trainers.evaluate import Outcome, play
from trainers.logs import read_rows
from trainers.scripted import DeafListener

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
    """What the policies of a run reach by each goal, and what random and scripted ones do, as mean and half."""
    saved = checkpoint.load(run)
    config = TrainConfig.from_json(saved.config)
    core = make_eval_core(config, EPISODES, JUDGES)
    sides = members_by_policy(config, core)
    reached = []
    for goal in bar.goals:
        playing = {name: saved.policy(name) for name in sides if not goal.playing or name in goal.playing}
        players = {member: policy for name, policy in playing.items() for member in sides[name]}
        reached.append(_of(goal, play(core, players, JUDGES, goal.greedy)) if goal.of != "seconds" else None)
    chance, others = play(core, {}, JUDGES), {}
    if config.env_id == "SimpleSpeakerListener-v0":
        others["scripted"] = _returns(play(core, {"listener": DeafListener()}, JUDGES))
    return {"reached": reached, "others": {"random": _returns(chance), **others}}


def _of(goal: Goal, outcome: Outcome) -> list[float]:
    return _returns(outcome)[goal.of.removeprefix("return ")]


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


def verdict(goal: Goal, index: int, runs: Sequence[dict[str, Any]], peers: dict[str, Any]) -> dict[str, Any]:
    """Each seed's value, the end of its interval that counts, the bound, and whether all seeds reach it."""
    values, ends, bounds = [], [], []
    for run in runs:
        mean, half = run["reached"][index] or (run["wall"] if run["exit"] == 0 else math.inf, 0.0)
        values.append(mean)
        ends.append(mean + half if goal.below else mean - half)
        bound = goal.bound
        if bound == "jaxmarl":
            bound = statistics.fmean(peers["jaxmarl"]["returns"]) * peers["jaxmarl"]["agents"]
        elif isinstance(bound, str):
            mean, half = run["others"][bound][goal.of.removeprefix("return ")]
            bound = mean + half
        bounds.append(bound)
    met: bool | None = None
    if bounds[0] is not None:
        pairs = zip(ends, bounds, strict=True)
        met = all(end <= bound if goal.below else end >= bound for end, bound in pairs)
        met &= all(run["exit"] == 0 for run in runs)
    return {"of": goal.of, "playing": goal.playing, "values": values, "ends": ends, "bounds": bounds, "met": met}


def jaxmarl() -> dict[str, Any]:
    """What JaxMARL's settings learn, by `benchmarks.peers.inside.jaxmarl_learning` in the peer's own environment."""
    task = {"game": "MPE_simple_spread_v3", "worlds": 16, "steps": 1_000_000, "seeds": 3, "rate": 2.5e-3}
    python = origin.ROOT / "out" / "peers" / "jaxmarl" / "bin" / "python"
    command = [str(python), "-m", "benchmarks.peers.inside.jaxmarl_learning", json.dumps(task)]
    answer = subprocess.run(command, cwd=origin.ROOT, check=True, capture_output=True, text=True).stdout
    return {**json.loads(answer.splitlines()[-1]), "agents": 3, "command": shlex.join(command[1:]), "task": task}


def keep(bar: Bar, run: dict[str, Any]) -> None:
    """Put the policies of a run into the model zoo."""
    from trainers import zoo

    saved = checkpoint.load(Path(run["checkpoint"]))
    words = f"gpu-envs train {bar.options} --seed {run['seed']}"
    goals = [
        {"of": goal.of, "reached": reached, "playing": goal.playing, "greedy": goal.greedy}
        for goal, reached in zip(bar.goals, run["reached"], strict=True)
        if reached is not None
    ]
    about = {"command": words, "commit": origin.commit(), "episodes": EPISODES, "goals": goals, "others": run["others"]}
    zoo.put(bar.name, saved, about)


def main(argv: Sequence[str]) -> None:
    """Measure what is asked for and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [bar.name for bar in BARS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these bars")
    parser.add_argument("--write", action="store_true", help="nothing but the page, from what is recorded")
    parser.add_argument("--threads", help="OMP_NUM_THREADS of the runs, if not torch's own choice")
    args = parser.parse_args(argv)
    for bar in BARS if not args.write else ():
        if bar.name not in args.only:
            continue
        peers = {}
        if any(goal.bound == "jaxmarl" for goal in bar.goals):
            peers = {"jaxmarl": recorded().get("jaxmarl") or jaxmarl()}
            _record(peers)
        runs = []
        for seed in range(bar.seeds):
            runs.append(learn(bar, seed, args.threads))
            shown = {key: value for key, value in runs[-1].items() if key != "curve"}
            print(bar.name, json.dumps(shown), flush=True)
        if bar.zoo:
            keep(bar, runs[0])
        for run in runs:
            del run["checkpoint"]
        goals = [verdict(goal, index, runs, peers) for index, goal in enumerate(bar.goals)]
        for goal in goals:
            print(bar.name, json.dumps(goal), flush=True)
        about = {"options": bar.options, "commit": origin.commit(), "date": date.today().isoformat()}
        _record({bar.name: {"runs": runs, "goals": goals, **about, "machine": origin.machine()}})
    write(recorded(), BARS)


def recorded() -> dict[str, Any]:
    """All results so far, by bar; "jaxmarl" is the peer's."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def _record(new: dict[str, Any]) -> None:
    """Adds results; several processes may measure different bars at once."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with (RESULTS.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = recorded() | new
        order = ["jaxmarl", *(bar.name for bar in BARS)]
        lines = [f"{json.dumps(name)}: {json.dumps(results[name])}" for name in order if name in results]
        temporary = RESULTS.with_suffix(".tmp")
        temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n")  # a line per bar
        temporary.replace(RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
