"""An experiment in a folder: run it, see how far it is, and read its results."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import available_cores
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.progress import Progress
from trainers.base.serialization import check_fields, read_json, read_record, write_json
from trainers.experiments.grid import CROSS_PLAY, SETTINGS, Cell, Grid
from trainers.experiments.part import FINAL, SCORES, TRAINED, Part, scores_in
from trainers.experiments.report import COLUMNS, frame_of, write_report
from trainers.runner.signals import signals
from trainers.storage import checkpoint, run_folder, seed_metrics
from trainers.storage.config_yaml import read_config
from trainers.storage.folder_lock import FolderLock
from trainers.storage.learning_curves import read_rows
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
                for parts in self._phases():
                    self._work(parts, pool, progress)
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
            recorded, settings = _flat(read_config(file)), _flat(cells[path].settings)
            names = sorted(name for name in {*recorded, *settings} if recorded.get(name) != settings.get(name))
            values = [f"{name} {recorded.get(name)} -> {settings.get(name)}" for name in names]
            values += self._other_seeds(cells[path]) + self._other_protocol(cells[path])
            if values:
                differences.append(f"{cells[path]}: {', '.join(values)}")
        if differences:
            raise ConfigError(
                f"{self.run_dir}: expected the cells that have begun there, got others ({'; '.join(differences)}); "
                "choose another --run-dir, or remove the folders of these cells"
            )

    def _other_seeds(self, cell: Cell) -> list[str]:
        """Return the difference from the seeds that a cell trains at once; more may follow, none be left out."""
        if not (self.run_dir / cell.path / checkpoint.SEEDS).is_file():
            return []
        record = run_folder.read_seeds(self.run_dir / cell.path)
        seeds = range(record.config["seed"], record.config["seed"] + record.num_seeds)
        if seeds[0] == self.grid.seeds[0] and seeds[-1] in self.grid.seeds:
            return []
        return [f"seeds {list(seeds)} -> {list(self.grid.seeds)}"]

    def _other_protocol(self, cell: Cell) -> list[str]:
        """Return the differences of the protocol from that of the final evaluations of a cell."""
        files = [self.run_dir / cell.run_of(seed) / self._final_file(cell) for seed in self.grid.seeds]
        records = [check_fields(str(file), read_json(file), SCORES) for file in files if file.is_file()]
        protocol = {"episodes": self.grid.evaluation.last_episodes, "greedy": self.grid.evaluation.greedy}
        if self.grid.tasks[cell.task].opponents != CROSS_PLAY:
            protocol["opponents"] = self.grid.tasks[cell.task].opponents
        texts = [
            f"{key} {recorded} -> {value}"
            for record in records
            for key, value in protocol.items()
            if (recorded := {**record, "opponents": next(iter(record["scores"]), "")}[key]) != value
        ]
        return list(dict.fromkeys(texts))

    def _phases(self) -> Iterator[list[tuple[Cell, Part]]]:
        """Yield what is left to do: trainings with evaluations, then cross-play, whose opponents are trained."""
        cells = self.grid.cells
        yield [(cell, part) for cell in cells for part in self._parts(cell, ()) if not part.is_complete()]
        rivals = {cell.path: self._rivals(cell) for cell in cells}
        parts = [(cell, part) for cell in cells if rivals[cell.path] for part in self._parts(cell, rivals[cell.path])]
        yield [(cell, part) for cell, part in parts if not part.is_complete()]

    def _rivals(self, cell: Cell) -> list[Cell]:
        """Return the cells whose policies are the opponents of a cell's in cross-play."""
        is_cross_play = self.grid.tasks[cell.task].opponents == CROSS_PLAY
        return [c for c in self.grid.cells if is_cross_play and c.task == cell.task and c.algorithm != cell.algorithm]

    def _parts(self, cell: Cell, rivals: Sequence[Cell]) -> list[Part]:
        protocol, folder = self.grid.evaluation, self.run_dir.absolute()
        at_once = cell.trains_seeds_at_once or bool(rivals)
        blocks = [tuple(self.grid.seeds)] if at_once else [(seed,) for seed in self.grid.seeds]
        return [
            Part(
                command=cell.command,
                folder=str(folder / cell.path),
                settings=cell.settings,
                seeds=seeds,
                at_once=at_once,
                opponents=self.grid.tasks[cell.task].opponents,
                rivals=tuple(str(folder / rival.path) for rival in rivals),
                episodes=protocol.last_episodes,
                greedy=protocol.greedy,
                modules=self.modules,
            )
            for seeds in blocks
        ]

    def _work(self, parts: Sequence[tuple[Cell, Part]], pool: Any, progress: Progress | None) -> None:
        """Let a pool work on parts, and note the failures."""
        numbers: list[int] = []

        def stop(number: int) -> None:
            numbers.append(number)
            pool.stop()

        with signals(stop):
            running = {pool.submit(part): (cell, part) for cell, part in parts}
            while running:
                done = wait(running, timeout=POLL, return_when=FIRST_COMPLETED).done
                for future in done:
                    cell, part = running.pop(future)
                    if not numbers and (message := _message_of(future)):
                        name = str(cell) if part.at_once else f"{cell}, seed {part.seeds[0]}"
                        self.failures[name] = f"{message}; see {part.log}"
                if progress is not None and not numbers:
                    complete = sum(self.is_complete(cell, seed) for cell in self.grid.cells for seed in self.grid.seeds)
                    text = f"{complete} of {len(self.grid.cells) * len(self.grid.seeds)} runs complete"
                    progress(self.steps(), text + (f", {len(self.failures)} failed" if self.failures else ""))
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
        run = self.run_dir / cell.run_of(seed)
        if (run / TRAINED).is_file():
            return max(cell.total_steps, 1)
        try:
            with (run / "metrics.csv").open("rb") as file:
                head = file.readline().decode().rstrip("\n").split(",")
                file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
                last = file.read().decode().rpartition("\n")[0].rpartition("\n")[2].split(",")
            return min(int(last[head.index("env_steps")]), cell.total_steps)
        except (OSError, ValueError, IndexError):  # no row yet
            return 0

    def is_complete(self, cell: Cell, seed: int) -> bool:
        """Return whether a run is trained and evaluated."""
        file = self.run_dir / cell.run_of(seed) / self._final_file(cell)
        names = {rival.algorithm for rival in self._rivals(cell)}
        return file.is_file() and (file.stem != CROSS_PLAY or names <= scores_in(file).keys())

    def _final_file(self, cell: Cell) -> str:
        """Return the name of the file with the final evaluation of a run."""
        return f"{CROSS_PLAY}.json" if self.grid.tasks[cell.task].opponents == CROSS_PLAY else FINAL

    def status(self) -> list[tuple[str, str, str]]:
        """Return task, algorithm and state of every cell, such as "7 of 10 runs complete, 83 % of the steps"."""
        rows = []
        for cell in self.grid.cells:
            complete = sum(self.is_complete(cell, seed) for seed in self.grid.seeds)
            steps = sum(self.steps_of(cell, seed) for seed in self.grid.seeds)
            percent = 100 * steps // (max(cell.total_steps, 1) * len(self.grid.seeds))
            text = f"{complete} of {len(self.grid.seeds)} runs complete, {percent} % of the steps"
            rows.append((cell.task, cell.algorithm, text))
        return rows

    # ---------------------------------------------------------------- results

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the rows of the table of evaluations, with the columns `COLUMNS`.

        Evaluations in trainings have the columns eval/... of metrics.csv as metrics. Final ones have "final" 1 and
        the opponents; in cross-play "score" is the mean over opponents, besides a row for each of them.
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
        run = self.run_dir / cell.run_of(seed)
        head = {"task": cell.task, "algorithm": cell.algorithm, "seed": seed}
        seconds: dict[int, float] = {}
        rows = []
        for row in read_rows(run / "metrics.csv"):
            steps = int(row["env_steps"])
            seconds[steps] = float(row.get("seconds") or math.nan)
            entry = {**head, "env_steps": steps, "seconds": seconds[steps], "final": 0, "opponents": ""}
            rows += [
                {**entry, "metric": name, "value": float(value)}
                for name, value in row.items()
                if name.startswith("eval/") and value
            ]
        final = self._final_rows(head, run / self._final_file(cell), seconds)
        return rows + [row for row in final if row["opponents"] or self.is_complete(cell, seed)]

    def _final_rows(
        self, head: Mapping[str, Any], file: Path, seconds: Mapping[int, float]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of the evaluation of a run's best checkpoint."""
        is_cross_play = file.stem == CROSS_PLAY
        by_opponents = scores_in(file)
        if is_cross_play and by_opponents:
            metrics = next(iter(by_opponents.values()))
            count = len(by_opponents)
            by_opponents[""] = {name: sum(by_opponents[o][name] for o in by_opponents) / count for name in metrics}
        for opponents, scores in by_opponents.items():
            steps = int(scores["env_steps"])
            entry = {**head, "env_steps": steps, "seconds": max(seconds.values(), default=math.nan), "final": 1}
            name = opponents if is_cross_play else ""
            for metric, value in scores.items():
                if metric != "env_steps":
                    yield {**entry, "opponents": name, "metric": metric, "value": value}

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
        return write_report(self.grid, self.results(), out or self.run_dir / "report")


class _ProcessPool:
    """Processes of this machine, each with its share of the cores."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count)
        cores = sorted(os.sched_getaffinity(0))
        self._shares: list[list[int]] = [cores[i::count] or cores for i in range(count)]
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock, self._stopped = threading.Lock(), False

    def submit(self, part: Part) -> Future[str]:
        """Work on a part; the future holds the message of its failure, or ""."""
        return self._threads.submit(self._work, part)

    def _work(self, part: Part) -> str:
        with self._lock:
            if self._stopped:
                return ""
            cores = self._shares.pop()
            process = _start_part(part, cores)
            self._processes.add(process)
        code = process.wait()
        with self._lock:
            self._processes.remove(process)
            self._shares.append(cores)
        return failure_of(part, code)

    def stop(self) -> None:
        """Let the processes save and end."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.send_signal(signal.SIGTERM)

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
        gpus = float(str(part.settings.get("device", "cpu")).startswith("cuda"))
        task = self._ray.remote(num_cpus=2, num_gpus=gpus)(work_on).remote(dataclasses.asdict(part))
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


def _start_part(part: Part, cores: Sequence[int] | None = None) -> subprocess.Popen[bytes]:
    """Start a process that works on a part, on these cores; its output goes to the log of the cell."""
    file = Path(part.folder) / f"part{part.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {"cores": None if cores is None else list(cores), "parent": os.getpid()}
    write_json(file, {**dataclasses.asdict(part), **about})
    words = [sys.executable, "-m", "trainers.experiments.part", str(file)]
    with part.log.open("ab") as log:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def work_on(fields: dict[str, Any]) -> str:
    """Work on a part in a task of Ray, and return the message of its failure, or ""."""
    part = read_record(Part, "part", fields)
    process = _start_part(part)
    try:
        return failure_of(part, process.wait())
    except BaseException:  # the task is cancelled
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def failure_of(part: Part, code: int) -> str:
    """Return the message about a process that has failed: the last line that it printed; "" if it has not."""
    if code == 0 or part.is_complete():
        return ""
    lines = part.log.read_text("utf-8", errors="replace").strip().splitlines() if part.log.is_file() else []
    return f"exit code {code}: {lines[-1] if lines else 'no output'}"


def _message_of(future: Future[str]) -> str:
    """Return the message about a part that has failed, also where its process could not be started or was lost."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001  # reported; the other cells go on
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted names."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            result |= _flat(value, f"{prefix}{name}.")
        else:
            result[f"{prefix}{name}"] = value
    return result
