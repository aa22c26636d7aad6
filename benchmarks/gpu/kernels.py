"""Compile the kernels of the report and the GPU tests in parallel: ``python -m benchmarks.gpu.kernels``.

It needs no GPU: with ``--arch 90`` a machine without one fills the kernel cache (``WARP_CACHE_PATH``) for one with it.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.parts import Scale
from benchmarks.throughput.cases import many_agent_settings
from gpu_envs.runtime.kernels import SCHEDULES, choose_schedule

TESTS = Path(__file__).resolve().parents[2] / "tests"
Job = tuple[str, dict[str, Any], str, bool, str]
"""Environment, its settings, schedule ("fused", "block", "phased" or "play"), fuse_fp, and "cuda" or "cpu"."""


def measured(scale: Scale) -> list[Job]:
    """Return the jobs of the report."""
    tag, cuda = "TagContinuous-v0", torch.device("cuda")
    jobs: list[Job] = [("SimpleTag-v0", {}, "play", True, "cuda"), ("Hanabi-v0", {}, "fused", True, "cuda")]
    jobs += [(env_id, {}, schedule, True, "cuda") for env_id in scale.environments for schedule in ("fused", "phased")]
    jobs += [(tag, {}, schedule, True, "cuda") for schedule in ("block", "phased")]
    for agents in scale.many_agents:
        names = {
            choose_schedule(agents, cuda),
            *(["phased"] if agents > 8 else []),
            *(["fused"] if agents <= 100 else []),
        }
        jobs += [(tag, many_agent_settings(agents), schedule, True, "cuda") for schedule in sorted(names)]
    return jobs


def tested() -> list[Job]:
    """Return the jobs of the GPU tests: every environment in all schedules on GPU and CPU, and large agent counts."""
    if importlib.util.find_spec("pytest") is None:  # the tests are not run either
        return []
    sys.path.insert(0, str(TESTS))
    try:
        from many_agents import SMALL as CELLS  # type: ignore[import-not-found]
        from many_agents import many_agents  # type: ignore[import-not-found]
        from small_environments import SMALL  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(TESTS))
    ways = [*((schedule, "cuda") for schedule in (*SCHEDULES, "play")), ("fused", "cpu")]
    cells = ("TagContinuous-v0", {**SMALL["TagContinuous-v0"], **CELLS})
    cases: list[tuple[str, dict[str, Any]]] = [*SMALL.items(), cells]
    jobs: list[Job] = [(*case, schedule, False, kind) for case in cases for schedule, kind in ways]
    many = many_agents(2000, 10, reach=0.8, episode_length=30)
    jobs += [("TagContinuous-v0", {}, schedule, False, "cuda") for schedule in ("block", "phased")]
    searches = ("brute", "grid")
    jobs += [("TagContinuous-v0", {**many, "neighbor_search": s}, "phased", False, "cuda") for s in searches]
    return jobs


def compile_one(job: Job, arch: int) -> tuple[str, float]:
    """Compile one module into the kernel cache and return its name and the duration [s]."""
    import warp as wp

    import warp_kernels
    from gpu_envs.definition.registry import find
    from gpu_envs.runtime.kernels import kernel_program, rollout_kernel
    from gpu_envs.utils.settings import build_config

    env_id, settings, schedule, fuse_fp, kind = job
    start = time.perf_counter()
    warp_kernels.start()
    maker, build = find(env_id).load()
    rules = build(build_config(maker, settings, env_id)).rules
    module = (
        rollout_kernel(rules, fuse_fp)[1] if schedule == "play" else kernel_program(rules, schedule, fuse_fp).module
    )
    if kind == "cpu":
        module.load(wp.get_device("cpu"), 1)  # the block size of a CPU launch is part of the name in the cache
    else:
        wp.compile_aot_module(module, device=None, arch=[arch])
    return module.name, time.perf_counter() - start


def compile_all(jobs: list[Job], arch: int, processes: int) -> int:
    """Compile jobs in parallel, print a row for each, and return the number of failures."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the workers need no device, and each would open one
    failures = 0
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(compile_one, job, arch): job for job in jobs}
        for done in as_completed(waiting):
            env_id, _, schedule, fuse_fp, kind = waiting[done]
            row: dict[str, Any] = {"env": env_id, "what": f"{schedule}, fuse_fp={fuse_fp}, {kind}", "unit": "s"}
            try:
                row["note"], row["value"] = done.result()
            except Exception as error:  # noqa: BLE001  # reported; its user compiles it again
                row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                failures += 1
            print("ROW " + json.dumps(row), flush=True)
    if failures:
        print(f"{failures} of {len(jobs)} modules did not compile", file=sys.stderr)
    return failures


def main(argv: list[str]) -> int:
    """Compile and return 1 if a job failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.kernels", description=__doc__)
    parser.add_argument("--arch", type=int, required=True, help="compute capability, such as 90 (H100, H200) or 80")
    parser.add_argument("--processes", type=int, default=max(1, min(12, len(os.sched_getaffinity(0)) - 2)))
    parser.add_argument("--only", choices=("measured", "tested"), help="leave the other half out")
    args = parser.parse_args(argv)
    jobs = [] if args.only == "tested" else measured(Scale())
    jobs += [] if args.only == "measured" else tested()
    return 1 if compile_all(jobs, args.arch, args.processes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
