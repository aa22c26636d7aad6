"""A part of an experiment, in a process of its own: it trains seeds of a cell, and evaluates their best checkpoints.

``python -m trainers.experiments.part PART.json`` continues where an earlier process has ended.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.cli.dispatch import main as run_command
from gpu_envs.definition.id_modules import import_named
from gpu_envs.errors import CheckpointError
from gpu_envs.utils.devices import resolve_device
from trainers.base.serialization import check_fields, read_json, read_record, write_json, write_text
from trainers.config.train_config import TrainConfig, make_eval_core
from trainers.evaluation.policy_evaluation import trained_policies
from trainers.experiments.grid import CROSS_PLAY, SETTINGS
from trainers.runner.training_evaluator import FINAL_SEED, TrainingEvaluator
from trainers.storage import checkpoint
from trainers.storage.config_yaml import format_config
from trainers.storage.folder_lock import check_free
from trainers.storage.run_folder import run_name

TRAINED = "trained.json"
"""File that says that a run is complete, in its folder."""
FINAL = "final.json"
"""File with the evaluation of the best checkpoint of a run, in its folder."""
SCORES = {"scores": dict[str, dict[str, float]], "episodes": int, "greedy": bool}
"""Fields of the file of a final evaluation and their types; the scores are by opponents and by column."""
EXPORTED = "exported"
"""Folder of the exported policies of a league, in the folder of its run."""


@dataclass(frozen=True)
class Part:
    """Seeds of a cell that one process trains, or whose policies it evaluates."""

    command: str
    """Command that trains them, "train" or "league train"."""
    folder: str
    """Folder of the cell."""
    settings: dict[str, Any]
    """Settings of the cell."""
    seeds: tuple[int, ...]
    """The seeds."""
    at_once: bool
    """Train all seeds at once."""
    opponents: str
    """Opponents of the final evaluation, see `ExperimentTask`."""
    rivals: tuple[str, ...]
    """Folders of the cells whose policies are the opponents in cross-play; () before the trainings are over."""
    episodes: int
    """Episodes of the final evaluation."""
    greedy: bool
    """Take the most probable actions in it."""
    modules: tuple[str, ...]
    """Modules that the settings name."""

    def run_of(self, seed: int) -> Path:
        """Return the folder of a seed's run."""
        return Path(self.folder) / run_name(seed)

    @property
    def name(self) -> str:
        """Name of the part among those of its cell, for its files."""
        return "" if self.at_once else f"-{self.seeds[0]}"

    @property
    def log(self) -> Path:
        """File with what the process has printed."""
        return Path(self.folder) / f"output{self.name}.txt"

    def is_complete(self) -> bool:
        """Return whether nothing is left to do."""
        if self.opponents == CROSS_PLAY and not self.rivals:
            return all((self.run_of(seed) / TRAINED).is_file() for seed in self.seeds)
        return all(self.missing(seed) == [] for seed in self.seeds)

    def missing(self, seed: int) -> list[str]:
        """Return the names of the opponents against which a seed's policies were not evaluated."""
        names = [Path(rival).name for rival in self.rivals] or [self.opponents]
        scores = scores_in(self.run_of(seed) / self._result)
        return [name for name in names if name not in scores]

    @property
    def _result(self) -> str:
        return f"{CROSS_PLAY}.json" if self.rivals else FINAL

    def work(self) -> int:
        """Do what is left of the part; return the exit code of a training that failed or was ended, else 0."""
        import_named(self.modules)
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        write_text(Path(self.folder) / SETTINGS, format_config(self.settings))
        code = 0 if self.rivals else self._train()
        if code >= 128 or (self.opponents == CROSS_PLAY and not self.rivals):  # ended by a signal, or too early
            return code
        for seed in self.seeds:
            run = self.run_of(seed)
            if not (run / TRAINED).is_file():
                continue
            opponents = self._opponents(seed)
            names = [name for name in self.missing(seed) if name in opponents]
            if names:
                scores = {name: evaluate(run, self, opponents[name]) for name in names}
                protocol = {"episodes": self.episodes, "greedy": self.greedy}
                write_json(run / self._result, {"scores": {**scores_in(run / self._result), **scores}, **protocol})
        return code

    def _opponents(self, seed: int) -> dict[str, str | None]:
        """Return the opponents of a seed's policies by their name: a run, "scripted", or None for random ones."""
        if self.rivals:
            runs = {Path(rival).name: Path(rival) / run_name(seed) for rival in self.rivals}
            return {name: str(best_checkpoint(run)) for name, run in runs.items() if (run / TRAINED).is_file()}
        return {self.opponents: None if self.opponents == "random" else self.opponents}

    def _train(self) -> int:
        """Train the seeds that are not complete; return the exit code of the first that fails."""
        for seed in self.seeds:
            if self._has_ended(seed):  # an earlier process was killed after its last step
                write_json(self.run_of(seed) / TRAINED, {"exit": 0})
        waiting = [seed for seed in self.seeds if not (self.run_of(seed) / TRAINED).is_file()]
        imports = [word for module in self.modules for word in ("--allow-import", module)]
        for words, seeds in self._commands(waiting):
            code = run_command([*words, *imports])
            misses_goal = code == 1 and self.settings.get("until_return") is not None
            for seed in seeds:
                run = self.run_of(seed)
                if code and not misses_goal and not self._has_ended(seed):
                    continue
                if self.command == "league train" and not (run / EXPORTED).is_dir():
                    exported = run / f"{EXPORTED}.tmp"
                    shutil.rmtree(exported, ignore_errors=True)
                    words = ["league", "export", str(run), "--output", str(exported), *imports]
                    if export_code := run_command(words):
                        return export_code
                    exported.rename(run / EXPORTED)
                write_json(run / TRAINED, {"exit": code})
            if code and not misses_goal:
                return code
        return 0

    def _commands(self, waiting: Sequence[int]) -> list[tuple[list[str], Sequence[int]]]:
        """Return the words of the commands that train seeds, and the seeds of each."""
        folder, file = Path(self.folder), str(Path(self.folder) / SETTINGS)
        if not waiting:
            return []
        if self.at_once:
            if (folder / checkpoint.SEEDS).is_file():
                return [(["train", "--resume", str(folder), "--num-seeds", str(len(self.seeds))], waiting)]
            for seed in waiting:  # an earlier process was killed before it wrote seeds.json
                remove_run(self.run_of(seed))
            seeds = ["--seed", str(self.seeds[0]), "--num-seeds", str(len(self.seeds))]
            return [(["train", "--config", file, *seeds, "--run-dir", str(folder)], waiting)]
        commands = []
        for seed in waiting:
            run = self.run_of(seed)
            words = [*self.command.split(), "--config", file, "--seed", str(seed), "--run-dir", str(run)]
            if self.command == "train":
                words += ["--no-video"]
                if checkpoint.every(run / checkpoint.FOLDER):
                    words = ["train", "--resume", str(run), "--no-video"]
                elif run.exists():  # the process was killed before the first checkpoint
                    remove_run(run)
            commands.append((words, [seed]))
        return commands

    def _has_ended(self, seed: int) -> bool:
        """Return whether a seed's training is complete, although that of another one has failed."""
        saved = checkpoint.every(self.run_of(seed) / checkpoint.FOLDER)
        if self.command != "train" or not saved:
            return False
        summary = Path(self.folder) / "summary.json"
        if self.at_once and summary.is_file():
            ends = {run["seed"]: run["stopped_by"] for run in read_json(summary)["runs"]}
            if ends.get(seed, 0) is None:
                return True
        manifest = checkpoint.read_manifest(saved[-1])
        return manifest.steps >= TrainConfig.from_json(manifest.config).total_steps


