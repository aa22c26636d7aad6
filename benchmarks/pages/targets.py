"""Groups of figures without a comparison: large agent counts, training time, memory and start-up."""

import importlib.util
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import gpu_envs
from benchmarks.hardware import hotspots
from benchmarks.hardware.provenance import THREADS
from benchmarks.throughput import isolated
from benchmarks.throughput.cases import AGENT_COUNTS, build, many_agents
from benchmarks.throughput.comparisons import JAXMARL, SB3
from benchmarks.throughput.contenders import PPOSubject
from benchmarks.throughput.target import NOISE, Effort, Figure, PerformanceTarget
from benchmarks.throughput.timing import AlternatingSamples, Spread, alternate, undisturbed
from benchmarks.training import lightning_overhead, runs
from gpu_envs.definition import registry


def _figure(title: str, unit: str, spread: Spread, scale: float = 1.0, **more: Any) -> Figure:
    return Figure(title, unit, spread.median * scale, spread.low * scale, spread.high * scale, **more)


def _many_agents(effort: Effort) -> Iterator[Figure]:
    """Cost of an agent-step in one world, by agents; then the same agents in all, in many worlds; then memory."""
    few, rounds = AGENT_COUNTS[0], max(3, effort.repeats // 2)
    alone = {str(n): build(many_agents(n)) for n in AGENT_COUNTS}
    among_all = {f"{n} brute": build(many_agents(n, neighbor_search="brute")) for n in AGENT_COUNTS[1:3]}
    played = alternate(alone | among_all, rounds, effort.seconds)
    for n in AGENT_COUNTS[1:]:
        title = f"an agent-step among {n:,} over one among {few}"
        yield _figure(title, "ratio of cost", played.ratio(str(n), str(few)), few / n, target="<= 2")
    for name, seconds in played.seconds.items():
        n, curve = int(name.split()[0]), "one world, all looked through" if "brute" in name else "one world, 1 thread"
        rates = Spread.of([n / sample for sample in seconds])
        yield _figure(f"{n:,} agents, {curve}", "agent-steps/s", rates, curve=curve, at=n)
    yield _noise(played)
    total = AGENT_COUNTS[-1]
    played = alternate({str(n): build(many_agents(n, total // n)) for n in AGENT_COUNTS}, rounds, effort.seconds)
    for n in AGENT_COUNTS:
        rates = Spread.of([total / sample for sample in played.seconds[str(n)]])
        curve = f"{total:,} agents in all, {THREADS} threads"
        yield _figure(f"{n:,} agents in each of {total // n:,} worlds", "agent-steps/s", rates, curve=curve, at=n)
    yield _noise(played)
    usage = {n: isolated.run("many-agents", n) for n in AGENT_COUNTS[1:]}
    for n, memory in usage.items():
        note = f"{memory['resident_mib']:.0f} MiB resident"
        yield Figure(f"tensors of a world of {n:,}", "bytes per agent", memory["bytes"] / n, note=note)
    fewer, many = AGENT_COUNTS[1], AGENT_COUNTS[-1]
    growth = usage[many]["bytes"] / many / (usage[fewer]["bytes"] / fewer)
    yield Figure(f"bytes per agent, {many:,} over {fewer:,}", "ratio", growth, target="<= 1.1")


def _noise(played: AlternatingSamples | list[float]) -> Figure:
    shares = played.disturbance if isinstance(played, AlternatingSamples) else played
    return _figure(NOISE, "% of the machine", Spread.of(shares), 100)


def _memory(effort: Effort) -> Iterator[Figure]:
    """Yield the growth of the resident memory over many steps."""
    few, many = effort.memory_steps // 10, effort.memory_steps
    for env_id, worlds, steps, interface, kind in (
        ("SimpleTag-v0", 1, many, "core", "reused"),
        ("SimpleTag-v0", 1, many, "core", "cloned"),
        ("SimpleTag-v0", 256, few, "dict", "cloned"),
        ("TagContinuous-v0", 2, few, "core", "cloned"),
    ):
        usage = isolated.run("memory", env_id, worlds, steps, interface, kind)
        title = f"{env_id}, {worlds} worlds, {interface}, {kind} results, {steps:,} steps"
        note = f"{usage['after_mib']:.0f} MiB resident at the end"
        yield Figure(title, "MiB growth", usage["after_mib"] - usage["before_mib"], target="<= 1", note=note)


OUTSIDE, KERNELS = "outside of policy, environment and learning", "kernels on the calling thread"
IN_PHASES = ("rollout", "inference", "env_step", "update")
PHASED = (
    ("TagContinuous-v0", PPOSubject("TagContinuous-v0", None, None, THREADS)),
    ("SimpleSpread-v0, 16 worlds, 1 thread", PPOSubject("SimpleSpread-v0", 16, JAXMARL, engine="kernel")),
    ("CartPole-v1, 8 worlds, 1 thread", PPOSubject("CartPole-v1", 8, SB3, engine="kernel")),
    ("SimpleSpread-v0, 16 worlds, 1 thread, PyTorch", PPOSubject("SimpleSpread-v0", 16, JAXMARL, engine="torch")),
)
"""Trainings whose time is divided: the main task, and those that are compared with other libraries."""


def _training_time(effort: Effort) -> Iterator[Figure]:
    """Yield the time of trainings by phase from their logs, and the share of kernels from a profile."""
    from benchmarks.training.ppo import PPOTraining

    for title, subject in PHASED:
        training = PPOTraining(subject.env_id, subject.worlds, subject.threads, subject.ppo, subject.engine)
        training.shares(turn=effort.seconds)  # warms up
        shares = [training.shares(turn=effort.seconds) for _ in range(effort.repeats // 2)]
        profile = hotspots.shares(partial(training.turn, 1), effort.seconds) if training.uses_kernels else {}
        training.close()
        for phase in (*shares[0], OUTSIDE):
            inside = [sum(sample.get(name, 0.0) for name in IN_PHASES) for sample in shares]
            values = [1 - share for share in inside] if phase == OUTSIDE else [sample[phase] for sample in shares]
            target = "<= 15" if phase == OUTSIDE else ""
            yield _figure(f"{title}, {phase}", "% of the time", Spread.of(values), 100, target=target)
        if profile:
            note = hotspots.format_shares({room: share for room, share in profile.items() if room != "kernels"}, 0.01)
            yield Figure(f"{title}, {KERNELS}", "% of the time", 100 * profile["kernels"], note=note)


RUNS = (
    ("gpu-envs train CartPole-v1 --until-return 475, from process start", runs.UNTIL_RETURN, "<= 3.5"),
    ("make train, training", runs.MAKE_TRAIN, "<= 20"),
)
"""Title, run and target [s] of whole trainings; the target is for kernels and for the automatic choice."""
RUN_ENGINES = ("auto", "kernel", "torch")


def _training_runs(effort: Effort) -> Iterator[Figure]:
    """Yield the seconds of whole trainings in separate processes; a sample is a seed, and engines take turns."""
    for label, run, limit in RUNS:
        runs.fill_cache(run)
        (noise, results), *_ = undisturbed(partial(runs.alternate, run, RUN_ENGINES, effort.compiles), 1)
        for engine, seeds in results.items():
            seconds, target = [run_time.seconds for run_time in seeds], "" if engine == "torch" else limit
            title, note = f"{label}, engine {engine}", ". ".join(run_time.result for run_time in seeds)
            yield Figure(title, "s", median(seconds), min(seconds), max(seconds), target, note)
        yield _noise([noise])


def _training_seeds(effort: Effort) -> Iterator[Figure]:
    """Yield the time of several runs in separate processes over the time of the same runs in one process."""
    runs.fill_cache(runs.SEVERAL)
    samples = undisturbed(runs.separate_and_together, effort.compiles)
    count = runs.NUM_SEEDS
    ratio = f"{count} runs of gpu-envs train CartPole-v1 one after the other over --num-seeds {count}"
    for title, unit, values, target in (
        (ratio, "ratio", [separate / together for _, (separate, together) in samples], ">= 3"),
        ("one after the other", "s", [separate for _, (separate, _) in samples], ""),
        (f"--num-seeds {count}", "s", [together for _, (_, together) in samples], ""),
    ):
        yield Figure(title, unit, median(values), min(values), max(values), target)
    yield _noise([noise for noise, _ in samples])


def _training_lightning(effort: Effort) -> Iterator[Figure]:
    """Yield the ratio of the times of Lightning's loop and the trainer, which alternate; it needs Lightning."""
    target, title = "<= 1.1", "time of a rollout and its update, Lightning's loop over the trainer's"
    if importlib.util.find_spec("lightning") is None:
        yield Figure(title, "ratio", None, target=target, note="Lightning is not installed: gpu-envs[lightning]")
        return
    samples = undisturbed(partial(lightning_overhead.measure, 8 * effort.repeats), 1)
    times = samples[0][1]
    yield _figure(title, "ratio", Spread.of(times.ratios), target=target, note=times.settings)
    for name, seconds in (("trainer", times.trainer), ("Lightning", times.lightning)):
        yield _figure(name, "env-steps/s", Spread.of([times.steps / duration for duration in seconds]))
    yield _noise([noise for noise, _ in samples])


LARGE = {"cards", "economy", "grid", "hidden", "kitchen", "smax"}
"""Groups of environments with longer rules."""


def _compile(effort: Effort) -> Iterator[Figure]:
    """Yield the start-up time of every environment in a separate process, with an empty and a filled kernel cache."""
    noise, of_warp = [], []
    for env_id in gpu_envs.list_envs():
        samples = undisturbed(partial(isolated.compile_times, env_id), effort.compiles)
        noise += [usage for usage, _ in samples]
        is_large = not LARGE.isdisjoint(str(registry.find(env_id).module).split("."))
        targets = {"cold compile": "<= 8" if is_large else "<= 5", "from the cache": "<= 0.3"}
        for index, (title, target) in enumerate(targets.items()):
            starts_of_index = [pair[index] for _, pair in samples]
            walls = [start["seconds"] for start in starts_of_index]
            note = f"CPU time {median(start['cpu_seconds'] for start in starts_of_index):.2f} s"
            yield Figure(f"{env_id}, {title}", "s", median(walls), min(walls), max(walls), target, note)
            of_warp += [start["warp_start_seconds"] for start in starts_of_index]
    yield _noise(noise)
    yield Figure("Warp's own start, not in the above", "s", median(of_warp), min(of_warp), max(of_warp))


TRAINED = ("CartPole-v1", "SimpleSpread-v0", "SimpleTag-v0", "TagContinuous-v0", "LeducPoker-v0", "Pendulum-v1")


def _training_compile(effort: Effort) -> Iterator[Figure]:
    """Yield the time of the first rollout and update in separate processes, with an empty and a filled cache."""
    noise = []
    for env_id in TRAINED:
        samples = undisturbed(partial(isolated.compile_times, env_id, "start-training"), effort.compiles)
        noise += [usage for usage, _ in samples]
        for index, (case, target) in enumerate((("cold compile", "<= 8"), ("from the cache", "<= 0.3"))):
            for phase in ("rollout", "update"):
                walls = [pair[index][phase] for _, pair in samples]
                title = f"{env_id}, first {phase} of PPO in kernels, {case}"
                yield Figure(title, "s", median(walls), min(walls), max(walls), target)
    yield _noise(noise)


def _import(effort: Effort) -> Iterator[Figure]:
    runs = [sample for _, sample in undisturbed(isolated.import_times, effort.compiles)]
    yield Figure("files that import gpu_envs compiles", "files", max(run["files"] for run in runs), target="<= 0")
    for title, keys, target in (
        ("import torch alone", ("torch_seconds",), ""),
        ("import gpu_envs after it", ("rest_seconds",), ""),
        ("import gpu_envs, torch included", ("torch_seconds", "rest_seconds"), "<= 3"),
    ):
        times = [sum(run[key] for key in keys) for run in runs]
        yield Figure(title, "s", median(times), min(times), max(times), target)


TARGETS = (
    PerformanceTarget("many-agents", "Many agents: TagContinuous-v0 in one world, 5 % taggers, K = 10", _many_agents),
    PerformanceTarget("training-time", "Training time of PPO by phase", _training_time),
    PerformanceTarget("training-runs", "Whole trainings, kernel caches filled", _training_runs),
    PerformanceTarget("training-seeds", "Several seeds of a training at once, kernel caches filled", _training_seeds),
    PerformanceTarget("training-lightning", "Overhead of Lightning", _training_lightning),
    PerformanceTarget("training-compile", "Compile times of policies and gradients in kernels", _training_compile),
    PerformanceTarget("memory", "Memory", _memory),
    PerformanceTarget("compile", "Compile times", _compile),
    PerformanceTarget("import", "Import time", _import),
)
