"""Contenders of a comparison: interfaces of gpu-envs, the C step, trainings, and processes of other libraries."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from benchmarks.hardware.bounds.build import compiler
from benchmarks.hardware.provenance import THREADS
from benchmarks.peers.process import Peer, PeerError, PeerTask
from benchmarks.throughput import cases, interfaces, random_games
from benchmarks.throughput.timing import Subject
from gpu_envs.runtime.kernels import choose_schedule


@dataclass(frozen=True)
class Batch:
    """Random games in gpu-envs; see :class:`benchmarks.throughput.random_games.GameBatch`."""

    env_id: str
    worlds: int
    fused: bool


@dataclass(frozen=True)
class PPOSubject:
    """A training with gpu-envs; see :class:`benchmarks.training.ppo.PPOTraining`."""

    env_id: str
    worlds: int | None
    ppo: dict[str, Any] | None
    threads: int = 1
    """Number of threads, the same as the compared library's."""
    engine: str = "auto"
    """Engine of the learner: "auto", "torch" or "kernel"."""
    env: Mapping[str, Any] | None = None
    """Settings of the environment; None for the preset's."""


@dataclass(frozen=True)
class RolloutSubject:
    """Rollouts with policies; see :func:`benchmarks.training.rollouts.make_rollout`."""

    env_id: str
    worlds: int
    interface: str
    """"kernels", "torch" or "collector"."""
    threads: int = THREADS
    torch_threads: int = 1


Workload: TypeAlias = cases.Case | Batch | PPOSubject | RolloutSubject | PeerTask


@dataclass(frozen=True)
class Contender:
    """One participant of a comparison."""

    name: str
    kind: str
    """"gpu_envs", "interface", "bound" or "peer"."""
    workload: Workload


@dataclass
class ContenderSlot:
    """An opened contender."""

    contender: Contender
    subject: Subject
    worlds: int
    agents: int
    units: Callable[[], float]
    """Function that returns the units of one step after the run: environment steps or games."""

    def describe(self) -> dict[str, Any]:
        """Return environment, worlds, agents, schedule, device, interface and threads, if known."""
        workload = self.contender.workload
        row: dict[str, Any] = {"worlds": self.worlds, "agents": self.agents}
        if isinstance(workload, cases.Case):
            chosen = workload.schedule or choose_schedule(self.agents, torch.device(workload.device))
            return row | {
                "env_id": workload.env_id,
                "schedule": "" if workload.interface == "bound" else chosen,
                "device": workload.device,
                "interface": workload.interface + ("" if workload.reuse_buffers else ", clones"),
                "threads": workload.threads,
            }
        if isinstance(workload, PeerTask):
            interface = " ".join(
                [workload.module or workload.peer, *(f"{name}={value}" for name, value in workload.options.items())]
            )
            return row | {
                "env_id": workload.game,
                "device": workload.device,
                "interface": interface,
                "threads": workload.threads,
            }
        interface, threads = "games", THREADS
        if isinstance(workload, PPOSubject):
            interface, threads = (
                "training" + ("" if workload.engine == "auto" else f", {workload.engine}"),
                workload.threads,
            )
        elif isinstance(workload, RolloutSubject):
            interface, threads = f"rollout, {workload.interface}", workload.threads
        return row | {"env_id": workload.env_id, "device": "cpu", "interface": interface, "threads": threads}


@contextlib.contextmanager
def open_contenders(contenders: Sequence[Contender]) -> Iterator[tuple[list[ContenderSlot], dict[str, str]]]:
    """Open all available contenders, other libraries in parallel.

    Returns:
        The opened contenders, and the reason by name for each of the others.
    """
    with contextlib.ExitStack() as stack:
        started: dict[str, Peer] = {}
        absent: dict[str, str] = {}
        for contender in contenders:
            if isinstance(contender.workload, PeerTask):
                try:
                    started[contender.name] = peer = Peer(contender.workload)
                    stack.callback(peer.close)
                except PeerError as error:
                    absent[contender.name] = str(error)
        seats = []
        for contender in contenders:
            why = None if isinstance(contender.workload, PeerTask) else _missing(contender.workload)
            if why is not None:
                absent[contender.name] = why
            elif contender.name not in absent:
                try:
                    seats.append(_open(contender, started.get(contender.name), stack))
                except PeerError as error:
                    absent[contender.name] = str(error)
        yield seats, absent


def _missing(workload: Workload) -> str | None:
    """Return why a contender of gpu-envs is not available, or None."""
    if not isinstance(workload, cases.Case):
        return None
    if workload.interface == "bound":
        return "gcc is not installed" if compiler() is None else None
    module = interfaces.missing(workload.interface)
    return f"{module} is not installed" if module else None


def _open(contender: Contender, peer: Peer | None, stack: contextlib.ExitStack) -> ContenderSlot:
    workload = contender.workload
    if isinstance(workload, PeerTask):
        assert peer is not None
        peer.ready()
        return ContenderSlot(contender, peer, workload.worlds, peer.agents, lambda: float(workload.worlds))
    if isinstance(workload, Batch):
        batch = random_games.GameBatch(workload.env_id, workload.worlds, workload.fused)
        return ContenderSlot(contender, batch.play, workload.worlds, batch.core.num_agents, batch.games_per_call)
    if isinstance(workload, PPOSubject):
        from benchmarks.training.ppo import PPOTraining

        training: Any = PPOTraining(
            workload.env_id, workload.worlds, workload.threads, workload.ppo, workload.engine, workload.env
        )
        stack.callback(training.close)
        return ContenderSlot(contender, training, training.num_envs, training.agents, lambda: float(training.num_envs))
    if isinstance(workload, RolloutSubject):
        from benchmarks.training.rollouts import LENGTH, make_rollout

        play, core = make_rollout(
            workload.env_id, workload.worlds, workload.interface, workload.threads, workload.torch_threads
        )
        return ContenderSlot(contender, play, workload.worlds, core.num_agents, lambda: float(workload.worlds * LENGTH))
    return ContenderSlot(
        contender,
        cases.build(workload),
        workload.num_envs,
        workload.agents,
        lambda: float(workload.num_envs * workload.steps),
    )
