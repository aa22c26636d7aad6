"""Speed of updates with both engines, the table that `engine = "auto"` follows.

    python -m benchmarks.training.engines

Two learners of PPO with equal settings take turns with whole updates of the same rollout: values, advantages and four
epochs of four minibatches. Writes `trainers/algorithms/on_policy/engine_table.json`. Both engines use one thread.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from gymnasium import spaces

from benchmarks.hardware import provenance
from benchmarks.training.ppo import few_cores
from trainers.algorithms.on_policy.engine_table import TABLE, MeasuredUpdate
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec

INPUTS, LAYERS, WIDTHS, ROWS = (4, 18, 128, 512), (1, 2, 3), (16, 32, 64, 128), (64, 512, 4096)
"""The grid: observation widths, hidden layers and their widths, rows of a minibatch."""
CHOICES, EPOCHS, MINIBATCHES = 5, 4, 4
LEAST_SECONDS = 0.02
"""Shortest turn; short updates are repeated in it."""


def make_learner(engine: str, inputs: int, hidden_sizes: Sequence[int], rows: int) -> PPO:
    """Return a learner with a stored rollout of random observations, actions, rewards and a few ends of episodes."""
    num_envs = min(64, rows)
    config = PPOConfig(
        rollout_length=rows * MINIBATCHES // num_envs,
        num_epochs=EPOCHS,
        num_minibatches=MINIBATCHES,
        hidden_sizes=tuple(hidden_sizes),
    )
    spec = LearnerSpec(inputs, spaces.Discrete(CHOICES), num_envs, 1, total_steps=10**12, engine=engine)
    learner, generator = PPO(config, spec), torch.Generator().manual_seed(0)
    r = learner.rollout
    r.all_obs.normal_(generator=generator)
    r.reward.normal_(generator=generator)
    r.action.random_(CHOICES, generator=generator)
    r.log_prob.fill_(-torch.tensor(float(CHOICES)).log())
    r.valid.fill_(True)
    r.terminated.bernoulli_(0.01, generator=generator)
    return learner


def seconds_per_update(learner: PPO, count: int) -> float:
    """Return the seconds of one of `count` updates with the stored rollout."""
    begin = time.perf_counter()
    for _ in range(count):
        learner.rollout.t = learner.rollout.length
        learner.update()
    return (time.perf_counter() - begin) / count


def measure(inputs: int, hidden_sizes: Sequence[int], rows: int, repeats: int) -> MeasuredUpdate:
    """Return the ratio of the engines' times, the median of adjacent pairs of turns."""
    threads = torch.get_num_threads()
    with few_cores(1):
        learners = {engine: make_learner(engine, inputs, hidden_sizes, rows) for engine in ("torch", "kernel")}
        for learner in learners.values():  # the first update compiles
            seconds_per_update(learner, 1)
        counts = {
            engine: max(1, round(LEAST_SECONDS / seconds_per_update(learner, 1)))
            for engine, learner in learners.items()
        }
        ratios, order = [], list(learners)
        for _ in range(repeats):
            order.reverse()
            seconds = {engine: seconds_per_update(learners[engine], counts[engine]) for engine in order}
            ratios.append(seconds["torch"] / seconds["kernel"])
    torch.set_num_threads(threads)
    return MeasuredUpdate(inputs, len(hidden_sizes), hidden_sizes[0], rows, float(f"{statistics.median(ratios):.3g}"))


def main(argv: Sequence[str]) -> int:
    """Measure the grid and write the table; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7, help="pairs of turns per entry (default: 7)")
    parser.add_argument("--output", type=Path, default=TABLE, help="file to write (default: the table of the package)")
    for name, values in (("inputs", INPUTS), ("layers", LAYERS), ("widths", WIDTHS), ("rows", ROWS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=values, help=f"(default: {values})")
    args = parser.parse_args(argv)
    entries = []
    for inputs, layers, width in itertools.product(args.inputs, args.layers, args.widths):
        for rows in args.rows:
            entries.append(measure(inputs, (width,) * layers, rows, args.repeats))
            print(entries[-1], flush=True)
    write(args.output, entries, shlex.join(["python", "-m", "benchmarks.training.engines", *argv]))
    return 0


def write(path: Path, entries: Sequence[MeasuredUpdate], command: str) -> None:
    """Write the table, a line per entry."""
    machine = {**provenance.machine(), "threads": 1}
    about = {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": provenance.commit(),
        "machine": machine,
    }
    lines = ",\n".join(f"   {json.dumps(vars(entry))}" for entry in entries)
    head = json.dumps(about, indent=1, ensure_ascii=False)[:-2]
    path.write_text(f'{head},\n "devices": {{\n  "cpu": [\n{lines}\n  ]\n }}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
