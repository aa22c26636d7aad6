"""Train the policies of the model zoo again, or evaluate them.

python -m benchmarks.model_zoo                 # Evaluate all entries.
python -m benchmarks.model_zoo NAME... --train # Train these entries by their commands, then evaluate them.

`python -m benchmarks.experiments.publish` writes the table of docs/learning.md.
"""

import argparse
import contextlib
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from gpu_envs.cli.dispatch import run_command
from trainers.config.train_config import TrainConfig, make_eval_core
from trainers.evaluation.cross_play import cross_play, estimates
from trainers.evaluation.policy_evaluation import trained_policies
from trainers.evaluation.scripted_policies import has_script, scripted_policies_of
from trainers.storage import checkpoint, model_zoo
from trainers.storage.checkpoint import Checkpoint

OUT = provenance.ROOT / "out" / "zoo"
SEED = 577_215
"""Seed of the evaluations; it differs from the seeds of trainings."""


def train(command: str, folder: Path) -> Checkpoint:
    """Run the command of an entry and return its final checkpoint, of a league that of its exported policies.

    Raises:
        SystemExit: The training failed.
    """
    _, *words = shlex.split(command)
    shutil.rmtree(folder, ignore_errors=True)
    commands, policies = [[*words, "--run-dir", str(folder)]], folder
    if words[0] == "league":
        policies = folder / "exported"
        commands.append(["league", "export", str(folder), "--output", str(policies), "--all"])
    for command_words in commands:
        if code := run_command(command_words):
            raise SystemExit(code)
    return checkpoint.load(policies)


def evaluate(saved: Checkpoint, about: dict[str, Any], seed: int = SEED) -> list[dict[str, Any]]:
    """Return all matchups with random and scripted policies, and their results as means and halves of 95 % intervals.

    Args:
        saved: The checkpoint.
        about: Description of the entry: "episodes" of every matchup, one per world; whether actions are "greedy";
            settings of the environment ("env") that differ from the training's.
        seed: Seed of the episodes.
    """
    config = TrainConfig.of(saved)
    with contextlib.closing(make_eval_core(config, about["episodes"], seed)) as core:
        core.set_params(**about["env"])
        sides, policies = trained_policies(saved, config, core)
        scripted = scripted_policies_of(core, sides) if has_script(core.id) and len(sides) > 1 else None
        results = cross_play(core, sides, policies, scripted, seed, about["greedy"])
    return [
        {"policies": matchup, "results": {name: [value.mean, value.half] for name, value in row.items()}}
        for (matchup, _), row in zip(results, estimates(results), strict=True)
    ]


def main(argv: Sequence[str]) -> None:
    """Train and evaluate entries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an entry; default: all")
    parser.add_argument("--train", action="store_true", help="train before")
    args = parser.parse_args(argv)
    for name in args.names or checkpoint.zoo_names():
        about = model_zoo.about(name)
        saved = train(about["command"], OUT / name) if args.train else model_zoo.load(name)
        if args.train:
            about["commit"] = provenance.commit()
        model_zoo.put(name, saved, {**about, "matchups": evaluate(saved, about)})
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
