"""A peer's child process as a subject of an alternating run."""

import dataclasses
import json
import os
import re
import selectors
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hardware.provenance import ROOT, THREADS

HOME = ROOT / "out" / "peers"
ANSWER = b"answer "
PATIENCE = 180.0
"""Seconds to wait for an answer; starting and compiling take less than a minute."""


class PeerError(RuntimeError):
    """A peer is not installed, or its process failed; the message is one line."""


@dataclass(frozen=True)
class PeerTask:
    """Task of a child process."""

    peer: str
    """Name of its environment: ``NAME.txt`` and ``out/peers/NAME``."""
    game: str
    worlds: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    """The file of ``inside/``; empty where it is called as the peer."""
    threads: int = THREADS
    """Cores that it may use."""
    device: str = "cpu"


def python(peer: str) -> Path:
    """Return the path of the interpreter of a peer's virtual environment."""
    return HOME / peer / "bin" / "python"


def missing(peer: str) -> str | None:
    """Return why a library is not available, or None."""
    if (HOME / peer / "installed").exists():
        return None
    return f"{peer} is not installed: make bench-peers"


class Peer:
    """A running child. Making it starts it; ``ready`` waits until it can play.

    Args:
        task: Task of the child.
        command: Command line; None for the interpreter and file of the task.

    Raises:
        PeerError: It is not installed.
    """

    def __init__(self, task: PeerTask, command: list[str] | None = None) -> None:
        if command is None:
            why = missing(task.peer)
            if why is not None:
                raise PeerError(why)
            command = [str(python(task.peer)), "-m", task.module or f"benchmarks.peers.inside.{task.peer}"]
        self.task = task
        self.versions: dict[str, str] = {}
        self.agents = 0
        self.note = ""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 close() closes it
        surroundings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        surroundings |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(task.threads)}
        if task.device == "cpu":
            surroundings["JAX_PLATFORMS"] = "cpu"
        self._process = subprocess.Popen(
            [*command, json.dumps(dataclasses.asdict(task))],
            cwd=ROOT,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,  # so that what a selector sees is all that there is to read
        )
        self.pid: int | None = self._process.pid
        # Not every library listens to OMP_NUM_THREADS: XLA counts the cores that it may use. Threads to come inherit.
        os.sched_setaffinity(self._process.pid, sorted(os.sched_getaffinity(0))[: task.threads])

    def ready(self) -> "Peer":
        """Wait until the child is ready.

        Raises:
            PeerError: It failed, or did not answer in time.
        """
        answer = self._answer()
        self.versions, self.agents, self.note = answer["ready"], answer["agents"], answer["note"]
        return self

    def turn(self, count: int) -> float:
        """Run at least a number of steps and return the seconds per step.

        Raises:
            PeerError: It failed, or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{count}\n".encode())
        except BrokenPipeError:
            raise self._failed("ended") from None
        answer = self._answer()
        self.note = answer["note"]
        return answer["seconds"] / answer["steps"]

    def describe(self) -> str:
        """Return the versions of its packages and its note of the last turn."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return "; ".join(filter(None, [versions, self.note]))

    def close(self) -> None:
        """End the child."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = b"something else"
        while not line.startswith(ANSWER):  # some libraries talk while they are imported
            with selectors.DefaultSelector() as selector:
                selector.register(self._process.stdout, selectors.EVENT_READ)
                if not selector.select(PATIENCE):
                    raise self._failed(f"has not answered for {PATIENCE:.0f} s")
            line = self._process.stdout.readline()
            if not line:
                raise self._failed("ended")
        return json.loads(line.removeprefix(ANSWER))

    def _failed(self, how: str) -> PeerError:
        """Return the error in one line and end the process."""
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]  # more may follow it
        why = (errors or lines or [""])[-1]
        return PeerError(f"{self.task.peer}, {self.task.game}: {how}{why and ': '}{why}")
