"""The subcommand `gpu-envs cluster`: a Ray cluster on this machine, for a trial of what will run on many.

All nodes are at 127.0.0.1, each a raylet with a share of the machine. They are started by `ray.cluster_utils.Cluster`,
because `ray start` cannot do this: it puts the machine's outer address where 127.0.0.1 is asked for, and Ray listens on
all interfaces for every address but that one. One process keeps the cluster and ends with it; a record in /tmp tells
what it started, which is all that `gpu-envs cluster down` ends.
"""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers.arguments import Positional, parse
from trainers.cluster.connect import LOOPBACK, check_host, connect, ray_library
from trainers.files import parse_json, read_record, write_json
from trainers.settings import check_settings, setting

USAGE = """usage: gpu-envs cluster COMMAND ...

A Ray cluster on this machine, for a trial of what will run on many.

  gpu-envs cluster up-local --nodes 3    a Ray cluster on this machine, until Ctrl-C; --detach: until `down`
  gpu-envs cluster status [ADDRESS]      its nodes, and what they have free
  gpu-envs cluster down [ADDRESS]        end what up-local --detach started

example: gpu-envs cluster up-local --nodes 3 --cpus 1

For clusters of many machines: docs/guides/cluster.md"""
"""What `gpu-envs cluster --help` says."""

RECORD = "cluster.json"  # file of a Record in its folder
PLACE, PREFIX = Path("/tmp"), "gpu-envs-ray-"
"""Where folders with records are, whatever --temp-dir says; not in TMPDIR: paths of sockets may have 107 characters."""
START_SECONDS, STOP_SECONDS = 180.0, 30.0  # limits of waiting
DASHBOARD_PORT = 8265  # Ray's own choice, taken where it is free
STORE_AT_LEAST = 80  # MiB; Ray refuses less
MIB = 1 << 20  # bytes


@dataclass(frozen=True)
class UpLocalArgs:
    """A Ray cluster on this machine, reachable from it alone, until Ctrl-C.

    Example: gpu-envs cluster up-local --nodes 3 --cpus 1
    """

    nodes: int = setting(2, ">= 1")
    """Nodes, the head among them."""
    cpus: int | None = setting(None, ">= 0")
    """CPUs that each node offers; a fair share of this machine's, but at least 1, if not given."""
    gpus: int | None = setting(None, ">= 0")
    """GPUs that each node offers; a fair share of this machine's if not given."""
    object_store: int = 256
    """MiB of shared memory per node for what tasks hand over."""
    port: int = setting(0, ">= 0")
    """Port of the cluster; 0: a free one."""
    dashboard: bool = True
    """Ray's dashboard, which `ray job submit` talks to."""
    dashboard_port: int = setting(0, ">= 0")
    """0: 8265 if it is free, else a free one."""
    host: str = LOOPBACK
    """Where it can be reached. Anything but 127.0.0.1 opens it to others: they need the token, but no more."""
    detach: bool = False
    """Come back once it runs; `gpu-envs cluster down` ends it."""
    temp_dir: Path | None = None
    """Folder for its logs and sockets; its path has to be short. A new one in /tmp if not given."""


@dataclass(frozen=True)
class StatusArgs:
    """Nodes of a cluster, and what they have free.

    Example: gpu-envs cluster status 127.0.0.1:6399
    """

    address: Positional[str] = ""
    """HOST:PORT; RAY_ADDRESS, or the cluster that up-local started, if not given."""


@dataclass(frozen=True)
class DownArgs:
    """End what `gpu-envs cluster up-local` started, and nothing else.

    Example: gpu-envs cluster down --all
    """

    address: Positional[str] = ""
    """HOST:PORT that up-local printed; need not be given if there is one cluster."""
    all: bool = False
    """Every cluster that up-local started."""


@dataclass(frozen=True)
class Record:
    """What up-local tells of a cluster that it keeps."""

    folder: str
    """Of this record, and of Ray's logs and sockets."""
    address: str
    """HOST:PORT of the cluster."""
    dashboard: str
    """HOST:PORT of Ray's dashboard; empty: there is none."""
    nodes: int
    """How many, the head among them."""
    token: bool
    """Whether those who connect need one."""
    keeper: tuple[int, int]
    """Process id and start time: another process may have the id later."""
    processes: tuple[tuple[int, int], ...]
    """Ray's, likewise."""


