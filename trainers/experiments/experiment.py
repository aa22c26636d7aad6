"""An experiment in a folder: run it, see how far it is, and read its results."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import available_cores
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.settings import check_value
from trainers.base.serialization import write_json
from trainers.experiments.grid import CROSS_PLAY, SETTINGS, Cell, Grid
from trainers.experiments.part import Part
from trainers.experiments.report import COLUMNS, ExperimentReport, frame_of
from trainers.runner.signals import signals
from trainers.storage import checkpoint, run_folder, seed_metrics
from trainers.storage.config_yaml import leaves, read_config
from trainers.storage.folder_lock import FolderLock
from trainers.storage.learning_curves import COUNTERS, read_rows
from trainers.storage.run_folder import EXPERIMENT

TABLE = "evaluations.csv"
"""Table of all evaluations, in the folder of the experiment."""
EXECUTORS = ("local", "process", "ray")
"""Places where cells run: one after the other, several processes of this machine at once, or a Ray cluster."""
POLL = 1.0
"""Time between two looks at the progress of the runs [s]."""


class Experiment:
    """An experiment and its folder.

    Runs are deterministic and resumable: an experiment that was interrupted, or killed, continues with `run`, on
    another machine too, and has the same results.
    """

    def __init__(
        self, path: Path | str, run_dir: Path | str | None = None, *, allow_import: Sequence[str] = ()
    ) -> None:
        """Read the file of an experiment and check all its cells.

        Args:
            path: YAML file, or the folder of an experiment.
            run_dir: Folder of the experiment. None: out/<name of the file>, or the folder that `path` is.
            allow_import: Modules that the file may name; their code runs.

        Raises:
            ConfigError: The file or a setting is invalid.
        """
        path = Path(path)
        is_folder = path.is_dir()
        if is_folder and not (path / EXPERIMENT).is_file():
            raise ConfigError(f"{path}: expected the file or the folder of an experiment, got another folder")
        self.run_dir: Path = Path(run_dir) if run_dir else path if is_folder else Path("out") / path.stem
        self.grid: Grid = Grid.read(path / EXPERIMENT if is_folder else path, allow_import)
        self.modules: tuple[str, ...] = tuple(allow_import)
        self.failures: dict[str, str] = {}

    # ---------------------------------------------------------------- run

    def run(
        self,
        executor: str = "local",
        num_workers: int | None = None,
        ray_address: str | None = None,
        progress: Progress | None = None,
    ) -> dict[str, str]:
        """Train and evaluate what is not complete, then write the table of evaluations.

        After SIGINT, SIGTERM or SIGHUP the running cells save a checkpoint and end.

        Args:
            executor: One of `EXECUTORS`. The results are the same.
            num_workers: Number of processes of "process"; None: one for every two cores.
            ray_address: Ray cluster, whose nodes share the folder; see `trainers.cluster.connect.connect`.
            progress: Called with the number of steps so far, and a line of text.

        Returns:
            Messages about the cells that have failed, by their names.

        Raises:
            ConfigError: The folder holds other cells or another run, or opponents, a score or an argument is invalid.
            KeyboardInterrupt: A signal has ended the experiment.
        """
        if executor not in EXECUTORS:
            raise ConfigError(f"executor: expected one of {', '.join(EXECUTORS)}, got {executor!r}")
        check_value("experiment", "num_workers", num_workers, int | None, ge=1)
        check_folder(self.run_dir)
        run_folder.check_kind(self.run_dir, "experiment")
        self.check_same_cells()
        for cell in self.grid.cells:
            if not (self.run_dir / cell.path / SETTINGS).is_file():
                self.grid.check_evaluation(cell)
        self.run_dir.mkdir(parents=True, exist_ok=True)
        with FolderLock(self.run_dir):
            self.grid.copy_to(self.run_dir)
            count = 1 if executor == "local" else num_workers or max(1, available_cores() // 2)
            pool = _RayPool(ray_address) if executor == "ray" else _ProcessPool(count)
            self.failures = {}
            with contextlib.closing(pool):
                for _ in range(2):  # the first policies in cross-play have to wait for their opponents
                    self._work(pool, progress)
            failures, self.failures = self.failures, {}
            left = {str(part) for part in self.parts_left()}
            self.failures = {part: text for part, text in failures.items() if part in left}
            self.write_table()
        return self.failures

    def check_same_cells(self) -> None:
        """Raise ConfigError if the folder has cells with other settings, or cells that the file lacks."""
        cells = {cell.path: cell for cell in self.grid.cells}
        differences = []
        for file in sorted(self.run_dir.glob(f"runs/*/*/{SETTINGS}")):
            path = file.parent.relative_to(self.run_dir)
            if path not in cells:
                differences.append(f"{path.name} on {path.parent.name} is not in the file")
                continue
            recorded, settings = dict(leaves(read_config(file))), dict(leaves(cells[path].settings))
            names = sorted(name for name in {*recorded, *settings} if recorded.get(name) != settings.get(name))
            values = [f"{name} {recorded.get(name)} -> {settings.get(name)}" for name in names]
            if (file.parent / checkpoint.SEEDS).is_file():  # more seeds may follow those that are trained at once
                record = run_folder.read_seeds(file.parent)
                seeds = range(record.config["seed"], record.config["seed"] + record.num_seeds)
                if self.grid.seeds[: len(seeds)] != seeds:
                    values.append(f"seeds {list(seeds)} -> {list(self.grid.seeds)}")
            if values:
                differences.append(f"{cells[path]}: {', '.join(values)}")
        if differences:
            raise ConfigError(
                f"{self.run_dir}: expected the cells that have begun there, got others ({'; '.join(differences)}); "
                "choose another --run-dir, or remove the folders of these cells"
            )

    def part_of(self, cell: Cell, seeds: Sequence[int]) -> Part:
        """Return the work on seeds of a cell."""
        opponents, protocol = self.grid.tasks[cell.task].opponents, self.grid.evaluation
        rivals = [c.algorithm for c in self.grid.cells if c.task == cell.task and c.algorithm != cell.algorithm]
        return Part(
            cell=cell,
            run_dir=str(self.run_dir.absolute()),
            seeds=seeds,
            opponents=rivals if opponents == CROSS_PLAY else [opponents],
            is_cross_play=opponents == CROSS_PLAY,
            partners=[*self.grid.seeds] if self.grid.tasks[cell.task].partners == CROSS_PLAY else [],
            episodes=protocol.last_episodes,
            greedy=protocol.greedy,
            modules=self.modules,
        )

    def parts_left(self) -> list[Part]:
        """Return the parts that are not complete; of those that have failed the seeds that are trained."""
        seeds = list(self.grid.seeds)
        parts = []
        for cell in self.grid.cells:
            for block in [seeds] if cell.trains_seeds_at_once else [[seed] for seed in seeds]:
                part = self.part_of(cell, block)
                if str(part) in self.failures:
                    part = dataclasses.replace(part, seeds=[seed for seed in block if part.is_trained(seed)])
                parts.append(part)
        return [part for part in parts if not part.is_complete()]

    def _work(self, pool: Any, progress: Progress | None) -> None:
        """Let a pool work on all parts that are left, and note the failures."""
        numbers: list[int] = []

        def stop(number: int) -> None:
            numbers.append(number)
            pool.stop()

        with signals(stop):
            running = {pool.submit(part): part for part in self.parts_left()}
            while running:
                for future in wait(running, timeout=POLL, return_when=FIRST_COMPLETED).done:
                    part = running.pop(future)
                    try:
                        message = future.result()
                    except Exception as error:  # noqa: BLE001  # no process, or a lost one; the other cells go on
                        message = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                    if message and not numbers:
                        self.failures[str(part)] = f"{message}; see {part.file('output', '.txt')}"
                if progress is not None and not numbers:
                    failed = f", {len(self.failures)} failed" if self.failures else ""
                    progress(self.steps(), self._completed(self.grid.cells) + failed)
        if numbers:
            raise KeyboardInterrupt

    # ---------------------------------------------------------------- status

    @property
    def total_steps(self) -> int:
        """Environment steps of all runs; a run of a league counts as one step."""
        return sum(max(cell.total_steps, 1) for cell in self.grid.cells) * len(self.grid.seeds)

    def steps(self) -> int:
        """Return the environment steps that all runs have taken."""
        return sum(self.steps_of(cell, seed) for cell in self.grid.cells for seed in self.grid.seeds)

    def steps_of(self, cell: Cell, seed: int) -> int:
        """Return the environment steps that a run has taken; 0 or 1 for a league's."""
        if self.part_of(cell, [seed]).is_trained(seed):
            return max(cell.total_steps, 1)
        try:
            with (self.run_dir / cell.run_of(seed) / "metrics.csv").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
                row = file.read().split(b"\n")[-2]  # what follows the last line break is not complete
            return min(int(row.split(b",")[COUNTERS.index("env_steps")]), cell.total_steps)
        except (OSError, ValueError, IndexError):  # no row yet
            return 0

    def is_complete(self, cell: Cell, seed: int) -> bool:
        """Return whether a run is trained and evaluated."""
        return self.part_of(cell, [seed]).is_complete()

    def status(self) -> list[tuple[str, str, str]]:
        """Return task, algorithm and state of every cell, such as "7 of 10 runs complete, 83 % of the steps"."""
        rows = []
        for cell in self.grid.cells:
            steps = sum(self.steps_of(cell, seed) for seed in self.grid.seeds)
            percent = 100 * steps // (max(cell.total_steps, 1) * len(self.grid.seeds))
            rows.append((cell.task, cell.algorithm, f"{self._completed([cell])}, {percent} % of the steps"))
        return rows

    def _completed(self, cells: Sequence[Cell]) -> str:
        complete = [self.is_complete(cell, seed) for cell in cells for seed in self.grid.seeds]
        return f"{sum(complete)} of {len(complete)} runs complete"

    # ---------------------------------------------------------------- results

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the rows of the table of evaluations, with the columns `COLUMNS`.

        Evaluations in trainings have the columns eval/... of metrics.csv as metrics. Final ones have "final" 1. Those
        in cross-play have a row for each opponent, and one without opponents with the mean over them. Those with the
        partners of another seed have "partners of seed N" as opponents.
        """
        rows = [row for cell in self.grid.cells for seed in self.grid.seeds for row in self.evaluations_of(cell, seed)]
        for name, tasks in self.grid.baselines.items():
            for task, scores in tasks.items():
                head = {"task": task, "algorithm": name, "env_steps": "", "seconds": "", "final": 1, "opponents": ""}
                metric = self.grid.tasks[task].score
                rows += [{**head, "seed": seed, "metric": metric, "value": value} for seed, value in enumerate(scores)]
        return rows

    def evaluations_of(self, cell: Cell, seed: int) -> list[dict[str, Any]]:
        """Return the rows of a run in the table of evaluations.

        Raises:
            CheckpointError: A file of the run is damaged.
        """
        head = {"task": cell.task, "algorithm": cell.algorithm, "seed": seed}
        table = read_rows(self.run_dir / cell.run_of(seed) / "metrics.csv")
        times = [float(row.get("seconds") or math.nan) for row in table]
        rows = []
        for row, seconds in zip(table, times, strict=True):
            entry = {**head, "env_steps": int(row["env_steps"]), "seconds": seconds, "final": 0, "opponents": ""}
            rows += [
                {**entry, "metric": name, "value": float(value)}
                for name, value in row.items()
                if name.startswith("eval/") and value
            ]
        part = self.part_of(cell, [seed])
        scores = part.scores(seed)
        if part.is_cross_play and part.is_complete():
            games = [scores[name] for name in part.opponents]
            scores[""] = {name: sum(columns[name] for columns in games) / len(games) for name in games[0]}
        elif not part.is_cross_play:
            scores = {"": scores.pop(part.opponents[0]), **scores} if part.opponents[0] in scores else {}
        for opponents, columns in scores.items():
            entry = {**head, "env_steps": int(columns["env_steps"]), "seconds": max(times, default=math.nan)}
            entry |= {"final": 1, "opponents": opponents}
            rows += [{**entry, "metric": name, "value": columns[name]} for name in columns if name != "env_steps"]
        return rows

    def write_table(self) -> Path:
        """Write the table of evaluations, and return its path."""
        seed_metrics.write_rows(self.run_dir / TABLE, self.evaluations(), COLUMNS)
        return self.run_dir / TABLE

    def results(self) -> Any:
        """Return the table of evaluations as a `pandas.DataFrame`.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frame_of(self.evaluations())

    def report(self, out: Path | None = None) -> list[Path]:
        """Write tables and figures, see `trainers.experiments.report`, and return their paths.

        Args:
            out: Folder; None: report/ in the folder of the experiment.
        """
        return ExperimentReport(self.grid, self.results(), out or self.run_dir / "report").write()


