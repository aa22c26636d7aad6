"""Worker processes that play the worlds of a batch in shared memory."""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import itertools
import math
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

import numpy as np

from gpu_envs.errors import ConfigError, GpuEnvsError, HostError, shown
from gpu_envs.host.worlds import CLEAR, RESET, SKIP, STEP, Maker, World, WorldBatch, close_worlds, make_worlds
from gpu_envs.utils.paths import safe_path

T = TypeVar("T")
SPAWN = multiprocessing.get_context("spawn")
"""Way in which workers start: without the memory and the threads of this process."""
ALIGNMENT = 64
"""Bytes to which arrays are aligned in shared memory."""
GRACE = 5.0
"""Time in which a worker closes its worlds [s]."""
LOOKS = 10
"""Times that a parent looks at a worker within the time limit, so that a hang is seen at most a tenth late."""
Layout = Mapping[str, tuple[tuple[int, ...], Any]]
"""Shape and dtype by name of an array."""


def shared_buffer(layout: Layout) -> Any:
    """Return zeroed memory for the arrays of a layout, which is freed with the last process that has it."""
    return SPAWN.RawArray("b", ALIGNMENT + sum(_aligned(shape, dtype) for shape, dtype in layout.values()))


def arrays_in(buffer: Any, layout: Layout) -> dict[str, np.ndarray]:
    """Return the arrays of a layout (E, ...) by name, which lie one after the other in shared memory."""
    memory, arrays = np.frombuffer(buffer, np.uint8), {}
    start = -memory.ctypes.data % ALIGNMENT
    for name, (shape, dtype) in layout.items():
        size = math.prod(shape) * np.dtype(dtype).itemsize
        arrays[name] = memory[start : start + size].view(dtype).reshape(shape)
        start += _aligned(shape, dtype)
    return arrays


