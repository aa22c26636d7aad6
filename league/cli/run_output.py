"""Output of `gpu-envs league train` and `resume` about a run: its start, its progress, and its result or interrupt."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from gpu_envs.definition.id_modules import import_words
from gpu_envs.utils.terminal import shell_command, terminal_width
from league.cli.live_table import LiveTable, table
from league.cli.options import ExecutorOptions
from league.storage.run_config import SUMMARY_FILE, write_summary
from league.storage.run_store import RunStore
from trainers.storage.config_yaml import CONFIG_FILE

__all__ = ["RunOutput"]


class RunOutput:
    """Print what happens to a run in a `with` block. An interrupt ends the block and sets `exit_code` to 130."""

    def __init__(
        self, store: RunStore, executor: ExecutorOptions, live: LiveTable, device: str, gpus: str = ""
    ) -> None:
        """Use the table of a run, which is the progress of the run too.

        Args:
            store: Store of the run.
            executor: Options of the processes that train and evaluate.
            live: Table of the run.
            device: Device on which the run continues.
            gpus: GPUs of each training, see `league.cli.gpu_table`.
        """
        self.store: RunStore = store
        self.executor: ExecutorOptions = executor
        self.live: LiveTable = live
        self.device: str = device
        self.gpus: str = gpus
        self.began = 0.0
        self.exit_code = 0
        """Exit code of the command."""

    def __enter__(self) -> Self:
        """Set the number of threads, print the start, and open the table."""
        import torch

        torch.set_num_threads(self.executor.num_threads)
        self._print_start()
        self.began: float = time.perf_counter()
        self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Close the table, and print the result of a finished run or how to continue an interrupted one."""
        seconds = time.perf_counter() - self.began
        self.live.__exit__(kind, error, traceback)
        if kind is None:
            self._print_result(seconds)
        elif issubclass(kind, KeyboardInterrupt):
            self._print_interrupted()
            self.exit_code: int = 130
            return True
        return False

    def _print_start(self) -> None:
        """Print the algorithm, the game, the device and the folder of the run, and the GPUs of each training."""
        store, words = self.store, shell_command(*self.executor.words())
        name, game = store.config["algorithm"], store.game
        populations = f"{name} on {game.env_id}: populations of {', '.join(game.roles)}"
        print(f"{populations}, on {self.device}{f' ({words})' if words else ''}, {store.path}/", flush=True)
        if self.gpus:
            print(self.gpus, flush=True)

    def _print_interrupted(self) -> None:
        """Print the finished iterations and the command that continues the run."""
        if rows := list(self.store.iterations().values()):
            print(table(rows, terminal_width(sys.stdout)), flush=True)
        words = [*self.executor.words(), *self._import_words()]
        command = shell_command("gpu-envs", "league", "resume", self.store.path, *words)
        print(f"interrupted; continue with:\n  {command}", file=sys.stderr)

    def _print_result(self, seconds: float) -> None:
        """Write the summary of the run and print its iterations, its files and the commands to examine it."""
        store = self.store
        write_summary(store)
        rows = list(store.iterations().values())
        print(table(rows, terminal_width(sys.stdout)))
        print(f"{len(rows) - 1} iterations, {seconds:.1f} s in this process")
        files = [store.path / SUMMARY_FILE, store.file, store.path / CONFIG_FILE]
        for file in filter(Path.exists, files):  # a run that a program started has no configuration file
            print(f"  {file}")
        imports = self._import_words()
        print(f"  {shell_command('gpu-envs', 'league', 'report', store.path, *imports)}")
        print(f"  {shell_command('gpu-envs', 'watch', store.path, *imports)}")

    def _import_words(self) -> list[str]:
        """Return the option that later commands need to read the run."""
        config = self.store.config
        learner = config.get("train_overrides", {}).get("algorithm", "")
        return import_words(self.store.game.env_id, config["algorithm"], learner)
