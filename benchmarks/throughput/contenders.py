"""Contenders of a comparison: interfaces of gpu-envs, the C step, trainings, and processes of other libraries."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from benchmarks.hardware.bounds import compiler
from benchmarks.hardware.provenance import THREADS
from benchmarks.peers.process import Peer, PeerError, PeerTask
from benchmarks.throughput import cases, interfaces
from benchmarks.throughput.timing import Subject
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.kernels import choose_schedule

SPIEL = {"LeducPoker-v0": "leduc_poker", "ConnectFour-v0": "connect_four"}
"""OpenSpiel names of the games."""
GAME_STEPS = 200
"""Steps per call of a random rollout of games."""


@dataclass(frozen=True)
class Games:
    """Complete random games in worlds with autoreset."""

    env_id: str
    worlds: int
    fused: bool
    """True for many steps in one kernel, False for one step with observations and masks."""


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


Workload: TypeAlias = cases.Case | Games | PPOSubject | RolloutSubject | PeerTask


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
        row: dict[str, Any] = {"worlds": self.worlds, "agents": self.agents, "device": "cpu", "threads": THREADS}
        if isinstance(workload, PeerTask):
            options = [f"{name}={value}" for name, value in workload.options.items()]
            row |= {"env_id": workload.game, "device": workload.device, "threads": workload.threads}
            return row | {"interface": " ".join([workload.module or workload.peer, *options])}
        row["env_id"] = workload.env_id
        if isinstance(workload, Games):
            return row | {"interface": "games"}
        row["threads"] = workload.threads
        if isinstance(workload, PPOSubject):
            return row | {"interface": "training" + f", {workload.engine}" * (workload.engine != "auto")}
        if isinstance(workload, RolloutSubject):
            return row | {"interface": f"rollout, {workload.interface}"}
        chosen = workload.schedule or choose_schedule(self.agents, torch.device(workload.device))
        row |= {"device": workload.device, "schedule": "" if workload.interface == "bound" else chosen}
        return row | {"interface": workload.interface + ", clones" * (not workload.reuse_buffers)}


@contextlib.contextmanager
def open_contenders(contenders: Sequence[Contender]) -> Iterator[tuple[list[ContenderSlot], dict[str, str]]]:
    """Open all available contenders, other libraries in parallel.

    Returns:
        The opened contenders, and the reason by name for each of the others.
    """
    slots: list[ContenderSlot] = []
    absent: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        peers: dict[str, Peer] = {}
        for contender in contenders:
            if isinstance(contender.workload, PeerTask):
                try:
                    peers[contender.name] = stack.enter_context(contextlib.closing(Peer(contender.workload)))
                except PeerError as error:
                    absent[contender.name] = str(error)
        for contender in contenders:
            if contender.name in absent:
                continue
            try:
                slots.append(_open(contender, peers.get(contender.name), stack))
            except PeerError as error:
                absent[contender.name] = str(error)
        yield slots, absent


def _open(contender: Contender, peer: Peer | None, stack: contextlib.ExitStack) -> ContenderSlot:
    """Open a contender.

    Raises:
        PeerError: It needs a library or a compiler that is not installed, or its process failed.
    """
    workload = contender.workload
    if isinstance(workload, PeerTask):
        assert peer is not None
        peer.ready()
        return ContenderSlot(contender, peer, workload.worlds, peer.agents, lambda: float(workload.worlds))
    if isinstance(workload, Games):
        return _open_games(contender, workload)
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
    lacks = "gcc" if workload.interface == "bound" and compiler() is None else interfaces.missing(workload.interface)
    if lacks:
        raise PeerError(f"{lacks} is not installed")
    units = float(workload.num_envs * workload.steps)
    return ContenderSlot(contender, cases.build(workload), workload.num_envs, workload.agents, lambda: units)


def _open_games(contender: Contender, games: Games) -> ContenderSlot:
    """Open random games; the units of a call are the mean number of games that it finished."""
    core = make_core(games.env_id, games.worlds, "cpu", seed=1, threads=THREADS, reuse_buffers=True)
    core.reset()
    calls = 0

    def play() -> None:
        nonlocal calls
        calls += 1
        if games.fused:
            core.random_rollout(GAME_STEPS)
        else:
            core.step(core.sample_actions())

    return ContenderSlot(contender, play, games.worlds, core.num_agents, lambda: int(core.episode_index.sum()) / calls)
