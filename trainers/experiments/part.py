"""A part of an experiment, in a process of its own: it trains seeds of a cell, and evaluates their best checkpoints.

``python -m trainers.experiments.part PART.json PID`` continues where an earlier process has ended, and ends with the
process PID.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.cli.dispatch import main as run_command
from gpu_envs.definition.id_modules import import_named
from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from trainers.base.agent_group import agent_rows_of
from trainers.base.serialization import check_fields, read_json, write_json, write_text
from trainers.config.train_config import TrainConfig, make_eval_core
from trainers.evaluation.policy_evaluation import trained_policies
from trainers.experiments.grid import CROSS_PLAY, PARTNERS, SETTINGS, Cell
from trainers.models.policy import Policy
from trainers.runner.training_evaluator import FINAL_SEED, TrainingEvaluator
from trainers.storage import checkpoint
from trainers.storage.config_yaml import format_config
from trainers.storage.folder_lock import check_free

TRAINED = "trained.json"
"""File that says that a run is trained, in its folder."""
FINAL = "final.json"
"""File with the evaluation of the best checkpoint of a run, in its folder."""
SCORES = {"scores": dict[str, dict[str, float]], "episodes": int, "greedy": bool}
"""Fields of the file of a final evaluation and their types; the scores are by opponents and by column."""
EXPORTED = "exported"
"""Folder of the exported policies of a league, in the folder of its run."""


@dataclass(frozen=True)
class Part:
    """Seeds of a cell that one process trains and evaluates."""

    cell: Cell
    """The cell."""
    run_dir: str
    """Folder of the experiment."""
    seeds: Sequence[int]
    """The seeds; several are trained at once."""
    opponents: Sequence[str]
    """Opponents of the final evaluation, see `ExperimentTask`; in cross-play the names of the other algorithms."""
    is_cross_play: bool
    """Whether the opponents are algorithms; those that are not trained yet are left out."""
    partners: Sequence[int]
    """Seeds whose policies are partners in the final evaluation; a seed is not its own partner."""
    episodes: int
    """Episodes of the final evaluation."""
    greedy: bool
    """Take the most probable actions in it."""
    modules: Sequence[str]
    """Modules that the settings name."""

    def __str__(self) -> str:
        return str(self.cell) if self.cell.trains_seeds_at_once else f"{self.cell}, seed {self.seeds[0]}"

    @property
    def folder(self) -> Path:
        """Folder of the cell."""
        return Path(self.run_dir) / self.cell.path

    def file(self, stem: str, suffix: str) -> Path:
        """Return a file of the part in the folder of its cell, such as output.txt, or output-3.txt of a single seed."""
        seed = "" if self.cell.trains_seeds_at_once else f"-{self.seeds[0]}"
        return self.folder / f"{stem}{seed}{suffix}"

    def run_of(self, seed: int) -> Path:
        """Return the folder of a seed's run."""
        return Path(self.run_dir) / self.cell.run_of(seed)

    def is_trained(self, seed: int) -> bool:
        """Return whether the training of a seed is complete."""
        return (self.run_of(seed) / TRAINED).is_file()

    def is_complete(self) -> bool:
        """Return whether all seeds are trained and evaluated."""
        return all(
            self.is_trained(seed) and len(self.scores(seed)) == len(self.opponents) + len(self.partners_of(seed))
            for seed in self.seeds
        )

    def partners_of(self, seed: int) -> dict[str, int]:
        """Return the trained seeds that are partners of a seed, by their names in the table of evaluations."""
        return {f"{PARTNERS} {other}": other for other in self.partners if other != seed and self.is_trained(other)}

    def scores(self, seed: int) -> dict[str, dict[str, float]]:
        """Return the final scores of a seed by opponents or partners and by column, without those of another protocol.

        Raises:
            CheckpointError: The file is damaged.
        """
        file = self._score_file(seed)
        if not file.is_file():
            return {}
        record = check_fields(str(file), read_json(file), SCORES)
        if incomplete := [name for name, columns in record["scores"].items() if "env_steps" not in columns]:
            raise CheckpointError(f"{file}: scores: {incomplete[0]:.80}: expected env_steps, got none; remove the file")
        if (record["episodes"], record["greedy"]) != (self.episodes, self.greedy):
            return {}
        names = [*self.opponents, *self.partners_of(seed)]
        return {name: record["scores"][name] for name in names if name in record["scores"]}

    def _score_file(self, seed: int) -> Path:
        return self.run_of(seed) / (f"{CROSS_PLAY}.json" if self.is_cross_play else FINAL)

    # ---------------------------------------------------------------- work

    def work(self) -> int:
        """Do what is left of the part; return the exit code of a training that failed or was ended, else 0."""
        import_named(tuple(self.modules))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / SETTINGS, format_config(self.cell.settings))
        code = self._train()
        if code < 128:  # no signal has ended it
            for seed in self.seeds:
                if self.is_trained(seed):
                    self._evaluate(seed)
        return code

    def _evaluate(self, seed: int) -> None:
        """Evaluate the best checkpoint of a seed against the opponents, and with the partners, that are new."""
        scores = self.scores(seed)
        opponents = {name: source for name, source in self._opponents(seed).items() if name not in scores}
        partners = {name: partner for name, partner in self.partners_of(seed).items() if name not in scores}
        if opponents or partners:
            scores |= {name: self._scores(seed, opponents=source) for name, source in opponents.items()}
            scores |= {name: self._scores(seed, partners=partner) for name, partner in partners.items()}
            record = {"scores": scores, "episodes": self.episodes, "greedy": self.greedy}
            write_json(self._score_file(seed), record)

    def _opponents(self, seed: int) -> dict[str, str | None]:
        """Return the opponents of a seed's policies by name: see `TrainConfig.eval_opponents`."""
        if not self.is_cross_play:
            return {name: None if name == "random" else name for name in self.opponents}
        cells = {name: dataclasses.replace(self.cell, algorithm=name) for name in self.opponents}
        runs = {name: Path(self.run_dir) / cell.run_of(seed) for name, cell in cells.items()}
        return {name: str(best_checkpoint(run)) for name, run in runs.items() if (run / TRAINED).is_file()}

    def _scores(self, seed: int, opponents: str | None = None, partners: int | None = None) -> dict[str, float]:
        """Return the scores of a seed's best checkpoint by column of metrics.csv, with its number of steps.

        Args:
            seed: The seed.
            opponents: See `TrainConfig.eval_opponents`.
            partners: Seed whose policies all agents but the first one have; None: this one.
        """
        saved = checkpoint.load(best_checkpoint(self.run_of(seed)), replay=False)
        recorded = TrainConfig.of(saved)
        device = str(resolve_device(None)) if recorded.device.startswith("cuda") else recorded.device
        config = dataclasses.replace(
            recorded, eval_episodes=self.episodes, eval_greedy=self.greedy, eval_opponents=opponents, device=device
        )
        config.apply_num_threads()
        core = make_eval_core(config, 1, config.seed)
        sides, policies = trained_policies(saved, config, core)
        members = {name: tuple(side) for name, side in sides.items()}
        if partners is not None:
            partner_checkpoint = checkpoint.load(best_checkpoint(self.run_of(partners)), replay=False)
            teammates = policies_by_agent(core, sides, trained_policies(partner_checkpoint, config, core)[1])
            first = core.possible_agents[0]
            policies = teammates | {first: policies_by_agent(core, sides, policies)[first]}
            members = {agent: (agent,) for agent in core.possible_agents}
        evaluator = TrainingEvaluator(config, core, members, seed=FINAL_SEED)
        return {"env_steps": saved.steps, **evaluator.scores(policies)}

    def _train(self) -> int:
        """Train the seeds whose training is not complete; return the exit code if it fails, else 0."""
        for seed in self.seeds:
            if self._has_ended(seed):  # an earlier process was killed after its last step
                write_json(self.run_of(seed) / TRAINED, {"exit": 0})
        seeds = [seed for seed in self.seeds if not self.is_trained(seed)]
        if not seeds:
            return 0
        imports = [word for module in self.modules for word in ("--allow-import", module)]
        code = run_command([*self._command(seeds), *imports])
        misses_goal = code == 1 and self.cell.settings.get("until_return") is not None
        for seed in seeds:
            run = self.run_of(seed)
            if code and not misses_goal and not self._has_ended(seed):
                continue
            if self.cell.command == "league train" and not (run / EXPORTED).is_dir():
                exported = run / f"{EXPORTED}.tmp"
                shutil.rmtree(exported, ignore_errors=True)
                if export_code := run_command(["league", "export", str(run), "--output", str(exported), *imports]):
                    return export_code
                exported.rename(run / EXPORTED)
            write_json(run / TRAINED, {"exit": code})
        return 0 if misses_goal else code

    def _command(self, seeds: Sequence[int]) -> list[str]:
        """Return the words of the command that trains seeds, or continues their training."""
        at_once = self.cell.trains_seeds_at_once
        folder = self.folder if at_once else self.run_of(seeds[0])
        words = [*self.cell.command.split(), "--config", str(self.folder / SETTINGS), "--seed", str(self.seeds[0])]
        words += ["--run-dir", str(folder)]
        if self.cell.command != "train":
            return words
        options = ["--num-seeds", str(len(self.seeds))] if at_once else ["--no-video"]
        if (folder / checkpoint.SEEDS).is_file() if at_once else checkpoint.every(folder / checkpoint.FOLDER):
            return ["train", "--resume", str(folder), *options]
        for run in map(self.run_of, seeds):
            if run.exists():  # an earlier process was killed before it could be continued
                check_free(run)
                shutil.rmtree(run)
        return [*words, *options]

    def _has_ended(self, seed: int) -> bool:
        """Return whether a seed's training is complete, although another seed's has failed."""
        saved = checkpoint.every(self.run_of(seed) / checkpoint.FOLDER)
        if self.cell.command != "train" or not saved:
            return False
        summary = self.folder / "summary.json"
        runs = read_json(summary)["runs"] if summary.is_file() else []
        if any(run["seed"] == seed and run["stopped_by"] is None for run in runs):
            return True
        manifest = checkpoint.read_manifest(saved[-1])
        return manifest.steps >= TrainConfig.from_json(manifest.config).total_steps


def policies_by_agent(
    core: Core, sides: Mapping[str, Sequence[str]], policies: Mapping[str, Policy]
) -> dict[str, Policy]:
    """Return the policy of every agent, given the groups or agents that each policy controls."""
    return {
        core.possible_agents[row]: policies[name]
        for name, members in sides.items()
        for row in agent_rows_of(core, members)
    }


def best_checkpoint(run: Path) -> Path:
    """Return the checkpoint of a run with the best "eval/score", or the last one."""
    if (run / EXPORTED).is_dir():
        run /= EXPORTED
    return checkpoint.best(run / checkpoint.FOLDER) or checkpoint.find(run)


def main(file: Path, parent: int) -> int:
    """Work on the part in a file; if the parent process is killed, save and end."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    fields: dict[str, Any] = read_json(file)
    return Part(**{**fields, "cell": Cell(**fields["cell"])}).work()


def _end_with(parent: int) -> None:
    """Let this process save and end if its parent is killed; the experiment could not continue beside it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
