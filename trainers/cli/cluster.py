"""The command `gpu-envs cluster`: start, show and stop a Ray cluster on this machine."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields

from gpu_envs.cli.options import OptionalStr, parse
from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import unknown_name_message
from trainers.cluster.cluster_records import find_records
from trainers.cluster.connect import connect
from trainers.cluster.local_cluster import (
    ClusterConfig,
    describe,
    plan_cluster,
    run_cluster,
    start_detached,
    stop_cluster,
)

__all__ = [
    "STOP",
    "USAGE",
    "StartOptions",
    "StatusOptions",
    "StopOptions",
    "cluster_command",
    "start",
    "status",
    "stop",
]

STOP = "gpu-envs cluster stop"
"""Command that stops a cluster."""
USAGE = """usage: gpu-envs cluster COMMAND ...

Start a Ray cluster on this machine, to test programs for many machines.

  gpu-envs cluster start --nodes 3  start a cluster; --detach: until `stop`
  gpu-envs cluster status           print the nodes and their free resources
  gpu-envs cluster stop             stop clusters that `start --detach` started

example: gpu-envs cluster start --nodes 3 --cpus 1

For clusters of many machines: docs/guides/cluster.md"""
"""Help of `gpu-envs cluster`."""


@dataclass(frozen=True)
class StartOptions(ClusterConfig):
    """Start a Ray cluster on this machine, which only this machine can reach; it runs until Ctrl-C.

    Example: gpu-envs cluster start --nodes 3 --cpus 1
    """

    detach: bool = False
    """Return when the cluster runs; `gpu-envs cluster stop` stops it."""


@dataclass(frozen=True)
class StatusOptions:
    """Print the nodes of a cluster and their free resources.

    Example: gpu-envs cluster status --ray-address 127.0.0.1:6399
    """

    ray_address: OptionalStr = None
    """Address of the cluster, HOST:PORT. Default: RAY_ADDRESS, or the only cluster that `start` started."""


@dataclass(frozen=True)
class StopOptions:
    """Stop clusters that `gpu-envs cluster start` started, and nothing else.

    Example: gpu-envs cluster stop --all
    """

    ray_address: OptionalStr = None
    """Address that `start` printed, HOST:PORT; not needed if there is one cluster."""
    all: bool = False
    """Stop every cluster that `start` started."""


def cluster_command(argv: list[str]) -> int:
    """Start, show and stop a Ray cluster on this machine.

    The exit code is 1 if a node has ended by itself.
    """
    commands: dict[str, Callable[[list[str]], int]] = {"start": start, "status": status, "stop": stop}
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] not in commands:
        raise ConfigError(f"cluster: {unknown_name_message('command', argv[0], commands)}")
    return commands[argv[0]](argv[1:])


def start(argv: list[str]) -> int:
    """Run `gpu-envs cluster start ...`."""
    args = parse(StartOptions, "cluster start", argv)
    config = ClusterConfig(**{field.name: getattr(args, field.name) for field in fields(ClusterConfig)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            plan = plan_cluster(config)
        finally:
            for warning in caught:
                print(f"gpu-envs: warning: {warning.message}", file=sys.stderr, flush=True)
    if args.detach:
        print(describe(start_detached(plan), STOP), flush=True)
        return 0
    return run_cluster(plan)


def status(argv: list[str]) -> int:
    """Run `gpu-envs cluster status [ADDRESS]`."""
    args = parse(StatusOptions, "cluster status", argv)
    records = {record.address: record for record in find_records()}
    address = args.ray_address or os.environ.get("RAY_ADDRESS") or (next(iter(records)) if len(records) == 1 else "")
    if not address and records:
        raise ConfigError(f"cluster status: several clusters run here: {', '.join(records)}; name one")
    if address in records and records[address].token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    ray = connect("gpu-envs cluster status", address or "auto")
    free: dict[str, float] = ray.available_resources()
    total: dict[str, float] = ray.cluster_resources()
    for node in ray.nodes():
        resources = {name: value for name, value in node["Resources"].items() if name in ("CPU", "GPU")}
        words = "  ".join(f"{name} {value:g}" for name, value in sorted(resources.items()))
        print(f"{'alive' if node['Alive'] else 'dead ':5}  {node['NodeManagerAddress']}  {node['NodeID'][:8]}  {words}")
    for name in ("CPU", "GPU"):
        print(f"{name}: {free.get(name, 0):g} of {total.get(name, 0):g} free")
    if address in records:
        print(describe(records[address], STOP), flush=True)
    ray.shutdown()
    return 0


def stop(argv: list[str]) -> int:
    """Run `gpu-envs cluster stop [ADDRESS]`."""
    args = parse(StopOptions, "cluster stop", argv)
    records = find_records()
    chosen = [record for record in records if record.address == args.ray_address] if args.ray_address else records
    if not chosen:
        at = f" at {args.ray_address}" if args.ray_address else ""
        known = f"; there are {', '.join(record.address for record in records)}" if records else ""
        raise ConfigError(f"cluster stop: expected a running cluster of `gpu-envs cluster start`{at}, got none{known}")
    if len(chosen) > 1 and not args.all:
        raise ConfigError(f"cluster stop: name one of {', '.join(r.address for r in chosen)}, or give --all")
    for record in chosen:
        stop_cluster(record)
        print(f"stopped the cluster at {record.address}; its logs stay in {record.folder}/")
    return 0
