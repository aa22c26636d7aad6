"""Writer of docs/kernels.md: the record's extremes by family of environments."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.hardware.page_files import filled, table
from benchmarks.hardware.provenance import ROOT
from benchmarks.kernels.budgets import KNOWN_SPILLS, SPILLS
from benchmarks.kernels.measurement import FIGURES, Record
from benchmarks.kernels.networks import LEARNING, ROLLOUT
from benchmarks.kernels.occupancy import ARCHITECTURES, occupancy
from benchmarks.kernels.programs import subjects
from benchmarks.kernels.words import SIZES
from gpu_envs.definition.registry import find
from gpu_envs.runtime.kernels import LARGE_BLOCK, threads_of_world

PAGE = ROOT / "docs" / "kernels.md"
TILE_BLOCK_DIM = 128
"""Threads of a block of the kernels of learning."""
COLUMNS = ("kernels", "count", "registers", "stack", "spills", "shared memory", "occupancy", "memory traffic")


def write(record: Record) -> None:
    """Write the page."""
    PAGE.write_text(filled(PAGE, parts(record)), encoding="utf-8")


def parts(record: Record) -> dict[str, str]:
    """Return the parts of the page by name."""
    versions = record["versions"]
    return {
        "versions": f"Compiled with Warp {versions['warp-lang']} and ptxas {versions['ptxas']} for "
        f"{', '.join(architecture.name for architecture in ARCHITECTURES)}.",
        "words": table(
            ("kernel of a step", *(f"{size} bytes" for size in SIZES)),
            ([name, *map(str, counts)] for name, counts in record["words"].items()),
        ),
        "kernels": f"{table(COLUMNS, _rows(record))}\n\n{_spilling(record['environments'])}",
    }


def _rows(record: Record) -> Iterator[list[str]]:
    """Yield one row per family of environments, then one per network."""
    families: dict[str, list[dict[str, Any]]] = {}
    for name, environment in record["environments"].items():
        module = str(find(subjects()[name].env_id).module)
        families.setdefault(module.split(".")[2], []).append(environment)
    for family, environments in sorted(families.items()):
        steps = {
            (index, label): usage
            for index, environment in enumerate(environments)
            for label, usage in environment["kernels"][environment["schedule"]].items()
            if label.startswith("step")
        }
        block_dims = {
            (index, label): threads_of_world(environments[index]["agents"])
            for index, label in steps
            if environments[index]["schedule"] == "block"
        }
        yield [
            family,
            *_extremes(steps, block_dims),
            f"{max(environment['bytes'] for environment in environments):,.0f}",
        ]
    for name, network in record["networks"].items():
        kernels = network["kernels"][LEARNING]
        yield [name, *_extremes(kernels, dict.fromkeys(set(kernels).difference(ROLLOUT), TILE_BLOCK_DIM)), ""]


def _extremes(kernels: Mapping[Any, Any], block_dims: Mapping[Any, int]) -> Iterator[str]:
    """Yield the number of kernels and their extremes; ``block_dims`` are the threads of blocks, by default 64."""
    yield str(len(kernels))
    figures = [dict(zip(FIGURES, values, strict=True)) for usage in kernels.values() for values in usage.values()]
    for names in (("registers",), ("stack",), SPILLS, ("shared",)):
        yield f"{max(sum(usage[name] for name in names) for usage in figures):,}"
    least = min(
        occupancy(
            architecture,
            usage[architecture.name][FIGURES.index("registers")],
            usage[architecture.name][FIGURES.index("shared")],
            block_dims.get(label, LARGE_BLOCK),
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
    return f"Of the {count} kernels of environments {spilling} spill. May spill: {allowed}."
