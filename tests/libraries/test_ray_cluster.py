"""A Ray cluster on this machine: what it starts, where it listens, who is let in, and that nothing stays."""

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml

from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers.cli.cluster import cluster_command
from trainers.cluster import local_cluster
from trainers.cluster.cluster_records import RECORD, ClusterRecord, find_records, write_record
from trainers.cluster.connect import connect

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "docs" / "cluster"
CODE = "import sys; from trainers.cli.cluster import cluster_command as c; sys.exit(c(sys.argv[1:]))"
SMALL = ("--cpus", "1", "--object-store", "80")


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """Restore the environment variables that commands and Ray set."""
    for name in ("RAY_AUTH_MODE", "RAY_ADDRESS", "RAY_TMPDIR", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def cluster():
    """Return the record of a cluster of three nodes, started by `start --detach` and ended by `stop`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        before = {record.address for record in find_records()}
        assert cluster_command(["start", "--nodes", "3", "--detach", *SMALL]) == 0
        record = next(record for record in find_records() if record.address not in before)
        try:
            yield record
        finally:
            assert cluster_command(["stop", "--ray-address", record.address]) == 0
            assert gone(record.folder)
            log = (Path(record.folder) / "start.log").read_text()
            assert log.endswith("stopping the cluster ...\n")
            shutil.rmtree(record.folder)


def command(*words, **env):
    """`gpu-envs cluster ...` in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", CODE, *words], env={**os.environ, **env}, cwd=ROOT, **pipes)


def processes(folder):
    """Return the processes of a cluster: its folder is in their command line or their environment."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has ended, or is another user's
            continue
        if str(folder).encode() in words and state != "Z":
            found.add(int(process.name))
    return found


def gone(folder, seconds=120.0):
    """Return whether every process of a cluster ends within two minutes."""
    until = time.monotonic() + seconds
    while processes(folder) and time.monotonic() < until:
        time.sleep(0.2)
    return not processes(folder)


def listens(pid):
    """IP addresses at which a process listens."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            sockets.add(re.sub(r"\D", "", os.readlink(link)) if "socket" in os.readlink(link) else "")
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                words = struct.pack(f"<{len(fields[1][:-5]) // 8}I", *memory(fields[1][:-5]))
                yield socket.inet_ntop(socket.AF_INET6 if table == "tcp6" else socket.AF_INET, words)


def memory(digits):
    """Return the kernel's form of an address: words of four bytes in memory order."""
    return [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]


def test_nodes_and_address(cluster):
    """The address that is printed answers, under a token, with the nodes that were asked for."""
    os.environ["RAY_AUTH_MODE"] = "token"
    connect("a test", cluster.address)
    nodes = ray.nodes()
    assert [node["Alive"] for node in nodes] == [True] * 3
    assert [node["NodeManagerAddress"] for node in nodes] == ["127.0.0.1"] * 3
    assert [node["Resources"]["CPU"] for node in nodes] == [1.0] * 3

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def double(x):
        return 2 * x

    assert ray.get([double.remote(x) for x in range(3)]) == [0, 2, 4]


def test_loopback_only(cluster):
    """No process of it listens at an address that others reach."""
    places = {place for pid in processes(cluster.folder) for place in listens(pid)}
    assert places
    assert places <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_token_needed(cluster):
    """Neither a driver with another token is let in, nor a request to the dashboard without one."""
    env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    code = f"from trainers.cluster.connect import connect\nconnect('a test', {cluster.address!r})"
    result = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode
    assert "refused the connection; set RAY_AUTH_MODE=token" in result.stderr
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{cluster.dashboard}/api/jobs/", timeout=120)


def test_new_token_is_private(tmp_path, monkeypatch):
    """A new token can be read by its owner only."""
    monkeypatch.setenv("HOME", str(tmp_path))
    local_cluster._make_token()
    made = tmp_path / ".ray" / "auth_token"
    assert len(made.read_text()) == 64
    assert made.stat().st_mode & 0o077 == 0


def test_status_prints_nodes_and_resources(cluster, capsys):
    """It needs no address where one cluster runs, and shows what it has."""
    assert cluster_command(["status", "--ray-address", cluster.address]) == 0
    printed = capsys.readouterr().out
    assert printed.count("alive") == 3
    assert "CPU: 3 of 3 free" in printed
    assert f"export RAY_ADDRESS={cluster.address}" in printed


def test_ctrl_c():
    """The command runs in the foreground until a signal; then neither processes nor a record are left."""
    run = command("start", "--nodes", "2", "--no-dashboard", *SMALL)
    said = ""
    while "stop" not in said.rpartition("\n\n")[2]:
        line = run.stdout.readline()
        assert line, said
        said += line
    folder = re.search(r"/tmp/gpu-envs-ray-\w+", said)[0]
    assert len(processes(folder)) >= 5
    run.send_signal(signal.SIGINT)
    assert run.wait(300) == 0
    assert gone(folder)
    assert not (Path(folder) / RECORD).exists()
    shutil.rmtree(folder)


def test_stop_ends_recorded_processes_only(cluster, tmp_path, monkeypatch):
    """A recorded process id that another process has by now is left alone."""
    other = subprocess.Popen(["sleep", "60"])
    try:
        record = ClusterRecord(str(tmp_path), "127.0.0.1:1", "", 1, True, (other.pid, 1), ((os.getpid(), 1),))
        write_record(record)
        assert record in find_records()
        local_cluster.stop_cluster(record)
        assert other.poll() is None
        assert record not in find_records()
    finally:
        other.kill()
        other.wait()


def test_local_is_loopback_and_quiet():
    """A cluster of one process alone is at 127.0.0.1, wants a token, and says nothing about that."""
    code = (
        "import ray, os\nfrom trainers.cluster.connect import connect\nconnect('a test', num_cpus=1)\n"
        "print(ray.nodes()[0]['NodeManagerAddress'], os.environ['RAY_AUTH_MODE'])"
    )  # Ray is imported before
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "127.0.0.1 token"
    assert "Token authentication" not in result.stderr


def test_invalid_arguments_raise_one_line(cluster):
    """One clear line each."""
    port = cluster.address.rpartition(":")[2]
    for words, message in (
        (["start", "--nodes", "0"], "--nodes: expected an int >= 1, got 0"),
        (["start", "--port", port], f"port = {port}: used by another process; choose another, or 0"),
        (["start", "--port", "80"], r"port: expected a port in \[1024, 65535\], or 0 for a free one, got 80"),
        (["start", "--object-store", "1"], "object_store: expected at least 80 MiB, got 1"),
        (["start", "--gpus", "99"], "gpus: expected at most the"),
        (["start", "--temp-dir", "/tmp/" + 40 * "x"], "at most 40 characters"),
        (["stop", "--ray-address", "127.0.0.1:1"], f"at 127.0.0.1:1, got none; there are .*{cluster.address}"),
    ):
        with pytest.raises(ConfigError, match=message) as error:
            cluster_command(words)
        assert "\n" not in str(error.value)
    with pytest.raises(GpuEnvsError, match=r"no Ray cluster at '127.0.0.1:1' .*gpu-envs cluster start"):
        cluster_command(["status", "--ray-address", "127.0.0.1:1"])
    with pytest.raises(GpuEnvsError, match=r"no Ray cluster at '10.0.0.1:' \(expected HOST:PORT\)"):
        connect("a test", "10.0.0.1:")


@pytest.mark.parametrize("name", ["ray-cluster.yaml", "ray-cluster-aws.yaml"])
def test_manifest_of_ray_up(name):
    """As `ray up` checks it, before it calls any machine."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    written = yaml.safe_load((MANIFESTS / name).read_text())
    config = prepare_config(written)
    validate_config(config)
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(config, schema)
    assert f"=={ray.__version__}" in str(written["setup_commands"])
    for words in (written["head_start_ray_commands"], written["worker_start_ray_commands"]):
        assert any("RAY_AUTH_MODE=token" in word and "ray start" in word for word in words)
    assert "--dashboard-host=127.0.0.1" in str(written["head_start_ray_commands"])
    assert "0.0.0.0" not in str(written)
