"""Parts of `trainers.cluster` that do not need Ray."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from gpu_envs.errors import GpuEnvsError, MissingExtraError
from trainers.cluster.connect import connect, ray_library

MANIFESTS = Path(__file__).parents[3] / "docs" / "cluster"


@pytest.fixture
def without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed


def test_ray_absent(without_ray):
    """One line that names the extra."""
    with pytest.raises(MissingExtraError, match=r"^a test needs ray: pip install .*('ray\[.*\]>=[\d.]+|\[ray\])'$"):
        ray_library("a test")


def test_folder_named_ray(monkeypatch, tmp_path):
    """Python takes a folder for a module without anything in it; in /tmp there is one of Ray's."""
    if "ray" in sys.modules or importlib.util.find_spec("ray") is not None:
        pytest.skip("Ray is installed")
    (tmp_path / "ray").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(MissingExtraError, match=r"^a test needs ray: pip install .*('ray\[.*\]>=[\d.]+|\[ray\])'$"):
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


@pytest.mark.parametrize("has_address", [True, False])
@pytest.mark.parametrize(
    "address", ["foo", "6379", ":6379", "foo:", "foo:bar", "ray://foo", "a..b:1", "127.0.0.1:99999"]
)
def test_bad_address(with_ray, monkeypatch, address, has_address):
    """One line, whether it is an option's or RAY_ADDRESS."""
    monkeypatch.setenv("RAY_ADDRESS", "" if has_address else address)
    with pytest.raises(GpuEnvsError, match=rf"^a test: no Ray cluster at '{address}' \(.+\); start one with") as error:
        connect("a test", address if has_address else "auto")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_nothing_imports_ray():
    code = "import sys; import trainers.cluster.connect; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def manifest(name):
    """Return the documents of a manifest file."""
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


@pytest.mark.parametrize(("name", "kind"), [("raycluster.yaml", "RayCluster"), ("rayjob.yaml", "RayJob")])
def test_manifests_of_kuberay(name, kind):
    """The fields that KubeRay wants; limits, a token, and no service that is reached from outside."""
    document = manifest(name)[0]
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", kind)
    spec = document["spec"] if kind == "RayCluster" else document["spec"]["rayClusterSpec"]
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
        assert document["spec"]["entrypoint"].startswith("gpu-envs league train ")


def test_both_clusters_of_kuberay_are_one():
    """The job has the cluster of raycluster.yaml, and both find the claim."""
    (cluster,), (claim,) = manifest("raycluster.yaml"), manifest("runs.yaml")
    assert claim["kind"] == "PersistentVolumeClaim"
    assert manifest("rayjob.yaml")[0]["spec"]["rayClusterSpec"] == cluster["spec"]
    volume = cluster["spec"]["headGroupSpec"]["template"]["spec"]["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
