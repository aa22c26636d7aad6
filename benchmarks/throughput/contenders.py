"""Who can take part in a comparison, and how to open each: our doors, the C step, our training, peers' processes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from benchmarks import cases, doors, games
from benchmarks.bounds.build import compiler
from benchmarks.compare import Subject
from benchmarks.origin import THREADS
from benchmarks.peers.process import Peer, PeerError, Task
from gpu_envs.runner import choose_schedule


@dataclass(frozen=True)
class Batch:
    """Random games of ours; see :class:`benchmarks.games.Batch`."""

    env_id: str
    worlds: int
    fused: bool


@dataclass(frozen=True)
class Learner:
    """A training of ours; see :class:`benchmarks.training.Training`."""

    env_id: str
    worlds: int | None
    ppo: dict[str, Any] | None
    threads: int = 1
    """As many as a peer that it is compared with may use."""


What: TypeAlias = cases.Case | Batch | Learner | Task


@dataclass(frozen=True)
class Entrant:
    """One who takes part."""

    name: str
    kind: str
    """"ours", "door", "bound" or "peer"."""
    what: What


@dataclass
class Seat:
    """An entrant that is ready to play."""

    entrant: Entrant
    subject: Subject
    worlds: int
    agents: int
    units: Callable[[], float]
    """What one step counts for, known when all has been played: steps of worlds, or games."""
    note: str = ""

    def describe(self) -> dict[str, Any]:
        """Environment, worlds, agents, schedule, device, door and threads, as far as they are known."""
        what = self.entrant.what
        row: dict[str, Any] = {"worlds": self.worlds, "agents": self.agents}
        if isinstance(what, cases.Case):
            chosen = what.schedule or choose_schedule(self.agents, torch.device(what.device))
            return row | {
                "env_id": what.env_id,
                "schedule": "" if what.entrance == "bound" else chosen,
                "device": what.device,
                "door": what.entrance + ("" if what.reuse_buffers else ", clones"),
                "threads": what.threads,
            }
        if isinstance(what, Task):
            door = " ".join([what.module or what.peer, *(f"{name}={value}" for name, value in what.options.items())])
            return row | {"env_id": what.game, "device": what.device, "door": door, "threads": what.threads}
        return row | {
            "env_id": what.env_id,
            "device": "cpu",
            "door": "training" if isinstance(what, Learner) else "games",
            "threads": what.threads if isinstance(what, Learner) else THREADS,
        }


@contextlib.contextmanager
def seated(entrants: Sequence[Entrant]) -> Iterator[tuple[list[Seat], dict[str, str]]]:
    """Open all that can be opened, peers side by side.

    Returns:
        The seats, and by the names of the others why they have none.
    """
    with contextlib.ExitStack() as stack:
        started: dict[str, Peer] = {}
        absent: dict[str, str] = {}
        for entrant in entrants:
            if isinstance(entrant.what, Task):
                try:
                    started[entrant.name] = peer = Peer(entrant.what)
                    stack.callback(peer.close)
                except PeerError as error:
                    absent[entrant.name] = str(error)
        seats = []
        for entrant in entrants:
            why = None if isinstance(entrant.what, Task) else _missing(entrant.what)
            if why is not None:
                absent[entrant.name] = why
            elif entrant.name not in absent:
                try:
                    seats.append(_open(entrant, started.get(entrant.name), stack))
                except PeerError as error:
                    absent[entrant.name] = str(error)
        yield seats, absent


def _missing(what: What) -> str | None:
    """Why one of ours cannot take part."""
    if not isinstance(what, cases.Case):
        return None
    if what.entrance == "bound":
        return "gcc is not installed" if compiler() is None else None
    module = doors.missing(what.entrance)
    return f"{module} is not installed" if module else None


def _open(entrant: Entrant, peer: Peer | None, stack: contextlib.ExitStack) -> Seat:
    what = entrant.what
    if isinstance(what, Task):
        assert peer is not None
        peer.ready()
        note = "; ".join(filter(None, [", ".join(f"{name} {v}" for name, v in peer.versions.items()), peer.note]))
        return Seat(entrant, peer, what.worlds, peer.agents, lambda: float(what.worlds), note)
    if isinstance(what, Batch):
        batch = games.Batch(what.env_id, what.worlds, what.fused)
        return Seat(entrant, batch.play, what.worlds, batch.core.num_agents, batch.games_per_call)
    if isinstance(what, Learner):
        from benchmarks.training import Training

        training: Any = Training(what.env_id, what.worlds, what.threads, what.ppo)
        stack.callback(training.close)
        return Seat(entrant, training, training.num_envs, training.agents, lambda: float(training.num_envs))
    return Seat(entrant, cases.build(what), what.num_envs, what.agents, lambda: float(what.num_envs * what.steps))
