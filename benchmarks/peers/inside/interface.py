"""A door of this project that needs a library of its own. The one file here that imports the project."""

import torch

from benchmarks import hotspots
from benchmarks.cases import Case
from benchmarks.cases import build as opened
from benchmarks.doors import missing
from benchmarks.peers.inside.child import one_by_one, serve


def build(task):
    """``entrance``: the door, a name of ``benchmarks.doors.DOORS``."""
    torch.set_num_threads(task["threads"])
    entrance = task["options"]["entrance"]
    absent = missing(entrance)
    if absent is not None:
        raise ModuleNotFoundError(f"{absent} is not there")
    case = Case(task["game"], task["worlds"], entrance, False, task["threads"], device=task["device"])
    step = opened(case)
    step()
    told = hotspots.told(hotspots.shares(step))
    return case.agents, one_by_one(lambda _: step()), told


if __name__ == "__main__":
    serve(build, ("torch", "warp-lang"))
