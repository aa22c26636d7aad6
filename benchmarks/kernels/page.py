"""Writer of docs/kernels.md from the record."""

from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.gpu.page import number, table
from benchmarks.hardware.provenance import ROOT
from benchmarks.kernels.budgets import COMMAND, RECORD, SPILLS
from benchmarks.kernels.measurement import ESSENTIAL, FIGURES, Record
from benchmarks.kernels.networks import LEARNING, ROLLOUT, networks
from benchmarks.kernels.occupancy import ARCHITECTURES, Architecture, occupancy

PAGE = ROOT / "docs" / "kernels.md"
BLOCK_DIM = 256
"""Threads of a block for the occupancy: Warp's default."""
TILE_BLOCK_DIM = 128
"""Threads of a block of the kernels of learning."""
NAMES = " / ".join(architecture.name for architecture in ARCHITECTURES)

HEAD = """\
# Kernels

<!-- Generated from `{record}` by `{command}`; do not edit. -->

This page lists the resources of the GPU kernels of every environment with its default settings, and of
[learning](#learning). Warp {warp} compiles the kernels to PTX, and ptxas {ptxas} assembles them for {names}.
Neither needs a GPU. Cells with several values are in this order of architectures; a single value holds for all.

The figures are also budgets. `make test-libraries ARGS="-s ptxas"` compiles the kernels again: those of environments
for {essential}, those of learning for all architectures. It fails if a kernel spills, or needs more registers, stack or
shared memory than recorded. After a change of kernels, `{command}` records the figures of all architectures again.

## Columns

- **Kernel**: fused, one kernel plays the whole step of a world. Phased, each phase of a step or reset is a kernel,
  numbered in order. The overview is of the kernels of a step in the schedule that a GPU uses by default.
- **Threads**: a kernel has a thread per world, or per world and agent or item.
- **Registers** of a thread.
- **Stack** [bytes per thread]: local memory, mostly for arrays whose index is known only at run time.
- **Spills** [bytes per thread]: registers stored to the stack and loaded from it because there are too few.
- **Occupancy**: warps that can be resident on a multiprocessor over the most that it supports, with {block} threads per
  block. The calculation is that of NVIDIA's `cuda_occupancy.h`.
  {shared}
- **Bytes**: necessary memory traffic of a step of one world, see
  [`benchmarks/throughput/roofline.py`](../benchmarks/throughput/roofline.py).
- **Bound** [env-steps/s]: bandwidth of the card by its data sheet over the bytes.
  {cards}

## Limits of these figures

- Theoretical occupancy is not speed. It says how many warps can hide the latency of memory, not whether they have to. A
  small batch does not fill a GPU, whatever the occupancy.
- The bound counts necessary traffic. A phased step reads State once per phase, from the caches or from memory. Small
  batches stay in the caches and may exceed the bound. No kernel reaches the bandwidth of a data sheet.
- ptxas does not say how often a kernel uses its stack.
- On a GPU, Warp's own compiler or the driver assembles the kernels. Its version may differ from that of ptxas here.
- Other settings, such as other numbers of agents, give other kernels.

[Performance](performance.md) has measured throughput, and [`make gpu-report`](guides/gpu.md) measures it on a GPU.
"""
NETWORKS = """\
## Learning

Kernels of PPO with dense networks of 18 inputs, two hidden layers, and 5 masked discrete actions. A block of {block}
threads computes a tile of rows. It keeps their values in shared memory, through which matrices pass in slices. Shared
memory decides about the number of rows of a tile, see
[`warp_kernels/networks/tile_memory.py`](../warp_kernels/networks/tile_memory.py). In a rollout, "policy outputs" is
followed by "act", in which a thread per world and agent samples an action, and by the step and "store".

"""
SPILLING = (
    "With over 128 agents, the phases of a fused kernel are separate functions, to which State and IO are copied.",
    'A GPU plays so many agents phased, unless `schedule="fused"` is given.',
    "The random rollout of GatherTradeBuild-v0 holds a whole step, which does not fit into the registers.",
)
"""The reason of KNOWN_SPILLS."""


def write(record: Record) -> None:
    """Write the page."""
    PAGE.write_text(text(record), encoding="utf-8")


def text(record: Record) -> str:
    """Return the page as Markdown."""
    environments = record["environments"]
    lines = HEAD.format(
        record=RECORD.relative_to(ROOT),
        command=COMMAND,
        warp=record["versions"]["warp-lang"],
        ptxas=record["versions"]["ptxas"],
        names=", ".join(each.name for each in ARCHITECTURES),
        block=BLOCK_DIM,
        essential=ESSENTIAL,
        shared=_shared(environments),
        cards=", ".join(f"{each.card} ({each.name}): {number(each.bandwidth)}B/s" for each in ARCHITECTURES) + ".",
    ).splitlines()
    head = ["environment", "agents", "schedule", "kernels of a step", "registers, most", "stack, most", "spills"]
    head += ["occupancy, least", "bytes", *(f"bound, {each.card}" for each in ARCHITECTURES)]
    lines += [
        "",
        "## Overview",
        "",
        *_spilling(environments),
        *table(head, [_overview(*each) for each in environments.items()]),
    ]
    for name, environment in environments.items():
        head = ["schedule", "kernel", "threads", f"registers, {NAMES}", "stack", "spills", "occupancy"]
        lines += [f"## {name}", "", *table(head, list(_details(environment)))]
    lines += NETWORKS.format(block=TILE_BLOCK_DIM).splitlines()
    for name, network in record["networks"].items():
        head = [
            "kernel",
            f"registers, {NAMES}",
            "stack",
            "spills",
            "shared memory [bytes]",
            "tile rows",
            "occupancy",
        ]
        lines += [f"### {name}", "", *table(head, list(_learning(name, network)))]
    return "\n".join(lines).rstrip("\n") + "\n"