def cluster_command(argv: list[str]) -> int:
    """Start, show and end a Ray cluster on this machine.

    `gpu-envs cluster COMMAND ...` returns 0, or 1 where a node has ended by itself.
    """
    commands: dict[str, Callable[[list[str]], int]] = {"up-local": up_local, "status": status, "down": down}
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] not in commands:
        raise ConfigError(f"cluster: no command named {argv[0]!r}; there are {', '.join(commands)}")
    return commands[argv[0]](argv[1:])


def up_local(argv: list[str]) -> int:
    """`gpu-envs cluster up-local ...`."""
    args = parse(UpLocalArgs, "cluster up-local", argv)
    check_settings(args, "--")
    if args.object_store < STORE_AT_LEAST:
        raise ConfigError(f"--object-store {args.object_store}: expected at least {STORE_AT_LEAST} MiB")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        host = check_host(args.host)
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if host != LOOPBACK:
        if os.environ["RAY_AUTH_MODE"] != "token":
            raise ConfigError(
                f"--host {host} with RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']}: anybody could run any code here; "
                "unset RAY_AUTH_MODE, and up-local asks for a token"
            )
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"  # outer addresses are meant this time
    for warning in told:
        print(f"gpu-envs: warning: {warning.message}", file=sys.stderr, flush=True)
    for name, port in (("--port", args.port), ("--dashboard-port", args.dashboard_port)):
        if port and not 1024 <= port < 65536:
            raise ConfigError(f"{name} {port}: expected one from 1024 to 65535, or 0 for a free one")
        if port and not _free(port, host):
            raise ConfigError(f"{name} {port}: taken by another process; choose another, or 0 for a free one")
    shares = _shares(args)
    ray_library("gpu-envs cluster up-local")
    folder = (args.temp_dir or Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))).absolute()
    if len(str(folder)) > 40:
        raise ConfigError(f"--temp-dir {folder}: at most 40 characters, because paths of sockets may have 107")
    _make_room(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if args.detach:
        _print(_detached(argv, folder), "gpu-envs cluster down")
        return 0
    return _keep(args, host, shares, folder)


def status(argv: list[str]) -> int:
    """`gpu-envs cluster status [ADDRESS]`."""
    args = parse(StatusArgs, "cluster status", argv)
    kept = {record.address: record for record in records()}
    address = args.address or os.environ.get("RAY_ADDRESS") or (next(iter(kept)) if len(kept) == 1 else "")
    if not address and kept:
        raise ConfigError(f"cluster status: several clusters run here: {', '.join(kept)}; name one")
    if address in kept and kept[address].token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    ray = connect("gpu-envs cluster status", address or "auto")
    free: dict[str, float] = ray.available_resources()
    total: dict[str, float] = ray.cluster_resources()
    for node in ray.nodes():
        held = {name: value for name, value in node["Resources"].items() if name in ("CPU", "GPU")}
        words = "  ".join(f"{name} {value:g}" for name, value in sorted(held.items()))
        print(f"{'alive' if node['Alive'] else 'dead ':5}  {node['NodeManagerAddress']}  {node['NodeID'][:8]}  {words}")
    for name in ("CPU", "GPU"):
        print(f"{name}: {free.get(name, 0):g} of {total.get(name, 0):g} free")
    if address in kept:
        _print(kept[address], "gpu-envs cluster down")
    ray.shutdown()
    return 0


def down(argv: list[str]) -> int:
    """`gpu-envs cluster down [ADDRESS]`."""
    args = parse(DownArgs, "cluster down", argv)
    found = records()
    chosen = [record for record in found if record.address == args.address] if args.address else found
    if not chosen:
        at = f" at {args.address}" if args.address else ""
        there = f"; there are {', '.join(record.address for record in found)}" if found else ""
        raise ConfigError(f"cluster down: up-local has started no cluster{at} that still runs{there}")
    if len(chosen) > 1 and not args.all:
        raise ConfigError(f"cluster down: name one of {', '.join(r.address for r in chosen)}, or give --all")
    for record in chosen:
        _end(record)
        print(f"ended the cluster at {record.address}; its logs stay in {record.folder}/")
    return 0


def records() -> list[Record]:
    """Clusters of this user that up-local started on this machine, and that were not ended in order."""
    return list(_files().values())


def _files() -> dict[Path, Record]:
    """Their records, and where these are."""
    found: dict[Path, Record] = {}
    for file in sorted(PLACE.glob(f"{PREFIX}*/{RECORD}")):
        with contextlib.suppress(FileNotFoundError):  # the cluster has just ended
            if file.lstat().st_uid == os.getuid():  # everybody writes to /tmp
                found[file] = _read(file)
    return found


def _make_room(folder: Path) -> None:
    """Forgets a cluster of this folder that was killed; raises ConfigError if one runs there."""
    for record in records():
        if record.folder == str(folder) and any(map(_runs, (record.keeper, *record.processes))):
            raise ConfigError(
                f"--temp-dir {folder}: the cluster at {record.address} runs there; choose another, or end it with "
                f"`gpu-envs cluster down {record.address}`"
            )
    _forget(folder)


def _write(record: Record) -> None:
    """Puts a record where `records` looks: into the cluster's folder, or one of its own if that is elsewhere."""
    place = Path(record.folder)
    if place.parent != PLACE or not place.name.startswith(PREFIX):
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    write_json(place / RECORD, asdict(record))


def _forget(folder: Path) -> None:
    """Removes the record of the cluster in a folder, if there is one, and the folder made for it alone."""
    for file, record in _files().items():
        if record.folder == str(folder):
            file.unlink()
            if file.parent != folder:
                file.parent.rmdir()


def _read(file: Path) -> Record:
    text = file.read_text(encoding="utf-8", errors="replace")
    record = read_record(Record, str(file), parse_json(text, str(file)))
    if any(len(each) != 2 or each[0] < 1 for each in (record.keeper, *record.processes)):
        raise CheckpointError(f"{file}: expected pairs of a process id and a start time; remove the file")
    return replace(record, processes=tuple((pid, began) for pid, began in record.processes))


def _shares(args: UpLocalArgs) -> tuple[int, list[list[str]]]:
    """CPUs of every node, and each node's GPUs as CUDA knows them."""
    import torch

    cpus = max(1, len(os.sched_getaffinity(0)) // args.nodes) if args.cpus is None else args.cpus
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    devices = visible or [str(index) for index in range(torch.cuda.device_count())]
    if args.gpus is None:
        return cpus, [devices[node :: args.nodes] for node in range(args.nodes)]
    if args.gpus * args.nodes > len(devices):
        raise ConfigError(
            f"--nodes {args.nodes} --gpus {args.gpus}: expected at most the {len(devices)} of this machine in all; "
            "learners share one by fractions, such as gpus_per_learner=0.5"
        )
    return cpus, [devices[node * args.gpus : (node + 1) * args.gpus] for node in range(args.nodes)]


def _keep(args: UpLocalArgs, host: str, shares: tuple[int, list[list[str]]], folder: Path) -> int:
    """Starts a cluster, and stays with it."""
    os.environ["RAY_TMPDIR"] = str(folder)  # "auto" of other processes goes on to mean what it meant
    (folder / "ray").mkdir(exist_ok=True)
    token = os.environ["RAY_AUTH_MODE"] == "token"
    if token:
        _make_token()
    ray = ray_library("gpu-envs cluster up-local")
    from ray.cluster_utils import Cluster

    address = host if host != "0.0.0.0" else ray.util.get_node_ip_address()
    cluster = Cluster(shutdown_at_exit=True)
    try:
        cpus, gpus = shares
        for node in range(args.nodes):
            cluster.add_node(
                node_ip_address=address,
                num_cpus=cpus,
                num_gpus=len(gpus[node]),
                env_vars={"CUDA_VISIBLE_DEVICES": ",".join(gpus[node])},
                object_store_memory=args.object_store * MIB,
                **(_head(args, host) if node == 0 else {}),
            )
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # until here Ray's own ends the nodes
        nodes = cluster.list_all_nodes()
        started = [info.process.pid for node in nodes for infos in node.all_processes.values() for info in infos]
        record = Record(
            folder=str(folder),
            address=cluster.address,
            dashboard=f"http://{cluster.webui_url}" if args.dashboard else "",
            nodes=args.nodes,
            token=token,
            keeper=(os.getpid(), _began(os.getpid())),
            processes=tuple((pid, _began(pid)) for pid in started),
        )
        _write(record)
        _print(record, "Ctrl-C")
        while cluster.remaining_processes_alive():
            time.sleep(0.5)
        print(f"gpu-envs: error: a process of the cluster has ended; its logs are in {_logs(record)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ending the cluster ...", flush=True)
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cluster.shutdown()
        _forget(folder)


def _head(args: UpLocalArgs, host: str) -> dict[str, Any]:
    """What the head has, and the others have not."""
    ports: dict[str, Any] = {"gcs_server_port": args.port} if args.port else {}
    if args.dashboard:
        port = args.dashboard_port or (DASHBOARD_PORT if _free(DASHBOARD_PORT, host) else _free_port(host))
        ports |= {"dashboard_host": host, "dashboard_port": port}
    return {**ports, "include_dashboard": args.dashboard, "dashboard_agent_listen_port": None}  # any free port


def _make_token() -> None:
    """Lets Ray make the token that nodes and clients share, where there is none; nobody else may read it."""
    words = [sys.executable, "-P", "-m", "ray.scripts.scripts", "get-auth-token", "--generate"]
    made = subprocess.run(words, umask=0o077, capture_output=True, text=True, check=False)
    if made.returncode:
        raise GpuEnvsError(f"gpu-envs cluster up-local: Ray makes no token ({made.stderr.strip().splitlines()[-1]})")


def _detached(argv: list[str], folder: Path) -> Record:
    """Starts the process that keeps a cluster, and waits until the cluster runs."""
    words = [word for word in argv if word != "--detach"] + ["--temp-dir", str(folder)]
    code = "import sys; from trainers.cluster.operations import cluster_command as c; sys.exit(c(sys.argv[1:]))"
    log = folder / "up-local.log"
    with log.open("w") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-c", code, "up-local", *words],  # -P: nothing is imported from the working folder
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    until = time.monotonic() + START_SECONDS
    try:
        while not (started := [record for record in records() if record.keeper[0] == keeper.pid]):
            if keeper.poll() is not None:
                last = (log.read_text().strip().splitlines() or ["it said nothing"])[-1]
                raise GpuEnvsError(f"gpu-envs cluster up-local: the cluster did not start ({last}); see {log}")
            if time.monotonic() > until:
                raise GpuEnvsError(f"gpu-envs cluster up-local: no cluster after {START_SECONDS:g} s; see {log}")
            time.sleep(0.2)
    except BaseException:
        keeper.terminate()
        raise
    return started[0]


def _end(record: Record) -> None:
    """Ends the process that keeps a cluster, which ends the rest; kills what of Ray's is left then."""
    _send(record.keeper, signal.SIGTERM)
    everything = (record.keeper, *record.processes)
    until = time.monotonic() + STOP_SECONDS
    while any(map(_runs, everything)) and time.monotonic() < until:
        if not _runs(record.keeper):  # it was killed before it could end them
            for process in record.processes:
                _send(process, signal.SIGTERM)
        time.sleep(0.2)
    for process in everything:
        _send(process, signal.SIGKILL)
    _forget(Path(record.folder))


def _began(pid: int) -> int:
    """When a process began, in ticks since the machine did; 0 where there is none, or what is left of one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def _runs(process: tuple[int, int]) -> bool:
    return process[1] != 0 and _began(process[0]) == process[1]


def _send(process: tuple[int, int], number: signal.Signals) -> None:
    if _runs(process):
        os.kill(process[0], number)


def _free(port: int, host: str) -> bool:
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


def _logs(record: Record) -> str:
    return f"{record.folder}/ray/session_latest/logs/"


def _print(record: Record, stop: str) -> None:
    """What one needs to know to use a cluster."""
    lines = [f"a Ray cluster of {record.nodes} nodes at {record.address}", ""]
    lines += [f"  export RAY_ADDRESS={shlex.quote(record.address)}"]
    if record.token:
        lines += ["  export RAY_AUTH_MODE=token    # the token: ray get-auth-token"]
    if record.address.startswith(f"{LOOPBACK}:"):
        lines += ["  export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0    # Ray's own commands take 127.0.0.1 as it is then"]
    lines += ["", "then, for example:", "  gpu-envs league train KuhnPoker-v0 --algorithm psro --executor ray", ""]
    if record.dashboard:
        lines += [
            f"dashboard  {record.dashboard}, asks for the token",
            f"jobs       RAY_API_SERVER_ADDRESS={record.dashboard} ray job submit -- gpu-envs ...",
        ]
    lines += [f"logs       {_logs(record)}", f"stop       {stop}"]
    print("\n".join(lines), flush=True)
