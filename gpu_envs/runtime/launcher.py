"""Launches: which kernels, over which worlds, on which threads or stream. Knows nothing of episodes or names."""

import os
from _thread import allocate_lock
from collections import defaultdict, deque
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch
import warp as wp

import warp_kernels
from warp_kernels.rules import WORLD, Rules
from warp_kernels.schedules import FUSED, Program, Stage, build, build_play

T = TypeVar("T")

FEW_AGENTS = 8
"""Up to this many agents a GPU thread plays a whole world; more agents get a thread each."""
ROWS_PER_THREAD = 4096
"""Fewer agent rows than this are not worth waking a second CPU thread."""
WORTH_WAKING = 50e-6
"""What one thread does within this time [s] is not worth waking another, which takes some 30 µs to come."""
TRIALS = 64
"""Of so many runs one is done the slower way, alone or together, in case it has become the faster."""
ROWS_PER_PART = 1024
"""Threads take their worlds in parts of at least so many agent rows,"""
PARTS = 8
"""and in at most so many parts each: who comes late takes fewer."""


@cache
def program(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """The kernels of a specialisation, built once per process."""
    return build(rules, schedule, fuse_fp)


@cache
def play_kernel(rules: Rules, fuse_fp: bool) -> tuple[Any, Any]:
    """The kernel of random play and its module, built once per process; apart, for most never play blindly."""
    return build_play(rules, fuse_fp)


def choose_schedule(num_agents: int, device: torch.device) -> str:
    """Fused on a CPU, and with few agents on a GPU; phased else."""
    return "fused" if device.type == "cpu" or num_agents <= FEW_AGENTS else "phased"


def choose_threads(num_envs: int, num_agents: int, device: torch.device) -> int:
    """CPU threads that the batch can feed, at most the cores this process may use."""
    if device.type != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, num_envs, num_envs * num_agents // ROWS_PER_THREAD))


def choose_search(num_agents: int, num_nearest: int) -> str:
    """How to find the K nearest: "brute", among all, while they are few; else in a "grid" of cells.

    Measured on a CPU, with a slower search among all than today's, where both cost the same at about 40 + 10 K agents.
    """
    return "grid" if num_nearest > 0 and num_agents > 40 + 10 * num_nearest else "brute"


class _Worker:
    """A thread that joins in the work of another.

    A step of thousands of small worlds takes some 50 µs, and the futures of an executor 20 µs of it.
    """

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._ended = allocate_lock()
        self._ended.acquire()
        Thread(target=self._live, name="gpu_envs", daemon=True).start()

    def join_in(self, work: Callable[[], None]) -> None:
        """Begin to work; returns at once."""
        self._inbox.put(work)

    def leave(self) -> None:
        """Wait until it has ended what it has begun. If it has not begun, since its core is busy, it never will."""
        try:
            self._inbox.get_nowait()
        except Empty:
            self._ended.acquire()

    def _live(self) -> None:
        while True:
            self._inbox.get()()
            self._ended.release()


_idle: list[_Worker] = []
"""Workers shared by every environment of the process; none survives a fork."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def _workers(count: int) -> list[_Worker]:
    """Take so many workers; whoever takes them lays them back."""
    taken = []
    for _ in range(count):
        try:
            taken.append(_idle.pop())
        except IndexError:
            taken.append(_Worker())
    return taken


class Pace:
    """How long one thread takes, and several together: it depends on the rules, the batch and who else is there."""

    def __init__(self) -> None:
        self._alone = self._joint = 0.0  # [s]; 0 before the first time
        self._runs = 0

    def together(self) -> bool:
        """Whether to run together this time."""
        self._runs += 1
        if self._alone < WORTH_WAKING:
            return False
        return (self._joint < self._alone) != (self._runs % TRIALS == 0)

    def took(self, seconds: float, together: bool) -> None:
        """Remember how long it took; that it took much longer only when it happens again and again."""
        usual = self._joint if together else self._alone
        if usual:
            seconds = min(seconds, 1.1 * usual)
        if together:
            self._joint = seconds
        else:
            self._alone = seconds


class _OnDemand(dict[str, T]):
    """Values made when they are first asked for, each once, whichever thread asks."""

    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> T:
        with warp_kernels.building:
            if name not in self:
                self[name] = self._make(name)
            return self[name]


class Runner:
    """Recorded launches of one batch of worlds.

    Args:
        rules: The environment's rules.
        schedule: "fused" or "phased".
        fuse_fp: Allow contracted multiply-adds.
        num_envs: E.
        threads: CPU threads at most; the worlds are split between them where that is worth it.
        device: Where the tensors live.

    Attributes:
        shards: First and last world of every launch: first of the one for all worlds, then of those for parts of them.
    """

    def __init__(
        self, rules: Rules, schedule: str, fuse_fp: bool, num_envs: int, threads: int, device: torch.device
    ) -> None:
        self.rules = rules
        with warp_kernels.building:
            warp_kernels.start()
            self.program = program(rules, schedule, fuse_fp)
        self._schedule, self._fuse_fp = schedule, fuse_fp
        self.device = wp.device_from_torch(device)
        self.threads = threads
        parts = 1 if threads == 1 else max(threads, min(PARTS * threads, num_envs * rules.num_agents // ROWS_PER_PART))
        parts = min(parts, num_envs)
        self.shards = [(0, num_envs)]
        if parts > 1:
            self.shards += pairwise([num_envs * part // parts for part in range(parts + 1)])
        self._pace: defaultdict[str, Pace] = defaultdict(Pace)  # by what is run
        self._streams: dict[int, wp.Stream] = {}
        self._torch_device = device

    def record(self, params: wp.array, state: Any, ios: list[Any]) -> None:
        """Say what the launches are over; they are recorded when they are first run, since that compiles their module.

        Args:
            params: Warp array of the rules' Params, (1,) or (E,); not to be reassigned afterwards, nor
                the others.
            state: The rules' State.
            ios: One IO per launch, alike but for the error slot.
        """
        self._arguments = (params, state, ios)
        self.launches = _OnDemand(self._record)

    def _record(self, name: str) -> list[list[wp.Launch]]:
        """Launches of a kind: by shard, in order."""
        if name == "play":
            stages: tuple[Stage, ...] = (Stage(play_kernel(self.rules, self._fuse_fp)[0], FUSED, (0,)),)
        else:
            stages = getattr(self.program, name)
        params, state, ios = self._arguments
        launches = []
        for (first, end), io in zip(self.shards, ios, strict=True):
            commands = []
            for kernel, over, more in stages:
                count = end - first
                threads = 1 if self.device.is_cpu else count
                dim: Any = (threads, 1) if over == FUSED else (count, 1 if over == WORLD else over)
                bounds = [first, end, threads] if over == FUSED else [first]
                inputs = [*bounds, *more, params, state, io]
                commands.append(wp.launch(kernel, dim, inputs=inputs, device=self.device, record_cmd=True))
            launches.append(commands)
        return launches

    def run(self, name: str, steps: int = 1) -> None:
        """Run recorded launches, "step", "reset", "sample", "global_state" or "play".

        On torch's current stream on a GPU, on the CPU threads else.

        Args:
            name: Which.
            steps: How many steps one launch plays.
        """
        launches = self.launches[name]
        if self.device.is_cuda:
            stream = self._stream()
            for command in launches[0]:
                command.launch(stream)
            return
        self.on_threads(f"{name} {steps.bit_length()}", lambda shard: _run_all(launches[shard]))

    def play(self, steps: int) -> None:
        """Draw actions and step, so many times. What agents see afterwards is defined by the step that must follow."""
        if self._schedule == "phased":
            for _ in range(steps):
                self.run("sample")
                self.run("step")
            return
        for (command,) in self.launches["play"]:
            command.set_param_at_index(3, steps)
        self.run("play", steps)

    def bind(self, buffer: torch.Tensor, results: list[torch.Tensor]) -> None:
        """Say where kernels read actions, (E, A[, K]), and what a step writes, (E, ...) each."""
        self._buffer, self._buffer_at, self._results = buffer, buffer.data_ptr(), results
        if self.device.is_cpu:
            self._buffer_array, self._result_arrays = buffer.numpy(), [result.numpy() for result in results]

    def step(self, action: torch.Tensor, reuse: bool) -> list[torch.Tensor]:
        """Bring the action into the kernels' buffer, unless it lies there already; run a step; clone its results.

        Args:
            action: As given by the caller, of the buffer's shape, dtype and device.
            reuse: Give back the result buffers instead of clones.
        """
        given = action.data_ptr() != self._buffer_at
        if self.device.is_cuda:
            if given:
                self._buffer.copy_(action.detach())
            self.run("step")
            return self._results if reuse else [result.clone() for result in self._results]
        # NumPy copies on the thread that reads or has written those worlds: torch's copies would wake a pool of their
        # own to fight ours over the cores.
        source = (action.detach() if action.requires_grad else action).numpy() if given else None
        launches = self.launches["step"]
        if len(self.shards) == 1:  # few worlds: every microsecond counts
            if source is not None:
                self._buffer_array[:] = source
            _run_all(launches[0])
            return self._results if reuse else [torch.from_numpy(array.copy()) for array in self._result_arrays]
        clones = [] if reuse else [np.empty_like(array) for array in self._result_arrays]

        def one(shard: int) -> None:
            first, end = self.shards[shard]
            if source is not None:
                self._buffer_array[first:end] = source[first:end]
            _run_all(launches[shard])
            for target, array in zip(clones, self._result_arrays, strict=False):
                target[first:end] = array[first:end]

        self.on_threads("step", one)
        return self._results if reuse else [torch.from_numpy(target) for target in clones]

    def on_threads(self, name: str, job: Callable[[int], None]) -> None:
        """Run job(shard) for all worlds at once, or for every part of them on several threads, whichever is faster.

        This thread takes parts from the front, the others from the end: who comes late, or has a busy core, does less,
        and the same worlds mostly stay in the same core's cache.

        Args:
            name: What is run, to compare with earlier times.
            job: Works on the worlds of one shard.
        """
        if len(self.shards) == 1:
            return job(0)
        pace = self._pace[name]
        together, begin = pace.together(), perf_counter()
        if together:
            self._together(job)
        else:
            job(0)
        pace.took(perf_counter() - begin, together)
        return None

    def _together(self, job: Callable[[int], None]) -> None:
        left, errors = deque(range(1, len(self.shards))), []

        def work(take: Callable[[], int], leave: int) -> None:
            while len(left) > leave:
                try:
                    shard = take()
                except IndexError:  # somebody was quicker
                    return
                try:
                    job(shard)
                except BaseException as error:  # noqa: BLE001  # raised below
                    errors.append(error)

        # To sleep until another has done the last part takes longer than to do it, where there are many.
        own = 1 if len(left) > 3 * self.threads else 0
        workers = _workers(self.threads - 1)
        for worker in workers:
            worker.join_in(lambda: work(left.pop, own))
        try:
            work(left.popleft, 0)
        finally:
            for worker in workers:
                worker.leave()
        _idle.extend(workers)
        if errors:
            raise errors[0]

    def _stream(self) -> wp.Stream:
        """Torch's current stream as Warp's, wrapped once."""
        current = torch.cuda.current_stream(self._torch_device)
        stream = self._streams.get(current.cuda_stream)
        if stream is None:
            stream = self._streams[current.cuda_stream] = wp.stream_from_torch(current)
        return stream


def _run_all(commands: list[wp.Launch]) -> None:
    for command in commands:
        command.launch()
