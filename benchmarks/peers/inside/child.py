"""The peers' side of the line protocol; standard library only.

A child gets its task as JSON in its only argument. It answers in lines on standard output, "answer " and JSON; first
``{"ready": {package: version}, "agents": A, "note": ""}``, then for every line on standard input, a number of steps,
``{"steps": played, "seconds": lasted, "note": ""}``. It ends with its standard input. A child may play
more steps than it was asked for, where its library plays many in one call.
"""

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable

BATCHES = 8
"""Random actions are drawn beforehand and used in turn."""


def serve(build: Callable, packages: tuple[str, ...]) -> None:
    """Build what the task asks for, then play what is asked for, and time it.

    Args:
        build: task -> (agents of a world, function that plays a number of steps and gives how many it has played). A
            third value is a note, or a function that returns it after each turn.
        packages: Whose versions to tell.
    """
    task = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not come between the answers
    agents, play, *notes = build(task)

    def note():
        return "; ".join(part() if callable(part) else part for part in notes)

    play(1)  # compiles, where something is to be compiled
    versions = {name: importlib.metadata.version(name) for name in packages}
    answer = {"ready": versions, "agents": agents, "note": note()}
    print("answer", json.dumps(answer), file=answers)
    for line in sys.stdin:
        begin = time.perf_counter()
        played = play(int(line))
        lasted = time.perf_counter() - begin
        print("answer", json.dumps({"steps": played, "seconds": lasted, "note": note()}), file=answers)


def one_by_one(step: Callable[[int], None]) -> Callable[[int], int]:
    """Return a function that plays a number of steps with a function that plays step i."""
    done = 0

    def play(count: int) -> int:
        nonlocal done
        for index in range(done, done + count):
            step(index)
        done += count
        return count

    return play
