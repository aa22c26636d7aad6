"""Check that two revisions train, play and grow leagues with equal results, bit for bit, on this machine.

    python tests/house/compare_revisions.py BEFORE [AFTER] [--only NAME ...]
    python tests/house/compare_revisions.py BEFORE [AFTER] --speed

Each revision is checked out into a temporary folder and runs the same small tasks with the same seeds in processes of
its own. Metrics, the tensors of checkpoints and policies, and the tables of leagues are compared by value, since names
of columns and tensors may differ. AFTER defaults to HEAD. Exits with 1 at a difference. Digests are not recorded, since
they depend on the CPU.

With --speed the time of ``env.step(actions)`` is compared instead: one process per revision, in turns, with the order
of the two changing from round to round. Exits with 1 if the median ratio after / before is above 1.01.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[2]
MAIN = "import sys; from gpu_envs.cli import main; sys.exit(main(sys.argv[1:]))"
CLOCKS = ("seconds", "time/", "per_second")
"""Parts of the names of columns that measure time."""


TRAIN = "--device cpu --no-video --eval-episodes 0 --seed 3"
LEAGUE = "--device cpu --seed 3"
OVERRIDES = " ".join(
    f"--train-overrides {text}" for text in ("num_envs=16", "learner.rollout_length=8", "total_steps=1024")
)
REPLAY = "--learner.learning-starts 500"
RUNS = {
    "ppo": f"train SimpleTag-v0 --algorithm ppo --num-envs 32 --total-steps 8000 {TRAIN}",
    "dqn": f"train CartPole-v1 --algorithm dqn --num-envs 16 --total-steps 6000 {REPLAY} {TRAIN}",
    "qmix": f"train TwoStepGame-v0 --algorithm qmix --num-envs 16 --total-steps 4000 {REPLAY} {TRAIN}",
    "psro": f"league train KuhnPoker-v0 --iterations 3 --episodes-per-matchup 200 {OVERRIDES} {LEAGUE}",
    "psro-exact": f"league train KuhnPoker-v0 --iterations 5 --oracle exact --episodes-per-matchup 200 {LEAGUE}",
    "alphastar": (
        "league train SimpleTag-v0 --algorithm alphastar --iterations 2 --steps 1024 --episodes-per-matchup 50 "
        f"--env-arg max_cycles=10 {OVERRIDES} {LEAGUE}"
    ),
}


def unpack(revision: str, tree: Path) -> None:
    """Write the files of a revision, and the entry points of its commands, into a folder."""
    tree.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x"], cwd=tree, input=archive, check=True)
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # First on the path, it stands for the package that is installed.
    info = tree / "gpu_envs-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gpu-envs\nVersion: 0\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {point}" for name, point in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


def tensors(folder: Path) -> Counter[str]:
    """Return the digests of all tensors under a folder."""
    counts: Counter[str] = Counter()
    for file in folder.rglob("*.safetensors"):
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118  # not a dict
                value = opened.get_tensor(name)
                counts[f"{value.shape} {value.dtype} {hashlib.sha256(value.tobytes()).hexdigest()[:16]}"] += 1
    return counts


def metrics(folder: Path) -> Counter[tuple[str, ...]]:
    """Return the columns of metrics.csv by value, without the clocks' columns."""
    file = folder / "metrics.csv"
    if not file.exists():
        return Counter()
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    columns = [name for name in rows[0] if not any(part in name for part in CLOCKS)]
    return Counter(tuple(row[name] for row in rows) for name in columns)


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yield the numbers of a JSON value."""
    if any(part in path for part in CLOCKS):
        return
    if isinstance(value, dict):
        for name, child in value.items():
            yield from leaves(child, name)
    elif isinstance(value, list):
        for child in value:
            yield from leaves(child, path)
    elif isinstance(value, int | float):
        yield repr(value)


def tables(folder: Path) -> dict[str, Any]:
    """Return payoff cells, matches and the numbers of summaries of a league."""
    file = folder / "league.db"
    if not file.exists():
        return {}
    with sqlite3.connect(file) as db:
        return {
            "cells": sorted(db.execute("SELECT matchup, seat, count, total, square, score FROM cells")),
            "matches": sorted(db.execute("SELECT iteration, role, matchup, count FROM matches")),
            "summaries": Counter(
                leaf for (text,) in db.execute("SELECT summary FROM iterations") for leaf in leaves(json.loads(text))
            ),
        }


def play(tree: Path, command: str, folder: Path) -> dict[str, Any]:
    """Run ``gpu-envs`` in a checkout and return what it wrote, by value."""
    # The folder of the script is on no path: the checkout comes before an installed package.
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", MAIN, *command.split(), "--run-dir", str(folder)]
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: gpu-envs {command} failed:\n{done.stderr[-2000:]}")
    return {"metrics": metrics(folder), "tensors": tensors(folder), **tables(folder)}


PROBE = """
import sys, time, torch, gpu_envs
torch.set_num_threads(1)
env = gpu_envs.make("SimpleTag-v0", num_envs=int(sys.argv[1]), device="cpu", threads=1, reuse_buffers=True)
env.reset(seed=0)
actions = {agent: torch.ones(int(sys.argv[1]), dtype=torch.int64) for agent in env.agents}
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        env.step(actions)
    print(time.perf_counter() - start, flush=True)