def _aligned(shape: tuple[int, ...], dtype: Any) -> int:
    return -(-math.prod(shape) * np.dtype(dtype).itemsize // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Share:
    """What a worker needs to play its worlds."""

    maker: Maker
    """What makes the worlds."""
    buffer: Any
    """Memory of the arrays of all worlds, see `shared_buffer`."""
    layout: Layout
    """Shapes (E, ...) and dtypes of these arrays."""
    resets: bool
    """A world whose episode has ended starts the next one in the same step."""
    limit: int
    """Steps after which an episode is truncated; 0: none."""
    label: str
    """ID of the environment, for messages."""
    worlds: range
    """Indices of the worker's worlds."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays (W, ...) of the W worlds of the worker by name."""
        rows = slice(self.worlds.start, self.worlds.stop)
        return {name: array[rows] for name, array in arrays_in(self.buffer, self.layout).items()}


class WorkerPool:
    """Processes that play a share of the worlds each, with the interface of a `WorldBatch`.

    The first process that dies is replaced. Live agents of its worlds are truncated, and new episodes start there.
    """

    def __init__(self, share: Share, num_workers: int, timeout: float) -> None:
        """Start the processes, which make the worlds.

        Args:
            share: All worlds.
            num_workers: Number of processes.
            timeout: Longest time that a world may take to be made, or to step and to reset after it [s].

        Raises:
            ConfigError: Other processes cannot import what makes the worlds.
            HostError: A world cannot be made.
        """
        try:
            ForkingPickler.dumps(share.maker)
        except Exception as error:  # of whatever the settings are
            raise ConfigError(
                f"{share.label}: workers: expected a function of a module, and settings, that other processes can "
                f"import, got {shown(share.maker[1])} ({error}); use workers=1"
            ) from error
        bounds = [len(share.worlds) * number // num_workers for number in range(num_workers + 1)]
        self._can_replace = True
        self._workers: list[_Worker] = []
        try:
            for first, end in itertools.pairwise(bounds):
                self._workers.append(_Worker(dataclasses.replace(share, worlds=range(first, end)), timeout))
            for worker in self._workers:
                try:
                    worker.result()
                except EOFError:
                    raise HostError(
                        f"{worker.death()} before it was ready; put the function in a module that it can import, and "
                        'the start of a script under if __name__ == "__main__":'
                    ) from None
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Run the command of every world, see `WorldBatch.run`.

        Raises:
            HostError: A world has raised an error or takes too long, or a process has died and none was left.
        """
        for worker in self._workers:
            worker.call("run")
        errors = []
        for number, worker in enumerate(self._workers):
            try:
                try:
                    worker.result()
                except EOFError:
                    self._replace(number)
            except HostError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def settle(self) -> None:
        """Wait for calls that an interrupt of this process has left."""
        for worker in self._workers:
            worker.settle()

    def _replace(self, number: int) -> None:
        """Replace a process that has died: agents of its worlds are truncated, and new episodes start there."""
        dead = self._workers[number]
        if not self._can_replace:
            raise dead.death()
        self._can_replace = False
        warnings.warn(f"{dead.death()}; agents of its worlds are truncated, and another process goes on", stacklevel=2)
        dead.end()
        worker = self._workers[number] = _Worker(dead.share, dead.timeout)
        worker.wait()
        worker.cut()
        worker.call("run")
        worker.wait()

    def render(self, world: int) -> np.ndarray | None:
        """Return a frame (H, W, 3) of a world, or None."""
        worker = next(worker for worker in self._workers if world in worker.share.worlds)
        worker.call("render", world - worker.share.worlds.start)
        return worker.wait()

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.end()


class _Worker:
    """A process that plays a share of the worlds, as its parent sees it."""

    def __init__(self, share: Share, timeout: float) -> None:
        self.share, self.timeout = share, timeout
        self._arrays = share.arrays()
        self._pipe, pipe = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(pipe, share), daemon=True)
        with safe_path():
            self._process.start()
        pipe.close()
        self._is_busy = True  # making worlds

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method of the process's `WorldBatch`; a process that has died does nothing."""
        self._is_busy = True
        with contextlib.suppress(OSError):
            self._pipe.send((method, arguments))

    def settle(self) -> None:
        """Wait for the end of a call that an interrupt of this process has left; what came of it is lost."""
        if self._is_busy:
            with contextlib.suppress(GpuEnvsError, EOFError):
                self.result()

    def result(self) -> Any:
        """Wait for the end of a call, and return its result.

        Raises:
            HostError: The error that the call has raised, or no world was ready for the time limit.
            EOFError: The process has died.
        """
        world, looks = None, 0
        try:
            while not self._pipe.poll(self.timeout / LOOKS):
                previous, world = world, self._world()
                looks = looks + 1 if world == previous else 0
                if looks == LOOKS:
                    if self._process.pid is not None:
                        os.kill(self._process.pid, signal.SIGABRT)  # it prints where it is
                    self.end()
                    raise HostError(
                        f"{self.share.label}: world {world}: expected an answer within {self.timeout:g} s, got none; "
                        "see the traceback of its process, or raise worker_timeout"
                    )
            value, error, text = self._pipe.recv()
        except OSError as error:
            raise EOFError from error
        self._is_busy = False
        if error is not None:
            raise error from RuntimeError(f"in a worker process:\n{text}")
        return value

    def wait(self) -> Any:
        """Return the result of a call, or raise a HostError if the process has died."""
        try:
            return self.result()
        except EOFError:
            raise self.death() from None

    def death(self) -> HostError:
        """Return an error that says how the process has ended, and in which world."""
        self._process.join(GRACE)
        return HostError(
            f"{self.share.label}: world {self._world()}: its process has ended with exit code {self._process.exitcode}"
        )

    def _world(self) -> int:
        """Return the index of the world that the process plays."""
        return self.share.worlds.start + int(self._arrays["playing"][0])

    def cut(self) -> None:
        """Truncate the live agents of worlds that have not finished their step, and command new episodes."""
        arrays = self._arrays
        command, over = arrays["command"], arrays["over"]
        is_step = command == STEP
        agents = arrays["valid"] & (is_step & ~over)[:, None]
        arrays["reward"][agents] = 0.0
        arrays["terminated"][agents] = False
        arrays["truncated"][agents] = True
        arrays["final_obs"][agents] = arrays["obs"][agents]
        lost = (command == SKIP) & arrays["alive"].any(1)
        over |= is_step | lost
        command[is_step] = RESET if self.share.resets else CLEAR
        command[lost] = RESET

    def hang_up(self) -> None:
        """Let the process close its worlds and end."""
        self._pipe.close()

    def end(self) -> None:
        """Wait for the end of the process, and kill it if it does not end."""
        self._pipe.close()
        self._process.join(GRACE)
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, share: Share) -> None:
    """Make worlds and run calls of the parent process until it closes the pipe."""
    faulthandler.enable()  # prints where a crash or a hang is
    multiprocessing.current_process().daemon = False  # environments may start processes; the parent ends this one still
    for number in (signal.SIGINT, signal.SIGHUP):  # what a terminal sends to all its processes is for the parent
        signal.signal(number, signal.SIG_IGN)
    worlds: list[World] = []
    arrays = share.arrays()

    def make_batch() -> WorldBatch:
        for world in make_worlds(share.maker, len(share.worlds), share.label):
            worlds.append(world)
            arrays["playing"][0] = len(worlds)
        return WorldBatch(worlds, arrays, share.resets, share.limit, share.label, share.worlds.start)

    with contextlib.closing(pipe), contextlib.suppress(EOFError, OSError):  # the parent has closed the pipe or ended
        batch, *failure = _outcome(share.label, make_batch)
        pipe.send((None, *failure))
        while batch is not None:
            method, arguments = pipe.recv()
            pipe.send(_outcome(share.label, getattr(batch, method), *arguments))
    close_worlds(worlds)


def _outcome(label: str, function: Callable[..., T], *arguments: Any) -> tuple[T | None, GpuEnvsError | None, str]:
    """Return the value of a function, or the error that it raises and the traceback."""
    try:
        return function(*arguments), None, ""
    except Exception as error:  # noqa: BLE001  of another library's code, for the parent process
        text = "".join(traceback.format_exception(error.__cause__ or error))
        kind = f"{label}: {type(error).__name__}: {error}"
        return None, error if isinstance(error, GpuEnvsError) else HostError(kind), text
