"""Shares of a cluster's GPUs for the trainings of a league that run at the same time.

With at least as many GPUs as trainings every training gets whole GPUs, as many as its neighbors or one more: two
trainings on eight GPUs get four each, three get 3, 3 and 2. It is then data-parallel, with one process per GPU, and may
span nodes, since torch's process group does. GPUs of different kinds give different random numbers, so a training has
GPUs of one kind.

With fewer GPUs the trainings are spread over them as evenly as possible, and share a GPU equally:
ten trainings on four GPUs get thirds of two GPUs and halves of two. Trainings beyond the limits of the GPUs, of their
memory and of the CPUs wait for others to end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpu_envs.errors import ConfigError
from gpu_envs.utils.terminal import shorten

SHARING = 4
"""Default of the largest number of learners on a GPU."""
PRECISION = 10_000
"""Number of parts of a GPU that Ray distinguishes."""
ROUNDING = 1e-6
"""Tolerance of sums of shares."""
WIDTH = 80
"""Largest number of characters in a line of `format_plan`."""


@dataclass(frozen=True)
class GpuNode:
    """Resources of a node."""

    gpus: int
    """Number of GPUs."""
    cpus: int
    """Number of CPUs."""
    kind: str = ""
    """Model of the GPUs."""
    memory: float = math.inf
    """Memory of each GPU [GiB]."""
    name: str = ""
    """Identifier of the node."""


@dataclass(frozen=True)
class GpuShare:
    """GPUs of one training."""

    gpus: float
    """Number of GPUs: a part of one, or a whole number."""
    kind: str = ""
    """Model of the GPUs."""
    node: str | None = None
    """Node of a part of a GPU; None: any nodes."""

    @property
    def processes(self) -> int:
        """Number of processes of the training: one per GPU."""
        return max(1, int(self.gpus))


@dataclass(frozen=True)
class SharePlan:
    """Shares of the trainings that run at once, in their order; the remaining trainings wait for one of them to end."""

    shares: tuple[GpuShare, ...]
    """Shares that fit into the cluster together."""
    waiting: int = 0
    """Number of trainings without a share."""

    @property
    def least(self) -> float:
        """Smallest share; 0 without shares."""
        return min((share.gpus for share in self.shares), default=0.0)

    @property
    def is_uniform(self) -> bool:
        """Whether all shares are equally large, so that a training that waits can take any that becomes free."""
        return len({share.gpus for share in self.shares}) <= 1


def check_share(gpus: float | None) -> None:
    """Raise ConfigError unless a given share is None, a part of a GPU, or a whole number of GPUs."""
    if gpus is not None and not (0.001 <= gpus <= 1 or (math.isfinite(gpus) and gpus >= 1 and gpus == int(gpus))):
        raise ConfigError(
            f"gpus_per_learner: expected a share in [0.001, 1], a whole number of GPUs or None, got {gpus}"
        )


def plan_shares(
    nodes: Sequence[GpuNode],
    trainings: int,
    *,
    cpus: int = 1,
    max_per_gpu: int = SHARING,
    memory: float = 0.0,
    gpus: float | None = None,
) -> SharePlan:
    """Return the shares of trainings that begin together.

    Args:
        nodes: Nodes of the cluster.
        trainings: Number of trainings.
        cpus: CPUs that a process of a training needs on the node of its GPU.
        max_per_gpu: Largest number of trainings on a GPU.
        memory: Memory of a GPU that a training needs [GiB].
        gpus: Share of every training, as in `check_share`; None: computed, so that no GPU is idle.

    Raises:
        ConfigError: The given share is neither a part of a GPU nor a whole number.
    """
    check_share(gpus)
    nodes = [node for node in nodes if _usable(node, cpus) and node.memory >= memory]
    count = sum(_usable(node, cpus) for node in nodes)
    if not trainings or not count:
        return SharePlan((), trainings)
    if gpus is not None:
        max_per_gpu = int(1 / gpus + 1e-9)
        shares = (
            _fixed(nodes, trainings, cpus, gpus) if gpus >= 1 else _parts(nodes, trainings, cpus, max_per_gpu, memory)
        )
        shares = [GpuShare(float(gpus), share.kind, share.node) for share in shares]
    elif trainings <= count:
        shares = _whole_gpus(nodes, trainings, cpus)
    else:
        shares = _parts(nodes, trainings, cpus, max_per_gpu, memory)
    return SharePlan(tuple(shares), trainings - len(shares))


def free_shares(nodes: Sequence[GpuNode], plan: SharePlan, running: Sequence[GpuShare]) -> list[GpuShare]:
    """Return the shares of a plan that running trainings, which it includes, leave to others and that are free now.

    Args:
        nodes: Nodes of the cluster.
        plan: Shares of all trainings.
        running: Shares of the trainings that run, from this plan or an earlier one.
    """
    remaining, unmatched = list(plan.shares), list[GpuShare]()
    for share in running:
        if share in remaining:
            remaining.remove(share)
        else:
            unmatched.append(share)
    for share in unmatched:
        if remaining:
            remaining.remove(
                min(remaining, key=lambda planned: (abs(planned.gpus - share.gpus), planned.node != share.node))
            )
    free = sum(node.gpus for node in nodes) - sum(share.gpus for share in running)
    on_node = {node.name: float(node.gpus) for node in nodes}
    for share in running:
        if share.node in on_node:
            on_node[share.node] -= share.gpus
    kinds = {node.name: node.kind for node in nodes}
    result = []
    for share in remaining:
        if share.gpus > 1 and share.node is None:  # fewer GPUs now are better than more later
            of_kind = [gpus for name, gpus in on_node.items() if kinds[name] == share.kind or not share.kind]
            largest = int(min(free, sum(of_kind)) + ROUNDING)
            share = replace(share, gpus=float(min(share.gpus, max(largest, 1))))
        if share.gpus > free + ROUNDING or share.gpus > on_node.get(share.node or "", math.inf) + ROUNDING:
            continue
        result.append(share)
        free -= share.gpus
        if share.node in on_node:
            on_node[share.node] -= share.gpus
    return result


def _usable(node: GpuNode, cpus: int) -> int:
    """Return the number of GPUs of a node that have a CPU for a process."""
    return min(node.gpus, node.cpus // cpus)


def _by_kind(nodes: Iterable[GpuNode], cpus: int) -> dict[str, int]:
    """Return the number of usable GPUs by model."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.kind] = counts.get(node.kind, 0) + _usable(node, cpus)
    return counts


