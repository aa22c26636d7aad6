"""Measurements in separate processes: memory, compile times, import. Each prints one line of JSON."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run(measurement: str, *arguments: str | int, cache: str | None = None) -> dict[str, Any]:
    """Run an entry of ``MEASUREMENTS`` in a fresh process, with its own kernel cache if one is named."""
    environment = os.environ | ({"WARP_CACHE_PATH": cache} if cache else {})
    command = [sys.executable, "-m", "benchmarks.throughput.isolated", measurement, json.dumps(arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def compile_times(env_id: str, measurement: str = "start") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the times of a measurement of an environment with an empty and with a filled kernel cache."""
    with tempfile.TemporaryDirectory() as cache:
        return run(measurement, env_id, cache=cache), run(measurement, env_id, cache=cache)


def import_times() -> dict[str, Any]:
    """Return the time of ``import gpu_envs`` with an empty kernel cache and the number of compiled files."""
    with tempfile.TemporaryDirectory() as cache:
        result = run("import", cache=cache)
        result["files"] = sum(path.is_file() for path in Path(cache).rglob("*"))
    return result


def _start(env_id: str) -> dict[str, Any]:
    import gpu_envs
    import warp_kernels

    make = gpu_envs.make  # imports torch, whose time is another figure
    began = time.perf_counter()
    warp_kernels.start()
    started, cpu = time.perf_counter(), time.process_time()
    env = make(env_id, num_envs=1, device="cpu", seed=0)
    env.reset()
    env.step(env.sample_actions())
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "warp_start_seconds": started - began,
    }


def _start_training(env_id: str) -> dict[str, Any]:
    """Time the first rollout and the first update of PPO in kernels; the environments have already started."""
    from trainers.algorithms.on_policy.ppo import PPOConfig
    from trainers.config.presets import preset
    from trainers.config.train_config import TrainConfig, make_train_core
    from trainers.runner.collector import Collector
    from trainers.runner.learner_group import LearnerGroup

    learner = PPOConfig(rollout_length=4, num_epochs=1, num_minibatches=1)
    env = preset(env_id, "cpu").env
    config = TrainConfig(env_id, env=env, num_envs=8, num_threads=1, engine="kernel", learner=learner)
    core = make_train_core(config, config.num_envs, seed=0)
    core.reset()
    core.step(core.sample_actions())
    begin = time.perf_counter()
    learners = LearnerGroup(config, core)
    collector = Collector(config, core, learners)
    collector.collect()
    middle = time.perf_counter()
    learners.update(1, str)
    return {"rollout": middle - begin, "update": time.perf_counter() - middle}


def _import() -> dict[str, Any]:
    began = time.perf_counter()
    import torch  # noqa: F401

    middle = time.perf_counter()
    import gpu_envs  # noqa: F401

    return {"torch_seconds": middle - began, "rest_seconds": time.perf_counter() - middle}


def _memory(env_id: str, num_envs: int, steps: int, interface: str, results: str) -> dict[str, Any]:
    """Return the resident memory after a tenth of the steps and after all; ``results`` are "reused" or "cloned"."""
    from benchmarks.throughput.cases import Case, build

    step = build(Case(env_id, num_envs, interface, results == "reused"))
    for _ in range(steps // 10):
        step()
    start = _resident()
    for _ in range(steps - steps // 10):
        step()
    return {"before_mib": start, "after_mib": _resident()}


def _constant_agent_total(agents: int) -> dict[str, float]:
    """Return tensor and resident memory of one world with many agents after three steps."""
    from benchmarks.throughput.cases import many_agents
    from gpu_envs.runtime.factory import make_core

    case = many_agents(agents)
    core = make_core(case.env_id, 1, "cpu", seed=0, threads=1, reuse_buffers=True, **case.config)
    core.reset()
    for _ in range(3):
        core.step(core.sample_actions())
    tensors = core.get_state().values()
    return {"bytes": sum(t.numel() * t.element_size() for t in tensors), "resident_mib": _resident()}


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "start": _start,
    "start-training": _start_training,
    "import": _import,
    "memory": _memory,
    "many-agents": _constant_agent_total,
}

if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]](*json.loads(sys.argv[2]))))