"""
"""Program that measures seconds for the numbers of steps that it reads."""
ROUNDS, ROUND_SECONDS, MAX_RATIO = 61, 0.15, 1.01


def compare_speed(trees: dict[str, Path]) -> int:
    """Print the time of ``env.step`` in two checkouts; return 1 if the second is slower by more than 1 %."""
    slower = 0
    for num_envs in (1, 64):
        probes = {}
        for name, tree in trees.items():
            environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
            probes[name] = subprocess.Popen(
                [sys.executable, "-c", PROBE, str(num_envs)],
                cwd=tree,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

        def seconds(name: str, steps: int, probes: dict[str, Any] = probes) -> float:
            print(steps, file=probes[name].stdin, flush=True)
            return float(probes[name].stdout.readline())

        steps = max(100, int(ROUND_SECONDS / (max(seconds(name, 2000) for name in trees) / 2000)))
        rows = []
        for number in range(ROUNDS):
            order = list(trees) if number % 2 else list(trees)[::-1]
            times = {name: seconds(name, steps) for name in order}
            rows.append([times["before"] / steps * 1e6, times["after"] / steps * 1e6])
        for probe in probes.values():
            probe.communicate()
        low, ratio, high = statistics.quantiles([after / baseline for baseline, after in rows], n=4)
        baseline, after = (statistics.median(column) for column in zip(*rows, strict=True))
        slower += ratio > MAX_RATIO
        print(
            f"SimpleTag-v0, {num_envs} worlds: {baseline:.2f} -> {after:.2f} us per env.step (medians of {ROUNDS}); "
            f"ratio {ratio:.3f}, quartiles {low:.3f} to {high:.3f}",
            flush=True,
        )
    return int(slower > 0)


def main(argv: list[str] | None = None) -> int:
    """Compare two revisions; return 1 if any result differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="revision to compare with")
    parser.add_argument("after", nargs="?", default="HEAD", help="revision to check")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="tasks to run")
    parser.add_argument("--speed", action="store_true", help="compare the time of env.step instead")
    arguments = parser.parse_args(argv)
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        trees = {}
        for name in ("before", "after"):
            trees[name] = Path(folder, name)
            unpack(getattr(arguments, name), trees[name])
        if arguments.speed:
            return compare_speed(trees)
        for task in arguments.only:
            results = {name: play(tree, RUNS[task], Path(folder, f"{task}-{name}")) for name, tree in trees.items()}
            for part, value in results["before"].items():
                equal = value == results["after"][part]
                differences += not equal
                print(f"{task:12} {part:10} {'equal' if equal else 'DIFFERENT'} ({len(value)} values)", flush=True)
                if not equal and isinstance(value, Counter):
                    print(f"    only before: {list(value - results['after'][part])[:5]!s:.600}")
                    print(f"    only after:  {list(results['after'][part] - value)[:5]!s:.600}")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