def _whole_gpus(nodes: Sequence[GpuNode], trainings: int, cpus: int) -> list[GpuShare]:
    """Return whole GPUs for trainings that do not outnumber them, the larger numbers first."""
    counts = _by_kind(nodes, cpus)
    count = dict.fromkeys(counts, 0)
    for _ in range(trainings):  # the next training goes where it gets most; a kind without trainings comes first
        open_kinds = [kind for kind in counts if count[kind] < counts[kind]]
        count[max(open_kinds, key=lambda kind: (not count[kind], counts[kind] / (count[kind] + 1)))] += 1
    shares = [
        GpuShare(float(counts[kind] // number + (i < counts[kind] % number)), kind)
        for kind, number in count.items()
        for i in range(number)
    ]
    return sorted(shares, key=lambda share: -share.gpus)


def _fixed(nodes: Sequence[GpuNode], trainings: int, cpus: int, gpus: float) -> list[GpuShare]:
    """Return the shares of trainings with a whole number of GPUs each."""
    shares = [GpuShare(gpus, kind) for kind, count in _by_kind(nodes, cpus).items() for _ in range(int(count / gpus))]
    return shares[:trainings]


def _parts(nodes: Sequence[GpuNode], trainings: int, cpus: int, limit: int, memory: float) -> list[GpuShare]:
    """Return equal parts of each GPU for its trainings, which are spread evenly over the GPUs; larger shares last."""
    count = [[0] * node.gpus for node in nodes]
    gpus = [(index, gpu) for index, node in enumerate(nodes) for gpu in range(node.gpus)]
    for _ in range(trainings):
        free = [
            (count[index][gpu], index, gpu)
            for index, gpu in gpus
            if count[index][gpu] < _most_on(nodes[index], limit, memory)
            and sum(count[index]) < nodes[index].cpus // cpus
        ]
        if not free:
            break
        _, index, gpu = min(free)
        count[index][gpu] += 1
    shares = [
        GpuShare(int(PRECISION / count[index][gpu]) / PRECISION, nodes[index].kind, nodes[index].name)
        for index, gpu in gpus
        for _ in range(count[index][gpu])
    ]
    return sorted(shares, key=lambda share: share.gpus)


def _most_on(node: GpuNode, limit: int, memory: float) -> int:
    """Return the largest number of trainings on a GPU of a node, of which each needs an amount of memory [GiB]."""
    return limit if not memory or math.isinf(node.memory) else min(limit, int(node.memory / memory))


def format_plan(nodes: Sequence[GpuNode], plan: SharePlan, names: Sequence[str]) -> str:
    """Return the GPUs of a cluster and the share of every training as a table, without a line break at its end.

    Args:
        nodes: Nodes of the cluster.
        plan: Shares, in the order of `names`.
        names: Names of the trainings.
    """
    with_gpus = [node for node in nodes if node.gpus]
    total, count = sum(node.gpus for node in with_gpus), len(with_gpus)
    kinds = ", ".join(dict.fromkeys(node.kind for node in with_gpus if node.kind))
    text = f"{total} GPU{'s' * (total != 1)} on {count} node{'s' * (count != 1)}{f' ({kinds})' if kinds else ''}"
    by_share: dict[str, list[str]] = {}
    mixed = len({share.kind for share in plan.shares}) > 1
    for name, share in zip(names, plan.shares, strict=False):
        label = f"{share.gpus:.3g}" + (f" x {share.kind}" if mixed else "")
        by_share.setdefault(label, []).append(name)
    if waiting := list(names[len(plan.shares) :]):
        by_share["waiting"] = waiting
    width = max(map(len, ("GPUs each", *by_share)))
    lines = [text, f"  {'GPUs each':{width}}  runs"]
    for label, trainings in by_share.items():
        lines.append(f"  {label:{width}}  {len(trainings):>3}: {', '.join(trainings)}")
    return "\n".join(shorten(line, WIDTH) for line in lines)
