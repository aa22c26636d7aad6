"""Clusters of this machine: the lines of the guide start one, and clients without its token are refused."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml

from gpu_envs.errors import GpuEnvsError
from trainers.cluster.connect import connect

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "docs" / "cluster"


@pytest.fixture
def head():
    """Yield the address of a cluster that ``ray start`` keeps, and the environment of its clients."""
    line = re.search(r"^ray (start .*)$", (ROOT / "docs/guides/cluster.md").read_text(), re.MULTILINE)[1]
    command = [sys.executable, "-m", "ray.scripts.scripts"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--num-cpus=1", f"--port={port}", "--include-dashboard=false", "--block"]
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:  # paths of sockets are limited
        env = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "HOME": folder}
        subprocess.run([*command, "get-auth-token", "--generate"], env=env, check=True, capture_output=True)
        log = Path(folder) / "log"
        with log.open("w") as out:
            words = [*command, *line.split(), *options, f"--temp-dir={folder}/ray"]
            process = subprocess.Popen(words, env=env, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + 180
            while "Ray runtime started" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield f"127.0.0.1:{port}", env
        finally:
            process.terminate()
            process.wait(120)


def nodes_seen(address, env):
    """Connect in a separate process and print the addresses of the nodes."""
    code = (
        f"from trainers.cluster.connect import connect\nray = connect('a test', {address!r})\n"
        "print([node['NodeManagerAddress'] for node in ray.nodes()])"
    )
    return subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False)


def test_cluster_of_the_guide_answers_on_loopback_and_only_with_its_token(head):
    address, env = head
    assert nodes_seen(address, env).stdout.strip() == "['127.0.0.1']"
    refused = nodes_seen(address, {**env, "RAY_AUTH_TOKEN": "0" * 64})
    assert refused.returncode
    assert "refused the connection; set RAY_AUTH_MODE=token" in refused.stderr


def test_local_is_loopback_and_quiet():
    """A cluster of one process alone is at 127.0.0.1, wants a token, and says nothing about that."""
    code = (
        "import ray, os\nfrom trainers.cluster.connect import connect\nconnect('a test', num_cpus=1)\n"
        "print(ray.nodes()[0]['NodeManagerAddress'], os.environ['RAY_AUTH_MODE'])"
    )  # Ray is imported before
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "127.0.0.1 token"
    assert "Token authentication" not in result.stderr


@pytest.mark.parametrize(
    ("address", "reason"),
    [("127.0.0.1:1", r".*start one with `ray start --head`"), ("10.0.0.1:", r"\(expected HOST:PORT\)")],
)
def test_missing_cluster_is_one_line(address, reason):
    with pytest.raises(GpuEnvsError, match=rf"no Ray cluster at '{address}' {reason}") as error:
        connect("a test", address)
    assert "\n" not in str(error.value)


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
