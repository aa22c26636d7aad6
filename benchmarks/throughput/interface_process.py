"""An interface of this project that needs another library, measured in the environment of that library."""

import torch

from benchmarks.hardware import hotspots
from benchmarks.peers.inside.child import one_by_one, serve
from benchmarks.throughput.cases import Case
from benchmarks.throughput.cases import build as opened
from benchmarks.throughput.interfaces import missing


def build(task):
    """``interface``: the interface, a name of ``benchmarks.throughput.interfaces.INTERFACES``."""
    torch.set_num_threads(task["threads"])
    interface = task["options"]["interface"]
    absent = missing(interface)
    if absent is not None:
        raise ModuleNotFoundError(f"{absent} is not there")
    case = Case(task["game"], task["worlds"], interface, False, task["threads"], device=task["device"])
    step = opened(case)
    step()
    note = hotspots.format_shares(hotspots.shares(step))
    return case.agents, one_by_one(lambda _: step()), note


if __name__ == "__main__":
    serve(build, ("torch", "warp-lang"))
