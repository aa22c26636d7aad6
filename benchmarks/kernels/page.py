"""Writer of docs/kernels.md: the record's extremes by family of environments."""

from collections.abc import Collection, Iterator
from typing import Any

from benchmarks.gpu.page import table
from benchmarks.hardware.provenance import ROOT
from benchmarks.kernels.budgets import COMMAND, KNOWN_SPILLS, RECORD, SPILLS
from benchmarks.kernels.measurement import ESSENTIAL, FIGURES, Record, Usages
from benchmarks.kernels.networks import LEARNING, ROLLOUT
from benchmarks.kernels.occupancy import ARCHITECTURES, occupancy
from benchmarks.kernels.programs import subjects
from gpu_envs.definition.registry import find

PAGE = ROOT / "docs" / "kernels.md"
BLOCK_DIM = 256
"""Threads of a block for the occupancy: Warp's default."""
TILE_BLOCK_DIM = 128
"""Threads of a block of the kernels of learning."""
COLUMNS = ["kernels", "count", "registers", "stack", "spills", "shared memory", "occupancy", "memory traffic"]
TEXT = """\
# Kernels

<!-- Generated from `{record}` by `{command}`; do not edit. -->

We record the registers, stack, spills and shared memory of every GPU kernel: the steps, resets and random rollouts of
all environments with their default settings, and [learning](internals.md#networks-in-kernels) with dense networks of
two sizes. Warp {warp} compiles the kernels to PTX and ptxas {ptxas} assembles them for {names}. Neither
needs a GPU. The record, [`{record}`](../{record}), has each kernel by environment,
schedule and architecture. Its lists of figures are: {figures}.

## Extremes

A row covers the kernels of a step in the schedule that a GPU uses by default, or of learning, on all architectures.

{table}

- **Registers**, **stack** and **spills** [bytes] are per thread, **shared memory** [bytes] per block: the largest
  values. {spilling}
- **Occupancy** is the smallest share of a multiprocessor's warps that can be resident, by the calculation of NVIDIA's
  `cuda_occupancy.h` with {block} threads per block, and {tile_block} where a block computes a tile.
- **Memory traffic** [bytes] is the most that a step of one world must move, see
  [`benchmarks/throughput/roofline.py`](../benchmarks/throughput/roofline.py). The bandwidth of a card over it bounds
  the steps per second.

Occupancy is not speed, ptxas does not say how often a kernel uses its stack, and a driver may assemble otherwise.
[Performance](performance.md) has measured throughput, and [`make gpu-report`](guides/gpu.md) measures it on a GPU.

## Record and check

- `{command}` compiles all kernels and writes the record and this page (5 minutes).
  `make kernels ARGS="--only SimpleTag-v0"` replaces some environments.
- `make test-libraries ARGS="-s ptxas"` compiles environments for {essential} and learning for all architectures. It
  fails if a kernel spills, or needs more registers, stack or shared memory than recorded.
- `python -m benchmarks.kernels --check` compares all architectures, with ptxas installed.
"""


def write(record: Record) -> None:
    """Write the page."""
    PAGE.write_text(text(record), encoding="utf-8")


def text(record: Record) -> str:
    """Return the page as Markdown."""
    return TEXT.format(
        record=RECORD.relative_to(ROOT),
        command=COMMAND,
        warp=record["versions"]["warp-lang"],
        ptxas=record["versions"]["ptxas"],
        names=", ".join(architecture.name for architecture in ARCHITECTURES),
        figures=", ".join(figure.replace("_", " ") for figure in FIGURES),
        table="\n".join(table(COLUMNS, list(_rows(record)))).rstrip("\n"),
        spilling=_spilling(record["environments"]),
        block=BLOCK_DIM,
        tile_block=TILE_BLOCK_DIM,
        essential=ESSENTIAL,
    )


def _rows(record: Record) -> Iterator[list[str]]:
    """Yield one row per family of environments, then one per network."""
    families: dict[str, list[dict[str, Any]]] = {}
    for name, environment in record["environments"].items():
        module = str(find(subjects()[name].env_id).module)
        families.setdefault(module.split(".")[2], []).append(environment)
    for family, environments in sorted(families.items()):
        steps = {
            f"{index} {label}": usage
            for index, environment in enumerate(environments)
            for label, usage in environment["kernels"][environment["schedule"]].items()
            if label.startswith("step")
        }
        yield [family, *_extremes(steps), f"{max(environment['bytes'] for environment in environments):,.0f}"]
    for name, network in record["networks"].items():
        kernels = network["kernels"][LEARNING]
        yield [name, *_extremes(kernels, set(kernels).difference(ROLLOUT)), ""]


def _extremes(kernels: Usages, tiled: Collection[str] = ()) -> Iterator[str]:
    """Yield the number of kernels and their extremes; ``tiled`` names those with blocks of TILE_BLOCK_DIM threads."""
    yield str(len(kernels))
    figures = [dict(zip(FIGURES, values, strict=True)) for usage in kernels.values() for values in usage.values()]
    for names in (("registers",), ("stack",), SPILLS, ("shared",)):
        yield f"{max(sum(usage[name] for name in names) for usage in figures):,}"
    least = min(
        occupancy(
            architecture,
            usage[architecture.name][FIGURES.index("registers")],
            usage[architecture.name][FIGURES.index("shared")],
            TILE_BLOCK_DIM if label in tiled else BLOCK_DIM,
        )
        for label, usage in kernels.items()
        for architecture in ARCHITECTURES
    )
    yield f"{100 * least:.3g} %"


def _spilling(environments: dict[str, Any]) -> str:
    """Return the sentence on spills of all kernels of environments."""
    count = spilling = 0
    for environment in environments.values():
        for kernels in environment["kernels"].values():
            for usage in kernels.values():
                count += 1
                spilling += any(values[FIGURES.index(spill)] for values in usage.values() for spill in SPILLS)
    allowed = "; ".join(f"{name}, {schedule}" for name, schedule in KNOWN_SPILLS)
    return f"Of the {count} kernels of environments {spilling} spill.\n  May spill: {allowed}."
