"""Parts of `trainers.cluster` that do not need Ray."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError, MissingExtraError
from trainers.cli.cluster import cluster_command
from trainers.cluster import cluster_records, local_cluster
from trainers.cluster.connect import check_host, connect, ray_library
from trainers.cluster.local_cluster import ClusterConfig, _resources_per_node

MANIFESTS = Path(__file__).parents[3] / "docs" / "cluster"


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """Restore the environment variables that commands set."""
    for name in ("RAY_AUTH_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed


def test_ray_absent(without_ray):
    """One line that names the extra."""
    with pytest.raises(MissingExtraError, match=r"^a test needs ray: pip install 'ray\[.*\]>=[\d.]+'$"):
        ray_library("a test")
    for words in (["start"], ["status", "--ray-address", "127.0.0.1:1"]):
        with pytest.raises(MissingExtraError, match=r"^gpu-envs cluster [a-z-]+ needs ray: pip install"):
            cluster_command(words)


def test_folder_named_ray(monkeypatch, tmp_path):
    """Python takes a folder for a module without anything in it; in /tmp there is one of Ray's."""
    if "ray" in sys.modules or importlib.util.find_spec("ray") is not None:
        pytest.skip("Ray is installed")
    (tmp_path / "ray").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(MissingExtraError, match=r"^a test needs ray: pip install 'ray\[.*\]>=[\d.]+'$"):
            ray_library("a test")
    finally:
        sys.modules.pop("ray", None)


@pytest.fixture
def with_ray(monkeypatch):
    """Provide the parts of Ray that `connect` uses before it contacts a cluster."""
    constants = ModuleType("ray._private.ray_constants")
    private = SimpleNamespace(ray_constants=constants)
    ray = SimpleNamespace(is_initialized=lambda: False, _private=private)
    ray.exceptions = SimpleNamespace(AuthenticationError=type("AuthenticationError", (Exception,), {}))
    for name, module in (("ray", ray), ("ray._private", private), ("ray._private.ray_constants", constants)):
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "address", ["foo", "6379", ":6379", "foo:", "foo:bar", "ray://foo", "a..b:1", "127.0.0.1:99999"]
)
def test_bad_address(with_ray, monkeypatch, address, given):
    """One line, whether it is an option's or RAY_ADDRESS."""
    monkeypatch.setenv("RAY_ADDRESS", "" if given else address)
    with pytest.raises(GpuEnvsError, match=rf"^a test: no Ray cluster at '{address}' \(.+\); start one with") as error:
        connect("a test", address if given else "auto")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_nothing_imports_ray():
    """Neither the package, nor the command and its help."""
    code = (
        "import sys; import trainers.cluster.connect, trainers.cli.cluster as o; "
        "o.cluster_command(['--help']); "
        "assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.3.2.1", "::1"])
def test_loopback_addresses_do_not_warn(host):
    """And is 127.0.0.1, the one for which Ray does not listen everywhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_host(host) == "127.0.0.1"


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5"])
def test_outer_address_warns(host):
    with pytest.warns(
        UserWarning, match="can run any code on this machine, and the connection is not encrypted; use 127.0.0.1"
    ):
        assert check_host(host) == host


def test_host_is_an_address():
    with pytest.raises(ConfigError, match=r"^host: expected an IP address such as 127.0.0.1, got 'everywhere'"):
        check_host("everywhere")


def test_outer_address_without_token_is_refused(monkeypatch, capsys):
    """The warning is shown as one line, not as Python's."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ConfigError, match=r"^host = 0.0.0.0 with RAY_AUTH_MODE=disabled: every client could run code"):
        cluster_command(["start", "--host", "0.0.0.0"])


def test_open_host_warns_on_the_command_line(without_ray, monkeypatch, capsys):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    with pytest.raises(MissingExtraError):
        cluster_command(["start", "--host", "0.0.0.0"])
    assert capsys.readouterr().err.startswith(
        "gpu-envs: warning: host = 0.0.0.0: every client that reaches this address"
    )


