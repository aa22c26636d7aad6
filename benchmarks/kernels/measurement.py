"""Resources of the kernels of all environments and of typical networks, measured by compiling them."""

import importlib.metadata
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import astuple, fields
from typing import Any, NamedTuple

import warp as wp

from benchmarks.hardware.provenance import THREADS
from benchmarks.kernels import assembler
from benchmarks.kernels.assembler import Assembler, AssemblerError, KernelUsage
from benchmarks.kernels.networks import LEARNING, network_usages, networks
from benchmarks.kernels.occupancy import ARCHITECTURES, Architecture
from benchmarks.kernels.programs import ENTRY, compile_ptx, default_schedule, kernel_names, schedules, subjects
from benchmarks.throughput.roofline import traffic
from gpu_envs.runtime.factory import make_core

FIGURES = tuple(field.name for field in fields(KernelUsage))
"""Order of the figures of a kernel."""
ESSENTIAL = "sm_90"
"""Architecture for which ``essential_jobs`` compile the kernels of environments."""
Record = dict[str, Any]
"""Versions; by environment, agents, schedule on a GPU, bytes of a step, and kernels by schedule; kernels by network."""
Usages = dict[str, dict[str, list[int]]]
"""FIGURES of kernels by name and architecture."""


class KernelJob(NamedTuple):
    """Kernels to compile."""

    name: str
    """Environment, of ``subjects()``, or network, of ``networks()``."""
    schedule: str
    """Entry of ``schedules``, or LEARNING."""
    architectures: tuple[Architecture, ...] = ARCHITECTURES
    """Architectures."""


def all_jobs(names: Iterable[str]) -> list[KernelJob]:
    """Return all kernels of environments and networks for all architectures."""
    sets = {
        name: (LEARNING,) if name in networks() else schedules(subjects()[name].definition().rules) for name in names
    }
    return [KernelJob(name, schedule) for name, entries in sets.items() for schedule in entries]


def essential_jobs(names: Iterable[str]) -> list[KernelJob]:
    """Return environments' kernels for one architecture, and networks' kernels for all, as their tiles differ."""
    essential = tuple(architecture for architecture in ARCHITECTURES if architecture.name == ESSENTIAL)
    return [job if job.schedule == LEARNING else job._replace(architectures=essential) for job in all_jobs(names)]


def measure(
    jobs: Iterable[KernelJob], processes: int = THREADS, with_bytes: bool = True, progress: bool = False
) -> Record:
    """Compile kernels and return a record; needs ptxas and no GPU.

    Args:
        jobs: Kernels.
        processes: Number of processes.
        with_bytes: Count the bytes of a step, too, which compiles for the CPU.
        progress: Print what is done.

    Raises:
        AssemblerError: Ptxas is missing or too old, or refuses a kernel.
    """
    ptxas, jobs = assembler.find(), list(jobs)
    names = list(dict.fromkeys(job.name for job in jobs if job.schedule != LEARNING))
    environments = {name: describe(name) for name in names}
    results: dict[tuple[str, str], Any] = {}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_prepare) as pool:
        waiting: dict[Future[Any], tuple[str, str]] = {
            pool.submit(usages, job, ptxas): (job.name, job.schedule) for job in jobs
        }
        if with_bytes:
            waiting |= {pool.submit(bytes_moved, name): (name, "bytes") for name in names}
        for done in as_completed(waiting):
            results[waiting[done]] = done.result()
            if progress:
                print(": ".join(waiting[done]), flush=True)
    for name, environment in environments.items():
        if with_bytes:
            environment["bytes"] = results[name, "bytes"]
        environment["kernels"] = {job.schedule: results[name, job.schedule] for job in jobs if job.name == name}
    learning = [job.name for job in jobs if job.schedule == LEARNING]
    found_networks = {name: {"kernels": {LEARNING: results[name, LEARNING]}} for name in learning}
    return {"versions": versions(ptxas), "environments": environments, "networks": found_networks}


def _prepare() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # each process would open one
    wp.config.optimization_level = None  # Warp's own, whatever GPU_ENVS_OPTIMIZATION_LEVEL says


def versions(ptxas: Assembler) -> dict[str, str]:
    """Return the versions on which figures depend."""
    return {"warp-lang": importlib.metadata.version("warp-lang"), "ptxas": ptxas.version}


def describe(name: str) -> dict[str, Any]:
    """Return number of agents and schedule on a GPU of an environment."""
    rules = subjects()[name].definition().rules
    return {"agents": rules.num_agents, "schedule": default_schedule(rules)}


def bytes_moved(name: str) -> float:
    """Return the bytes that a step of one world must move."""
    subject = subjects()[name]
    return traffic(make_core(subject.env_id, 2, "cpu", seed=0, **subject.settings)).bytes


def usages(job: KernelJob, ptxas: Assembler) -> Usages:
    """Compile kernels and return their resources.

    Raises:
        AssemblerError: Ptxas refuses a kernel.
    """
    if job.schedule == LEARNING:
        measured: Usages = {label: {} for label in networks()[job.name].kernels(job.architectures[0])}
        for label, architecture, usage in network_usages(job.name, job.architectures, ptxas):
            measured[label][architecture] = list(astuple(usage))
        return measured
    rules = subjects()[job.name].definition().rules
    called = kernel_names(rules, job.schedule)
    result: Usages = {label: {} for label in called.values()}
    texts = compile_ptx(rules, job.schedule, [target.compute_capability for target in job.architectures])
    for architecture, ptx in zip(job.architectures, texts, strict=True):
        for entry, usage in ptxas.usage(ptx, architecture.name).items():
            match = ENTRY.fullmatch(entry)
            if match is None or match["key"] not in called:
                raise AssemblerError(f"{job.name}, {job.schedule}: the kernel {entry} has no name in the record")
            result[called[match["key"]]][architecture.name] = list(astuple(usage))
    return result
