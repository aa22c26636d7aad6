"""A Ray cluster of several nodes on this machine, to test programs before they run on many machines.

All nodes are at 127.0.0.1; each is a raylet with a share of the machine. They are started by
`ray.cluster_utils.Cluster`, because `ray start` replaces 127.0.0.1 by the machine's outer address, and Ray listens on
all interfaces for every other address. One process owns the cluster and ends with it. A record in /tmp lists its
processes, and `stop_cluster` ends only these.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.settings import check_settings, setting
from trainers.cluster import cluster_records
from trainers.cluster.cluster_records import (
    ClusterRecord,
    claim_folder,
    find_records,
    forget,
    is_running,
    send_signal,
    start_time,
    write_record,
)
from trainers.cluster.connect import LOOPBACK, check_host, ray_library, ray_module
from trainers.runner.signals import interrupts

__all__ = ["ClusterConfig", "ClusterPlan", "describe", "plan_cluster", "run_cluster", "start_detached", "stop_cluster"]

START = "gpu-envs cluster start"  # in messages
START_SECONDS, STOP_SECONDS = 180.0, 30.0  # time limits
DASHBOARD_PORT = 8265  # Ray's default
MIN_OBJECT_STORE = 80  # MiB; Ray's minimum
MIB = 1 << 20  # bytes
MAX_FOLDER_LENGTH = 40  # characters; socket paths below the folder are limited to 107


@dataclass(frozen=True)
class ClusterConfig:
    """Configuration of a Ray cluster on this machine."""

    nodes: int = setting(2, ge=1)
    """Number of nodes, the head node included."""
    cpus: int | None = setting(None, ge=0)
    """CPUs that each node offers; None: an equal share of the machine's CPUs, at least 1."""
    gpus: int | None = setting(None, ge=0)
    """GPUs that each node offers; None: an equal share of the machine's GPUs."""
    object_store: int = 256
    """Shared memory per node for objects that tasks exchange [MiB]."""
    port: int = setting(0, ge=0)
    """Port of the cluster; 0: a free port."""
    dashboard: bool = True
    """Start Ray's dashboard, which `ray job submit` needs."""
    dashboard_port: int = setting(0, ge=0)
    """Port of the dashboard; 0: 8265 if it is free, otherwise another free port."""
    host: str = LOOPBACK
    """IP address to listen at. Every address but 127.0.0.1 opens the cluster to clients on the network with a token."""
    temp_dir: Path | None = None
    """Folder for logs and sockets, with a path of at most 40 characters; None: a new folder in /tmp."""


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster whose configuration was checked on this machine, ready to start."""

    host: str
    """IP address to listen at."""
    cpus: int
    """CPUs of each node."""
    gpus: list[list[str]]
    """CUDA devices of each node."""
    folder: str
    """Folder for logs and sockets."""
    object_store: int
    """Shared memory per node [MiB]."""
    port: int
    """Port of the cluster; 0: a free port."""
    dashboard: bool
    """Whether to start the dashboard."""
    dashboard_port: int
    """Port of the dashboard; 0: any."""


def plan_cluster(config: ClusterConfig) -> ClusterPlan:
    """Check that a cluster can start on this machine, and create its folder.

    Sets RAY_AUTH_MODE in the environment of this process, so that clients need a token.

    Raises:
        ConfigError: A setting is not valid, or a port, folder or number of GPUs is not available.
        MissingExtraError: Ray is not installed.
    """
    check_settings(config)
    if config.object_store < MIN_OBJECT_STORE:
        raise ConfigError(f"object_store: expected at least {MIN_OBJECT_STORE} MiB, got {config.object_store}")
    host = check_host(config.host)
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if host != LOOPBACK:
        if os.environ["RAY_AUTH_MODE"] != "token":
            raise ConfigError(
                f"host = {host} with RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']}: every client could run code on this "
                "machine; unset RAY_AUTH_MODE, so that clients need a token"
            )
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"  # here an outer address is intended
    for name, port in (("port", config.port), ("dashboard_port", config.dashboard_port)):
        if port and not 1024 <= port < 65536:
            raise ConfigError(f"{name}: expected a port in [1024, 65535], or 0 for a free one, got {port}")
        if port and not _is_free(port, host):
            raise ConfigError(f"{name} = {port}: used by another process; choose another, or 0 for a free one")
    cpus, gpus = _resources_per_node(config)
    ray_library(START)
    place = cluster_records.PLACE
    folder = (config.temp_dir or Path(tempfile.mkdtemp(prefix=cluster_records.PREFIX, dir=place))).absolute()
    if len(str(folder)) > MAX_FOLDER_LENGTH:
        raise ConfigError(
            f"temp_dir = {folder}: at most {MAX_FOLDER_LENGTH} characters, because socket paths are limited to 107"
        )
    claim_folder(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    taken = {"object_store": config.object_store, "port": config.port, "dashboard": config.dashboard}
    return ClusterPlan(host, cpus, gpus, str(folder), **taken, dashboard_port=config.dashboard_port)


def run_cluster(plan: ClusterPlan, stop: str = "Ctrl-C") -> int:
    """Start a cluster and keep it until SIGINT, SIGTERM or SIGHUP arrives.

    Args:
        plan: The cluster.
        stop: Instruction for stopping the cluster, which is printed.

    Returns:
        0 after a signal, 1 if a process of the cluster has ended by itself.
    """
    folder = Path(plan.folder)
    os.environ["RAY_TMPDIR"] = plan.folder  # so that "auto" in other processes does not find this cluster
    (folder / "ray").mkdir(exist_ok=True)
    token = os.environ["RAY_AUTH_MODE"] == "token"
    if token:
        _make_token()
    ray = ray_library(START)
    address = plan.host if plan.host != "0.0.0.0" else ray.util.get_node_ip_address()
    cluster = ray_module("cluster_utils").Cluster(shutdown_at_exit=True)
    try:
        for node, devices in enumerate(plan.gpus):
            cluster.add_node(
                node_ip_address=address,
                num_cpus=plan.cpus,
                num_gpus=len(devices),
                env_vars={"CUDA_VISIBLE_DEVICES": ",".join(devices)},
                object_store_memory=plan.object_store * MIB,
                **(_head_options(plan) if node == 0 else {}),
            )
        with interrupts():  # replaces Ray's handler of SIGTERM, which ends the nodes
            nodes = cluster.list_all_nodes()
            started = [info.process.pid for node in nodes for infos in node.all_processes.values() for info in infos]
            record = ClusterRecord(
                folder=plan.folder,
                address=cluster.address,
                dashboard=f"http://{cluster.webui_url}" if plan.dashboard else "",
                nodes=len(plan.gpus),
                token=token,
                keeper=(os.getpid(), start_time(os.getpid())),
                processes=tuple((pid, start_time(pid)) for pid in started),
            )
            write_record(record)
            print(describe(record, stop), flush=True)
            while cluster.remaining_processes_alive():
                time.sleep(0.5)
        print(f"gpu-envs: error: a process of the cluster has ended; its logs are in {record.logs}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopping the cluster ...", flush=True)
        return 0
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        cluster.shutdown()
        forget(folder)


def start_detached(plan: ClusterPlan) -> ClusterRecord:
    """Start a process that keeps a cluster, and wait until the cluster runs.

    Raises:
        GpuEnvsError: The cluster did not start.
    """
    code = "import sys; from trainers.cluster.local_cluster import _run_from_json as run; sys.exit(run(sys.argv[1]))"
    log = Path(plan.folder) / "start.log"
    with log.open("w") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-c", code, json.dumps(dataclasses.asdict(plan))],  # -P: no imports from the cwd
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    try:
        while not (started := [record for record in find_records() if record.keeper[0] == keeper.pid]):
            if keeper.poll() is not None:
                last = (log.read_text().strip().splitlines() or ["no output"])[-1]
                raise GpuEnvsError(f"{START}: the cluster did not start ({last}); see {log}")
            if time.monotonic() > deadline:
                raise GpuEnvsError(f"{START}: no cluster after {START_SECONDS:g} s; see {log}")
            time.sleep(0.2)
    except BaseException:
        keeper.terminate()
        raise
    return started[0]


def _run_from_json(text: str) -> int:
    return run_cluster(ClusterPlan(**json.loads(text)))


def stop_cluster(record: ClusterRecord) -> None:
    """Stop the process that keeps a cluster, which ends the others; kill processes that remain after 30 s."""
    send_signal(record.keeper, signal.SIGTERM)
    everything = (record.keeper, *record.processes)
    deadline = time.monotonic() + STOP_SECONDS
    while record.is_running and time.monotonic() < deadline:
        if not is_running(record.keeper):  # it was killed before it could end the others
            for process in record.processes:
                send_signal(process, signal.SIGTERM)
        time.sleep(0.2)
    for process in everything:
        send_signal(process, signal.SIGKILL)
    forget(Path(record.folder))


def describe(record: ClusterRecord, stop: str) -> str:
    """Return instructions for using a cluster, as text; `stop` is the command that stops it."""
    lines = [f"a Ray cluster of {record.nodes} nodes at {record.address}", ""]
    lines += [f"  export RAY_ADDRESS={shlex.quote(record.address)}"]
    if record.token:
        lines += ["  export RAY_AUTH_MODE=token    # the token: ray get-auth-token"]
    if record.address.startswith(f"{LOOPBACK}:"):
        lines += ["  export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0    # keeps 127.0.0.1 in Ray's own commands"]
    lines += ["", "then, for example:", "  gpu-envs league train KuhnPoker-v0 --algorithm psro --executor ray", ""]
    if record.dashboard:
        lines += [
            f"dashboard  {record.dashboard}, asks for the token",
            f"jobs       RAY_API_SERVER_ADDRESS={record.dashboard} ray job submit -- gpu-envs ...",
        ]
    lines += [f"logs       {record.logs}", f"stop       {stop}"]
    return "\n".join(lines)


def _resources_per_node(config: ClusterConfig) -> tuple[int, list[list[str]]]:
    """Return the CPUs of every node, and the CUDA devices of each node."""
    import torch

    cpus = max(1, len(os.sched_getaffinity(0)) // config.nodes) if config.cpus is None else config.cpus
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    devices = visible or [str(index) for index in range(torch.cuda.device_count())]
    if config.gpus is None:
        return cpus, [devices[node :: config.nodes] for node in range(config.nodes)]
    if config.gpus * config.nodes > len(devices):
        raise ConfigError(
            f"nodes * gpus: expected at most the {len(devices)} GPUs of this machine, got {config.nodes} * "
            f"{config.gpus}; learners can share a GPU, such as with gpus_per_learner=0.5"
        )
    return cpus, [devices[node * config.gpus : (node + 1) * config.gpus] for node in range(config.nodes)]


def _head_options(plan: ClusterPlan) -> dict[str, Any]:
    """Return the options of the head node."""
    options: dict[str, Any] = {"gcs_server_port": plan.port} if plan.port else {}
    if plan.dashboard:
        default = DASHBOARD_PORT if _is_free(DASHBOARD_PORT, plan.host) else _free_port(plan.host)
        options |= {"dashboard_host": plan.host, "dashboard_port": plan.dashboard_port or default}
    return {**options, "include_dashboard": plan.dashboard, "dashboard_agent_listen_port": None}  # any free port


def _make_token() -> None:
    """Let Ray create the token of nodes and clients if there is none, readable by this user only."""
    words = [sys.executable, "-P", "-m", "ray.scripts.scripts", "get-auth-token", "--generate"]
    made = subprocess.run(words, umask=0o077, capture_output=True, text=True, check=False)
    if made.returncode:
        raise GpuEnvsError(f"{START}: Ray created no token ({made.stderr.strip().splitlines()[-1]})")


def _is_free(port: int, host: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