def test_resources_are_split_over_the_nodes(monkeypatch):
    """CPUs and GPUs of the machine are split over the nodes; every GPU is one node's."""
    monkeypatch.setattr(local_cluster.os, "sched_getaffinity", lambda pid: range(8), raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert _resources_per_node(ClusterConfig(nodes=2)) == (4, [["4", "6"], ["5"]])
    assert _resources_per_node(ClusterConfig(nodes=16))[0] == 1
    assert _resources_per_node(ClusterConfig(nodes=3, cpus=0, gpus=1)) == (
        0,
        [["4"], ["5"], ["6"]],
    )
    with pytest.raises(ConfigError, match="nodes \\* gpus: expected at most the 3 GPUs of this machine, got 2 \\* 2"):
        _resources_per_node(ClusterConfig(nodes=2, gpus=2))


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Make the record of a cluster with logs in a folder and a process as its keeper."""
    (tmp_path / "place").mkdir()
    monkeypatch.setattr(cluster_records, "PLACE", tmp_path / "place")

    def make(folder, keeper):
        return cluster_records.ClusterRecord(
            str(folder), "127.0.0.1:1", "", 1, True, (keeper, cluster_records.start_time(keeper)), ()
        )

    return make


@pytest.mark.parametrize("inside", [True, False])
def test_record_is_found(record, tmp_path, capsys, inside):
    """`stop` ends a cluster in any folder, and leaves neither a record nor a folder made for it."""
    folder = tmp_path / "place" / "gpu-envs-ray-1" if inside else tmp_path / "elsewhere"
    folder.mkdir()
    keeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    threading.Thread(target=keeper.wait, daemon=True).start()  # so that nothing is left of it when it has ended
    written = record(folder, keeper.pid)
    cluster_records.write_record(written)
    assert cluster_records.find_records() == [written]
    assert cluster_command(["stop"]) == 0
    assert keeper.wait(60) == -signal.SIGTERM
    assert cluster_records.find_records() == []
    assert list((tmp_path / "place").iterdir()) == ([folder] if inside else [])
    assert f"stopped the cluster at 127.0.0.1:1; its logs stay in {folder}/" in capsys.readouterr().out


def test_folder_is_used_again(record, tmp_path):
    """The folder of a killed cluster can be used again; a running cluster keeps its folder."""
    folder = tmp_path / "elsewhere"
    cluster_records.write_record(record(folder, 2**30))
    cluster_records.claim_folder(folder)
    assert cluster_records.find_records() == []
    running = record(folder, os.getpid())
    cluster_records.write_record(running)
    with pytest.raises(
        ConfigError, match=r"the cluster at 127.0.0.1:1 uses this folder; choose another, or stop it with"
    ):
        cluster_records.claim_folder(folder)
    assert cluster_records.find_records() == [running]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "expected JSON"),
        ("[]", "expected a JSON object, got list"),
        ('"processes": [[1]]', "expected pairs of a process id and a start time; remove the file"),
        ('"processes": [[-1, 0]]', "expected pairs of a process id and a start time; remove the file"),
        ('"keeper": ["1", 2]', r"keeper: expected tuple\[int, int\], got"),
        ('"nodes": "many"', "nodes: expected int, got 'many'"),
    ],
)
def test_damaged_record_is_one_line(record, tmp_path, content, words):
    cluster_records.write_record(record(tmp_path / "elsewhere", 2**30))
    (file,) = (tmp_path / "place").glob("*/cluster.json")
    if content.startswith('"'):
        content = json.dumps({**json.loads(file.read_text()), **json.loads(f"{{{content}}}")})
    file.write_text(content)
    with pytest.raises(CheckpointError, match=f"{file}: {words}"):
        cluster_command(["stop"])


def test_unknown_command():
    with pytest.raises(ConfigError, match="no command named 'up'; expected one of start, status, stop"):
        cluster_command(["up"])


def manifest(name):
    """Return the documents of a manifest file."""
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


@pytest.mark.parametrize(("name", "kind"), [("raycluster.yaml", "RayCluster"), ("rayjob.yaml", "RayJob")])
def test_manifests_of_kuberay(name, kind):
    """The fields that KubeRay wants; limits, a token, and no service that is reached from outside."""
    given = manifest(name)[0]
    assert (given["apiVersion"], given["kind"]) == ("ray.io/v1", kind)
    spec = given["spec"] if kind == "RayCluster" else given["spec"]["rayClusterSpec"]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert not spec["headGroupSpec"].get("enableIngress", False)
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        for container in group["template"]["spec"]["containers"]:
            assert container["image"].endswith(f":{spec['rayVersion']}")
            assert container["resources"]["limits"] == container["resources"]["requests"]
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert "nvidia.com/gpu" in group["template"]["spec"]["containers"][0]["resources"]["limits"]
    if kind == "RayJob":
        assert given["spec"]["entrypoint"].startswith("gpu-envs league train ")


def test_both_clusters_of_kuberay_are_one():
    """The job's cluster is that of raycluster.yaml, and both find the claim."""
    (cluster,), (claim,) = manifest("raycluster.yaml"), manifest("runs.yaml")
    assert claim["kind"] == "PersistentVolumeClaim"
    assert manifest("rayjob.yaml")[0]["spec"]["rayClusterSpec"] == cluster["spec"]
    volume = cluster["spec"]["headGroupSpec"]["template"]["spec"]["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