def _spilling(environments: dict[str, Any]) -> list[str]:
    """Return the sentences on spills."""
    spilling = [
        f"{name}, {schedule}: {label.partition(',')[0]}"
        for name, environment in environments.items()
        for schedule, kernels in environment["kernels"].items()
        for label, usage in kernels.items()
        if any(_spills(usage, each) for each in ARCHITECTURES)
    ]
    count = sum(1 for _ in _kernels(environments))
    if not spilling:
        return [f"None of the {count} kernels spills.", ""]
    return [f"{len(spilling)} of {count} kernels spill ({'; '.join(spilling)}).", *SPILLING, ""]


def _shared(environments: dict[str, Any]) -> str:
    found = {_figure(usage, "shared", each) for usage in _kernels(environments) for each in ARCHITECTURES}
    if len(found) == 1:
        return f"Kernels of environments have {found.pop():,} bytes of shared memory per block, which Warp reserves."
    return f"Shared memory is {min(found):,} to {max(found):,} bytes per block."


def _kernels(environments: dict[str, Any]) -> Iterator[dict[str, list[int]]]:
    for environment in environments.values():
        for kernels in environment["kernels"].values():
            yield from kernels.values()


def _figure(usage: dict[str, list[int]], figure: str, architecture: Architecture) -> int:
    return usage[architecture.name][FIGURES.index(figure)]


def _spills(usage: dict[str, list[int]], architecture: Architecture) -> int:
    return sum(_figure(usage, figure, architecture) for figure in SPILLS)


def _occupancy(usage: dict[str, list[int]], architecture: Architecture, block_dim: int = BLOCK_DIM) -> float:
    registers, shared = (_figure(usage, figure, architecture) for figure in ("registers", "shared"))
    return occupancy(architecture, registers, shared, block_dim)


def _overview(name: str, environment: dict[str, Any]) -> list[str]:
    """Return the row of an environment: the step of its schedule on a GPU."""
    kernels = environment["kernels"][environment["schedule"]]
    steps = [usage for kernel, usage in kernels.items() if kernel.startswith("step")]
    return [
        f"[{name}](#{_anchor(name)})",
        str(environment["agents"]),
        environment["schedule"],
        str(len(steps)),
        _joined(max(_figure(usage, "registers", each) for usage in steps) for each in ARCHITECTURES),
        _joined(max(_figure(usage, "stack", each) for usage in steps) for each in ARCHITECTURES),
        _joined(max(_spills(usage, each) for usage in steps) for each in ARCHITECTURES),
        _percent(min(_occupancy(usage, each) for usage in steps) for each in ARCHITECTURES),
        f"{environment['bytes']:,.0f}",
        *(number(each.bandwidth / environment["bytes"]) for each in ARCHITECTURES),
    ]


def _details(environment: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the rows of the kernels of an environment."""
    for schedule, kernels in environment["kernels"].items():
        for label, usage in kernels.items():
            kernel, _, threads = label.partition(", per ")
            yield [
                schedule,
                kernel,
                threads,
                _joined(_figure(usage, "registers", each) for each in ARCHITECTURES),
                _joined(_figure(usage, "stack", each) for each in ARCHITECTURES),
                _joined(_spills(usage, each) for each in ARCHITECTURES),
                _percent(_occupancy(usage, each) for each in ARCHITECTURES),
            ]


def _learning(name: str, network: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the rows of the kernels of a network."""
    subject = networks()[name]
    for label, usage in network["kernels"][LEARNING].items():
        in_tiles = label not in ROLLOUT
        tiles = [str((in_tiles and subject.tile_rows(each)) or "") for each in ARCHITECTURES]
        block_dim = TILE_BLOCK_DIM if in_tiles else BLOCK_DIM
        yield [
            label,
            _joined(_figure(usage, "registers", each) for each in ARCHITECTURES),
            _joined(_figure(usage, "stack", each) for each in ARCHITECTURES),
            _joined(_spills(usage, each) for each in ARCHITECTURES),
            _joined(_figure(usage, "shared", each) for each in ARCHITECTURES),
            tiles[0] if len(set(tiles)) == 1 else " / ".join(tiles),
            _percent(_occupancy(usage, each, block_dim) for each in ARCHITECTURES),
        ]


def _anchor(name: str) -> str:
    return "".join(letter for letter in name.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _joined(values: Iterable[float]) -> str:
    """Return the values of the architectures, once if they are equal."""
    shown = [f"{value:,}" for value in values]
    return shown[0] if len(set(shown)) == 1 else " / ".join(shown)


def _percent(shares: Iterable[float]) -> str:
    return f"{_joined(float(f'{100 * share:.3g}') for share in shares).replace('.0', '')} %"
