"""The figures this project promises on two CPU cores, as data, and how each is measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks import isolated
from benchmarks.bounds.build import compiler
from benchmarks.cases import CASES, CROWDS, DOORS, NO_EXITS, Case, available, build, crowd
from benchmarks.compare import Rounds, Spread, alternate, undisturbed


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 15
    seconds: float = 0.5  # of a turn
    memory_steps: int = 1_000_000
    compiles: int = 3


QUICK = Effort(rounds=5, seconds=0.1, memory_steps=20_000, compiles=1)


@dataclass(frozen=True)
class Figure:
    """One measured line of the report."""

    what: str
    unit: str
    value: float
    low: float | None = None  # quartiles
    high: float | None = None
    target: str = ""  # ">= 0.45", "" where nothing is promised
    note: str = ""
    curve: str = ""  # of the group's picture, "" where the figure is not in it
    at: float | None = None  # place on that curve

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if not self.target:
            return None
        sense, limit = self.target.split()
        return self.value >= float(limit) if sense == ">=" else self.value <= float(limit)


@dataclass(frozen=True)
class Target:
    """A group of figures measured together. ``measure(effort)`` yields them."""

    id: str
    title: str
    needs: str  # environment
    measure: Callable[[Effort], Iterator[Figure]]


def _figure(what: str, unit: str, spread: Spread, scale: float = 1.0, **more: Any) -> Figure:
    return Figure(what, unit, spread.median * scale, spread.low * scale, spread.high * scale, **more)


def _rate(what: str, case: Case, samples: list[float], **more: Any) -> Figure:
    return _figure(what, "env-steps/s", Spread.of([case.num_envs / sample for sample in samples]), **more)


def _against_bound(env_id: str, num_envs: int, target: str, config: dict[str, Any], effort: Effort) -> Iterator[Figure]:
    if compiler() is None:
        return
    ours, bound = (Case(env_id, num_envs, entrance, config=config) for entrance in ("core", "bound"))
    played = alternate({"ours": build(ours), "bound": build(bound)}, effort.rounds, effort.seconds)
    yield _figure("core.step over the C step", "ratio", played.ratio("bound", "ours"), target=target)
    yield _rate("core.step", ours, played.seconds["ours"])
    yield _rate("the C step", bound, played.seconds["bound"])
    yield _noise(played)


def _one_world(env_id: str, target: str, config: dict[str, Any], effort: Effort) -> Iterator[Figure]:
    case = Case(env_id, 1, threads=1, config=config)
    played = alternate({"ours": build(case)}, effort.rounds, effort.seconds)
    yield _figure("core.step, 1 world", "µs", Spread.of(played.seconds["ours"]), 1e6, target=target)
    yield _noise(played)


def _doors(env_id: str, target: str, effort: Effort) -> Iterator[Figure]:
    cases = DOORS[env_id]
    names = ["core, reused buffers", "core, clones (default)", "dict, reused buffers", "dict, clones (default)"]
    played = alternate(
        {name: build(case) for name, case in zip(names, cases, strict=True)}, effort.rounds, effort.seconds
    )
    core, clones, reused, default = names
    yield _percent("dict over core, reused buffers", played.ratio(reused, core), target)
    yield _percent("dict over core, clones", played.ratio(default, clones), target)
    yield _percent("clones over reused buffers, core", played.ratio(clones, core), "")
    for name, case in zip(names, cases, strict=True):
        yield _rate(name, case, played.seconds[name])
    yield _noise(played)


def _crowds(effort: Effort) -> Iterator[Figure]:
    """Cost of an agent-step in one world, by agents; then the same agents in all, in many worlds; then memory."""
    alone = {(agents, threads): crowd(agents, threads=threads) for agents in CROWDS for threads in (1, 2)}
    alone = {(n, t): case for (n, t), case in alone.items() if t == 1 or n >= 10_000}  # below that one thread serves
    brute = {(n, 0): crowd(n, threads=1, search="brute") for n in CROWDS[1:3]}
    words = {0: "all looked through, 1 thread", 1: "one world, 1 thread", 2: "one world, 2 threads"}
    cases = alone | brute
    played = alternate(
        {f"{n} {t}": build(case) for (n, t), case in cases.items()}, max(3, effort.rounds // 2), effort.seconds
    )
    few = CROWDS[0]
    for n, t in alone:
        if n > few:
            ratio = played.ratio(f"{n} {t}", f"{few} 1")
            what = f"an agent-step among {n:,} over one among {few}, {words[t]}"
            yield _figure(what, "ratio of cost", ratio, few / n, target="<= 2")
    for n, t in cases:
        rates = Spread.of([n / sample for sample in played.seconds[f"{n} {t}"]])
        yield _figure(f"{n:,} agents, {words[t]}", "agent-steps/s", rates, curve=words[t], at=n)
    yield _noise(played)
    total = CROWDS[-1]
    filled = {n: build(crowd(n, total // n)) for n in CROWDS}
    played = alternate({str(n): step for n, step in filled.items()}, max(3, effort.rounds // 2), effort.seconds)
    for n in CROWDS:
        rates = Spread.of([total / sample for sample in played.seconds[str(n)]])
        what = f"{total:,} agents in all, 2 threads"
        yield _figure(f"{n:,} agents in each of {total // n:,} worlds", "agent-steps/s", rates, curve=what, at=n)
    yield _noise(played)
    seen = {n: isolated.run("crowd", n) for n in CROWDS[1:]}
    for n, memory in seen.items():
        note = f"{memory['resident_mib']:.0f} MiB resident"
        yield Figure(f"tensors of a world of {n:,}", "bytes per agent", memory["bytes"] / n, note=note)
    few, many = CROWDS[1], CROWDS[-1]
    growth = seen[many]["bytes"] / many / (seen[few]["bytes"] / few)
    yield Figure(f"bytes per agent, {many:,} over {few:,}", "ratio", growth, target="<= 1.1")


def _noise(played: Rounds | list[float]) -> Figure:
    shares = played.disturbance if isinstance(played, Rounds) else played
    return _figure("other processes meanwhile", "% of the machine", Spread.of(shares), 100)


def _percent(what: str, more: Spread, target: str) -> Figure:
    return Figure(
        what, "% more time", *(100 * (part - 1) for part in (more.median, more.low, more.high)), target=target
    )


def _memory(effort: Effort) -> Iterator[Figure]:
    rows = (
        ("SimpleTag-v0", 1, effort.memory_steps, "core", "reused"),
        ("SimpleTag-v0", 1, effort.memory_steps, "core", "cloned"),
        ("SimpleTag-v0", 256, effort.memory_steps // 10, "dict", "cloned"),
        ("TagContinuous-v0", 2, effort.memory_steps // 10, "core", "cloned"),
    )
    for row in rows:
        env_id, num_envs, steps, entrance, results = row
        if not available(Case(env_id, num_envs)):
            continue
        seen = isolated.run("memory", *row)
        what = f"{env_id}, {num_envs} worlds, {entrance}, {results} results, {steps:,} steps"
        growth = seen["after_mib"] - seen["before_mib"]
        yield Figure(what, "MiB growth", growth, target="<= 1", note=f"{seen['after_mib']:.0f} MiB resident at the end")


def _compile(env_id: str, effort: Effort) -> Iterator[Figure]:
    kept = undisturbed(lambda: isolated.compile_times(env_id), effort.compiles)
    runs = [pair for _, pair in kept]
    for index, (what, target) in enumerate((("cold compile", "<= 5"), ("from the cache", "<= 0.3"))):
        seen = [pair[index] for pair in runs]
        note = f"CPU time {median(one['cpu_seconds'] for one in seen):.2f} s"
        walls = [one["seconds"] for one in seen]
        yield Figure(f"{env_id}, {what}", "s", median(walls), min(walls), max(walls), target, note)
    yield _noise([others for others, _ in kept])
    starts = [one["warp_start_seconds"] for pair in runs for one in pair]
    yield Figure("Warp's own start, not in the above", "s", median(starts), min(starts), max(starts))


def _import(effort: Effort) -> Iterator[Figure]:
    runs = [seen for _, seen in undisturbed(isolated.import_times, effort.compiles)]
    yield Figure("files that import gpu_envs compiles", "files", max(one["files"] for one in runs), target="<= 0")
    for key, what in (("torch_seconds", "import torch alone"), ("rest_seconds", "import gpu_envs after it")):
        times = [one[key] for one in runs]
        yield Figure(what, "s", median(times), min(times), max(times))


def _throughput(env_id: str, effort: Effort) -> Iterator[Figure]:
    """Every stacked case of an environment, the bound beside it."""
    for size in sorted({case.num_envs for case in CASES if case.env_id == env_id}):
        doors = {
            case.entrance: case
            for case in CASES
            if (case.env_id, case.num_envs) == (env_id, size) and case.entrance != "dict" and case.reuse_buffers
        }
        if compiler() is None:
            doors.pop("bound", None)
        played = alternate(
            {name: build(case) for name, case in doors.items()}, max(3, effort.rounds // 2), effort.seconds / 2
        )
        note = f"C step: {size / median(played.seconds['bound']):,.3g}" if "bound" in doors else ""
        yield _rate(f"{size:,} worlds", doors["core"], played.seconds["core"], note=note)
        yield _noise(played)


TARGETS = (
    Target(
        "simple-tag",
        "SimpleTag-v0, 16,384 worlds, 2 threads",
        "SimpleTag-v0",
        partial(_against_bound, "SimpleTag-v0", 16384, ">= 0.45", {}),
    ),
    Target("simple-tag-one", "SimpleTag-v0, 1 world", "SimpleTag-v0", partial(_one_world, "SimpleTag-v0", "<= 15", {})),
    Target(
        "tag-continuous",
        "TagContinuous-v0, 5 taggers and 100 runners, K = 10, nobody exits, 1,024 worlds, 2 threads",
        "TagContinuous-v0",
        partial(_against_bound, "TagContinuous-v0", 1024, ">= 0.5", NO_EXITS),
    ),
    Target("crowds", "Crowds: TagContinuous-v0 in one world, 5 % taggers, K = 10", "TagContinuous-v0", _crowds),
    Target(
        "doors",
        "Doors of SimpleTag-v0 at 4,096 worlds, 2 threads",
        "SimpleTag-v0",
        partial(_doors, "SimpleTag-v0", "<= 25"),
    ),
    Target(
        "doors-continuous",
        "Doors of TagContinuous-v0 5 + 100 at 1,024 worlds, 2 threads",
        "TagContinuous-v0",
        partial(_doors, "TagContinuous-v0", "<= 25"),
    ),
    Target("memory", "Memory", "SimpleTag-v0", _memory),
    *(
        Target(f"compile-{env_id}", f"Compile of {env_id}", env_id, partial(_compile, env_id))
        for env_id in ("SimpleTag-v0", "TagContinuous-v0", "TagGridworld-v0")
    ),
    Target("import", "import gpu_envs", "SimpleTag-v0", _import),
    *(
        Target(f"throughput-{env_id}", f"Throughput of {env_id}, core.step", env_id, partial(_throughput, env_id))
        for env_id in ("SimpleTag-v0", "TagContinuous-v0", "TagGridworld-v0")
    ),
)