class _ProcessPool:
    """Processes of this machine, each with its share of the cores."""

    def __init__(self, count: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        shares = iter([cores[i::count] or cores for i in range(count)])
        # a process has the cores of the thread that starts it
        self._threads = ThreadPoolExecutor(count, initializer=lambda: os.sched_setaffinity(0, next(shares)))
        self._stopped = threading.Event()

    def submit(self, part: Part) -> Future[str]:
        """Work on a part; the future holds the message of its failure, or ""."""
        return self._threads.submit(_run_part, part, self._stopped)

    def stop(self) -> None:
        """Let the processes save and end."""
        self._stopped.set()

    def close(self) -> None:
        self.stop()
        self._threads.shutdown(cancel_futures=True)


class _RayPool:
    """A Ray cluster whose nodes share the folder of the experiment; every part is a task with two CPUs."""

    def __init__(self, address: str | None) -> None:
        from trainers.cluster.connect import connect

        self._ray = connect("gpu-envs experiment --executor ray", address)
        self._tasks: dict[Future[str], Any] = {}

    def submit(self, part: Part) -> Future[str]:
        """Work on a part; the future holds the message of its failure, or ""."""
        gpus = float(str(part.cell.settings.get("device", "cpu")).startswith("cuda"))
        task = self._ray.remote(num_cpus=2, num_gpus=gpus)(_run_part).remote(part)
        future: Future[str] = task.future()
        self._tasks[future] = task
        return future

    def stop(self) -> None:
        """Cancel the tasks; their processes save and end."""
        for future, task in self._tasks.items():
            if not future.done():
                self._ray.cancel(task)

    def close(self) -> None:
        self.stop()


def _run_part(part: Part, stopped: threading.Event | None = None) -> str:
    """Work on a part in another process, until a thread stops it; return the message of its failure, or ""."""
    stopped = stopped or threading.Event()
    if stopped.is_set():
        return ""
    part.folder.mkdir(parents=True, exist_ok=True)
    file = part.file("part", ".json")
    write_json(file, dataclasses.asdict(part))
    words = [sys.executable, "-m", "trainers.experiments.part", str(file), str(os.getpid())]
    with part.file("output", ".txt").open("ab") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        while process.poll() is None and not stopped.wait(0.1):
            pass
    finally:  # also if Ray cancels the task
        if process.poll() is None:
            process.terminate()  # it saves and ends
        process.wait()
    return failure_of(part, process.returncode)


def failure_of(part: Part, code: int) -> str:
    """Return the message about a process that has failed: the last line that it printed; "" if it has not."""
    if code == 0 or part.is_complete():
        return ""
    log = part.file("output", ".txt")
    lines = log.read_text("utf-8", errors="replace").strip().splitlines() if log.is_file() else []
    return f"exit code {code}: {lines[-1] if lines else 'no output'}"
