"""Profiles of the kernels of a step by NVIDIA Nsight Compute: ``python -m benchmarks.gpu.profiles``.

It runs ``ncu`` on ``python -m benchmarks.gpu.profiles --inside``, which plays one profiled step of every case.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.plan import path_of

CASES = (
    ("SimpleTag-v0", "fused", 1 << 20),
    ("SimpleTag-v0", "phased", 1 << 20),
    ("TagContinuous-v0", "block", 2000),
    ("TagContinuous-v0", "phased", 2000),
)
"""Environment, schedule and worlds of each case."""
TIME = "gpu__time_duration.sum"
"""Metric of the duration of a kernel [ns]."""
METRICS = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory {} %",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "multiprocessors {} %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps {} %",
    "launch__registers_per_thread": "{} registers",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "{} sectors per load",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": "{} sectors per store",
}
"""Other metrics with their words in a note."""
PREFIX = "CASE "
"""Begin of the line that names a case and counts its kernels."""


def play(device: str, scale: int) -> None:
    """Play one profiled step of every case; the profiler sees the kernels of these steps only.

    Args:
        device: GPU.
        scale: Divisor of the worlds.
    """
    import torch

    from gpu_envs.runtime.factory import make_core

    for env_id, schedule, worlds in CASES:
        core = make_core(env_id, worlds // scale, device, seed=1, reuse_buffers=True, schedule=schedule)
        core.reset()
        for _ in range(3):
            core.step(core.sample_actions())
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        core._launcher.run("step")
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        about = {"env": env_id, "schedule": schedule, "worlds": core.num_envs, "agents": core.num_agents}
        print(PREFIX + json.dumps([about, len(core._launcher.program.step)]), flush=True)
        del core


def rows(output: str) -> Iterator[dict[str, Any]]:
    """Yield a row per profiled kernel, with its time and a note, from the output of ncu and of the process.

    Raises:
        ValueError: The output has another number of kernels than the steps have.
    """
    lines = output.splitlines()
    cases = [json.loads(line.removeprefix(PREFIX)) for line in lines if line.startswith(PREFIX)]
    kernels = [row for row in csv.DictReader(line for line in lines if line.startswith('"')) if row["ID"]]
    order = [about for about, count in cases for _ in range(count)]
    if not order or len(order) != len(kernels):
        errors = " ".join(line for line in lines if line.startswith("==ERROR=="))
        raise ValueError(f"ncu: expected {len(order)} kernels, got {len(kernels)} {errors}"[:300])
    for about, kernel in zip(order, kernels, strict=True):
        notes = [words.format(kernel[metric]) for metric, words in METRICS.items() if kernel.get(metric)]
        notes.append(f"blocks of {kernel['Block Size']}")
        name = re.sub(r"_[0-9a-f]{8}_cuda_kernel_forward.*", "", kernel["Kernel Name"])
        value = float(kernel[TIME].replace(",", "")) / 1e9
        label = f"{about['schedule']}, {about['worlds']:,} worlds: {name}"
        yield about | {"what": label, "unit": "s", "value": value, "note": ", ".join(notes)}


def main(argv: list[str]) -> None:
    """Profile and print the rows, or, inside of the profiler, play."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.profiles", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--inside", action="store_true", help="play the steps that are profiled")
    args = parser.parse_args(argv)
    if args.inside:
        play(args.device, 100 if args.tiny else 1)
        return
    # Clocks stay as they are, as in the other parts.
    options = ["--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    options += ["--clock-control", "none", "--metrics", ",".join((TIME, *METRICS))]
    words = [path_of("ncu") or "ncu", *options, sys.executable, "-m", "benchmarks.gpu.profiles", "--inside", *argv]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    for row in rows(done.stdout):
        print("ROW " + json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