def scores_in(file: Path) -> dict[str, dict[str, float]]:
    """Return the scores in the file of a final evaluation by opponents; {} without the file.

    Raises:
        CheckpointError: The file is damaged.
    """
    if not file.is_file():
        return {}
    scores = check_fields(str(file), read_json(file), SCORES)["scores"]
    if incomplete := [opponents for opponents, columns in scores.items() if "env_steps" not in columns]:
        raise CheckpointError(f"{file}: scores: {incomplete[0]:.80}: expected env_steps, got none; remove the file")
    return scores


def remove_run(run: Path) -> None:
    """Remove the folder of a run without a checkpoint; raise GpuEnvsError if another process writes there."""
    if run.exists():
        check_free(run)
        shutil.rmtree(run)


def best_checkpoint(run: Path) -> Path:
    """Return the checkpoint of a run with the best "eval/score", or the last one."""
    if (run / EXPORTED).is_dir():
        run /= EXPORTED
    return checkpoint.best(run / checkpoint.FOLDER) or checkpoint.find(run)


def evaluate(run: Path, part: Part, opponents: str | None) -> dict[str, Any]:
    """Return the scores of the best checkpoint of a run by column of metrics.csv, with its number of steps.

    Args:
        run: Folder of the run.
        part: The part with the protocol.
        opponents: See `TrainConfig.eval_opponents`.
    """
    saved = checkpoint.load(best_checkpoint(run), replay=False)
    recorded = TrainConfig.of(saved)
    device = str(resolve_device(None)) if recorded.device.startswith("cuda") else recorded.device
    config = dataclasses.replace(
        recorded, eval_episodes=part.episodes, eval_greedy=part.greedy, eval_opponents=opponents, device=device
    )
    config.apply_num_threads()
    core = make_eval_core(config, 1, config.seed)
    sides, policies = trained_policies(saved, config, core)
    evaluator = TrainingEvaluator(config, core, {name: tuple(side) for name, side in sides.items()}, seed=FINAL_SEED)
    return {"env_steps": saved.steps, **evaluator.scores(policies)}


def main(file: Path) -> int:
    """Work on the part in a file, on the cores that it names."""
    data = read_json(file)
    if cores := data.pop("cores"):
        os.sched_setaffinity(0, cores)
    threading.Thread(target=_end_with_parent, args=(data.pop("parent"),), daemon=True).start()
    return read_record(Part, str(file), data).work()


def _end_with_parent(parent: int) -> None:
    """Let this process save and end if its parent is killed; the experiment could not continue beside it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
