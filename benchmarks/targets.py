"""The figures this project promises on two CPU cores, as data, and how each is measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import gpu_envs
from benchmarks import games, isolated
from benchmarks.bounds.build import compiler
from benchmarks.cases import CASES, CROWDS, DOORS, NO_EXITS, Case, available, build, crowd
from benchmarks.compare import PATIENCE, Rounds, Spread, alternate, undisturbed


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 15
    seconds: float = 0.5  # of a turn
    memory_steps: int = 1_000_000
    compiles: int = 3
    patience: float = PATIENCE  # rounds played at most, as a multiple of those wanted


NOISE = "other processes meanwhile"
"""The figure that says how busy the machine was otherwise."""
QUICK = Effort(rounds=5, seconds=0.1, memory_steps=20_000, compiles=1)


@dataclass(frozen=True)
class Figure:
    """One measured line of the report."""

    what: str
    unit: str
    value: float | None  # None where it could not be measured: the note says why
    low: float | None = None  # quartiles
    high: float | None = None
    target: str = ""  # ">= 0.45", "" where nothing is promised
    note: str = ""
    curve: str = ""  # of the group's picture, "" where the figure is not in it
    at: float | None = None  # place on that curve
    along: str = "agents in a world"  # what the places are
    row: dict[str, Any] | None = None  # of a comparison with peers: see contests.py

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if not self.target or self.value is None:
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


def _against_gymnasium(env_id: str, sizes: dict[int, tuple[str, str]], effort: Effort) -> Iterator[Figure]:
    """By size: what is promised of the ratio and of the steps per second."""
    for size, (ratio, rate) in sizes.items():
        ours, alone = (Case(env_id, size, threads=threads) for threads in (2, 1))
        theirs = Case(env_id, size, "gymnasium")
        cases = {"ours": ours, "alone": alone, "theirs": theirs}
        played = alternate({name: build(case) for name, case in cases.items()}, effort.rounds, effort.seconds)
        at = f", {size:,} worlds"
        yield _figure(f"core.step over Gymnasium's own{at}", "ratio", played.ratio("theirs", "ours"), target=ratio)
        yield _figure(f"the same on one thread{at}", "ratio", played.ratio("theirs", "alone"))
        yield _rate(f"core.step{at}", ours, played.seconds["ours"], target=rate)
        yield _rate(f"core.step on one thread{at}", alone, played.seconds["alone"])
        yield _rate(f"Gymnasium's own{at}", theirs, played.seconds["theirs"])
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
    few, rounds = CROWDS[0], max(3, effort.rounds // 2)
    alone = {str(n): build(crowd(n)) for n in CROWDS}
    among_all = {f"{n} brute": build(crowd(n, search="brute")) for n in CROWDS[1:3]}
    played = alternate(alone | among_all, rounds, effort.seconds)
    for n in CROWDS[1:]:
        what = f"an agent-step among {n:,} over one among {few}"
        yield _figure(what, "ratio of cost", played.ratio(str(n), str(few)), few / n, target="<= 2")
    for name, seconds in played.seconds.items():
        n, curve = int(name.split()[0]), "one world, all looked through" if "brute" in name else "one world, 1 thread"
        rates = Spread.of([n / sample for sample in seconds])
        yield _figure(f"{n:,} agents, {curve}", "agent-steps/s", rates, curve=curve, at=n)
    yield _noise(played)
    total = CROWDS[-1]
    played = alternate({str(n): build(crowd(n, total // n)) for n in CROWDS}, rounds, effort.seconds)
    for n in CROWDS:
        rates = Spread.of([total / sample for sample in played.seconds[str(n)]])
        curve = f"{total:,} agents in all, 2 threads"
        yield _figure(f"{n:,} agents in each of {total // n:,} worlds", "agent-steps/s", rates, curve=curve, at=n)
    yield _noise(played)
    seen = {n: isolated.run("crowd", n) for n in CROWDS[1:]}
    for n, memory in seen.items():
        note = f"{memory['resident_mib']:.0f} MiB resident"
        yield Figure(f"tensors of a world of {n:,}", "bytes per agent", memory["bytes"] / n, note=note)
    some, many = CROWDS[1], CROWDS[-1]
    growth = seen[many]["bytes"] / many / (seen[some]["bytes"] / some)
    yield Figure(f"bytes per agent, {many:,} over {some:,}", "ratio", growth, target="<= 1.1")


def _noise(played: Rounds | list[float]) -> Figure:
    shares = played.disturbance if isinstance(played, Rounds) else played
    return _figure(NOISE, "% of the machine", Spread.of(shares), 100)


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


def _compile(effort: Effort) -> Iterator[Figure]:
    """Start-up of every environment in a process of its own: with an empty kernel cache, then from what that left."""
    noise, starts = [], []
    for env_id in gpu_envs.list_envs():
        kept = undisturbed(partial(isolated.compile_times, env_id), effort.compiles)
        noise += [others for others, _ in kept]
        for index, (what, target) in enumerate((("cold compile", "<= 5"), ("from the cache", "<= 0.3"))):
            seen = [pair[index] for _, pair in kept]
            walls = [one["seconds"] for one in seen]
            note = f"CPU time {median(one['cpu_seconds'] for one in seen):.2f} s"
            yield Figure(f"{env_id}, {what}", "s", median(walls), min(walls), max(walls), target, note)
            starts += [one["warp_start_seconds"] for one in seen]
    yield _noise(noise)
    yield Figure("Warp's own start, not in the above", "s", median(starts), min(starts), max(starts))


def _import(effort: Effort) -> Iterator[Figure]:
    runs = [seen for _, seen in undisturbed(isolated.import_times, effort.compiles)]
    yield Figure("files that import gpu_envs compiles", "files", max(one["files"] for one in runs), target="<= 0")
    for what, keys, target in (
        ("import torch alone", ("torch_seconds",), ""),
        ("import gpu_envs after it", ("rest_seconds",), ""),
        ("import gpu_envs, torch included", ("torch_seconds", "rest_seconds"), "<= 3"),
    ):
        times = [sum(one[key] for key in keys) for one in runs]
        yield Figure(what, "s", median(times), min(times), max(times), target)


def _throughput(env_id: str, targets: dict[int, str], effort: Effort) -> Iterator[Figure]:
    """Every stacked case of an environment, the bound beside it; ``targets`` by size."""
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
        target = targets.get(size, "")
        yield _rate(f"{size:,} worlds", doors["core"], played.seconds["core"], note=note, target=target)
        yield _noise(played)


def _games(num_envs: int, effort: Effort) -> Iterator[Figure]:
    """Games a second over OpenSpiel's: a step that shows as much against a loop that reads as much, and bare ones."""
    for env_id in games.SPIEL:
        step, fused = (games.Batch(env_id, num_envs, fused) for fused in (False, True))
        subjects = {
            "core.step(core.sample_actions())": step.play,
            "core.play_random": fused.play,
            "pyspiel loop with observations and masks": games.loop(env_id, observe=True),
            "pyspiel loop, moves alone": games.loop(env_id, observe=False),
            "pyspiel.evaluate_bots, random bots": games.bots(env_id),
        }
        played = alternate(subjects, effort.rounds, effort.seconds)
        ours, play, told, bare, _ = subjects
        count = dict.fromkeys(subjects, float(games.LOOP)) | {
            ours: step.games_per_call(),
            play: fused.games_per_call(),
        }
        for mine, theirs, target in ((ours, told, ">= 10"), (play, bare, ">= 50"), (ours, bare, ""), (play, told, "")):
            what = f"{env_id}: {mine} over the {theirs}"
            yield _figure(what, "ratio", played.ratio(theirs, mine), count[mine] / count[theirs], target=target)
        for name, samples in played.seconds.items():
            yield _figure(f"{env_id}: {name}", "games/s", Spread.of([count[name] / sample for sample in samples]))
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
        partial(_against_bound, "TagContinuous-v0", 1024, ">= 0.6", NO_EXITS),
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
    Target(
        "cartpole",
        "CartPole-v1, 2 threads, against Gymnasium's own vector environment",
        "CartPole-v1",
        partial(_against_gymnasium, "CartPole-v1", {4096: (">= 1.8", ">= 3.5e7"), 16384: ("", "")}),
    ),
    Target(
        "games",
        "Games against OpenSpiel's pyspiel (one thread, as it is), 4,096 worlds, 2 threads",
        "ConnectFour-v0",
        partial(_games, 4096),
    ),
    Target("memory", "Memory", "SimpleTag-v0", _memory),
    Target("compile", "Compile of every environment", "SimpleTag-v0", _compile),
    Target("import", "import gpu_envs", "SimpleTag-v0", _import),
    *(
        Target(f"throughput-{id}", f"Throughput of {id}, core.step", id, partial(_throughput, id, targets))
        for id, targets in (
            ("SimpleTag-v0", {}),
            ("SimpleSpread-v0", {16384: ">= 1e7"}),
            ("TagContinuous-v0", {}),
            ("TagGridworld-v0", {}),
            ("CartPole-v1", {}),
        )
    ),
)
