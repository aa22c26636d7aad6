"""Tasks and leagues on a Ray cluster: results equal those of this process, whatever dies meanwhile."""

import dataclasses
import threading
import time
from pathlib import Path

import calls_made
import gpu_calls
import psro_runs
import pytest
import ray
import small_league
from calls_made import alive, gathered
from ray.cluster_utils import Cluster

from gpu_envs.definition import id_modules
from gpu_envs.errors import CheckpointError, ConfigError, DeviceError, GpuEnvsError
from league.executors.gpu_shares import GpuShare
from league.executors.ray import RayExecutor
from league.executors.tasks import LocalExecutor, RemoteTask
from league.executors.transport import pack
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run


@pytest.fixture(scope="module")
def cluster(workers_find_tests):
    """Return a cluster with a head without tasks, and a node of two cores."""
    ray_cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    ray_cluster.add_node(num_cpus=2)
    yield ray_cluster
    ray.shutdown()
    ray_cluster.shutdown()


@pytest.fixture(scope="module")
def executor(cluster):
    executor = RayExecutor(cluster.address)
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def expected():
    return gathered(LocalExecutor(), calls_made.calls())


def test_results_are_those_of_this_process_bit_for_bit(executor, expected):
    assert gathered(executor, calls_made.calls()) == expected
    digests = {pack(policy).digest for policy in calls_made.policies()["player"]}
    assert digests == set(executor._payload_handles)  # each policy was put into the object store once


def test_workers_have_one_thread(executor):
    assert gathered(executor, [RemoteTask("threads", calls_made.threads)]) == {"threads": (1, "1")}


def test_modules_that_ids_name_travel_with_a_call(executor, monkeypatch):
    """And a call does not import what it reads: tabnanny stands for a module that nothing else imports."""
    monkeypatch.setattr(id_modules, "_named", {})
    call = RemoteTask("recorded", calls_made.recorded, arguments={"env_id": "tabnanny:CartPole-v1"})
    with pytest.raises(CheckpointError, match="add --allow-import tabnanny if you trust it"):
        gathered(executor, [call])
    id_modules.allow_import("tabnanny")
    assert gathered(executor, [call]) == {"recorded": "tabnanny:CartPole-v1"}


def test_processes_stay_for_the_next_call(executor):
    """Ray may start a few more than there are CPUs, but not one per call."""
    used = set()
    for _ in range(6):
        used |= {*gathered(executor, [RemoteTask(f"{n}", calls_made.process) for n in range(4)]).values()}
    assert len(used) <= 6


def test_errors_come_back_as_themselves(executor):
    def ends(how: str) -> BaseException:
        executor.submit(RemoteTask(how, calls_made.fail, arguments={"how": how}))
        with pytest.raises(Exception) as caught:  # noqa: PT011
            executor.next()
        return caught.value

    library, other, two = ends("library"), ends("other"), ends("two")
    assert (type(library), str(library)) == (CheckpointError, "step 7: expected a tree, got a stone")
    assert (type(other), str(other)) == (ZeroDivisionError, "division of a fish")
    assert (type(two), str(two)) == (GpuEnvsError, "NeedsTwoError: one and two")


def test_missing_gpu_raises_device_error(executor):
    with pytest.raises(
        DeviceError, match=r"^device='cuda': expected a GPU in the Ray cluster at '.*', got none; add a node .*$"
    ):
        executor.device("cuda")
    assert (executor.device(None), executor.device("cpu")) == ("cpu", "cpu")
    for wrong in ({"gpus_per_learner": 1.5}, {"gpus_per_learner": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="expected"):
            RayExecutor(executor.address, **wrong)


@pytest.mark.parametrize("make", ["play", "learn"])
def test_killed_worker_does_not_change_results(executor, expected, tmp_path, make):
    calls = calls_made.calls()
    of = next(call for call in calls if call.key.startswith(make))
    arguments = {"marker": str(tmp_path / "died"), "after": 0.2, "make": of.function, **of.arguments}
    results = gathered(executor, [calls[1], RemoteTask("killed", calls_made.killed_once, of.policies, arguments)])
    assert (tmp_path / "died").exists()
    assert results == {calls[1].key: expected[calls[1].key], "killed": expected[of.key]}


def test_task_that_kills_every_worker_raises_with_its_key(executor):
    executor.submit(RemoteTask("3/respond/red", calls_made.die))
    with pytest.raises(GpuEnvsError, match=r"^3/respond/red: no worker of the Ray cluster finished this task.*$"):
        executor.next()


def wait_until(happened):
    deadline = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def marked(folder: Path) -> list[int]:
    """Return the processes that have written to a folder."""
    return [int(text) for file in folder.iterdir() if (text := file.read_text())]


def test_cancelled_calls_are_killed_and_later_calls_run(executor, tmp_path):
    for n in range(6):
        arguments = {"file": str(tmp_path / str(n)), "seconds": 600.0}
        executor.submit(RemoteTask(f"{n}", calls_made.sleep_after_mark, arguments=arguments))
    wait_until(lambda: len(marked(tmp_path)) == 2)  # as many as there are CPUs; the others wait
    executor.cancel()
    assert executor.pending == 0
    assert gathered(executor, [RemoteTask("next", calls_made.add, arguments={"a": 3, "b": 4})]) == {"next": 7}
    wait_until(lambda: not any(map(alive, marked(tmp_path))))
    assert len(marked(tmp_path)) == 2, "what had not begun never does"


def test_nodes_can_join_and_leave(cluster, executor, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("league.executors.ray_resources.RESOURCE_INTERVAL", 0.2)
    joined = cluster.add_node(num_cpus=2)
    deadline = time.monotonic() + 300
    while executor.resources.cpus < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
        executor.resources.update()
    assert executor.resources.cpus == 4
    calls, go = calls_made.calls(), tmp_path / "go"

    def task(n):
        arguments = {"file": str(tmp_path / f"{n}"), "go": str(go)}
        return RemoteTask(f"slow/{n}", calls_made.node_when_told, arguments=arguments)

    def leave():
        wait_until(lambda: len(marked(tmp_path)) == 4)  # two on each node
        processes = marked(tmp_path)
        cluster.remove_node(joined, allow_graceful=False)
        wait_until(lambda: sum(map(alive, processes)) == 2)  # processes of the node die after it
        go.touch()

    slow, leaving = [task(n) for n in range(4)], threading.Thread(target=leave)
    leaving.start()
    results = gathered(executor, [*slow, *calls])
    leaving.join()
    assert {key: results[key] for key in expected} == expected
    assert len({results[call.key] for call in slow}) == 1  # the node that is left did them all
    assert executor.pending == 0


@pytest.mark.slow
def test_trainings_are_placed_on_nodes_and_go_on_without_a_lost_one(cluster, executor, tmp_path, monkeypatch):
    """A training with two GPUs on two nodes, one of which is lost, runs again on the other."""
    monkeypatch.setattr("league.executors.ray_resources.RESOURCE_INTERVAL", 0.2)
    nodes = [cluster.add_node(num_cpus=2, resources={"simulated_gpu": 1}) for _ in range(2)]
    cluster.wait_for_nodes()
    gpus = RayExecutor(cluster.address, gpu_resource="simulated_gpu")
    three = [RemoteTask(f"{n}", calls_made.node, {}, {"seconds": 1.0}, True, "cpu") for n in range(3)]
    places = gathered(gpus, three)  # two share the GPU of a node, and the other node has one
    assert places["0"] == places["1"] != places["2"]
    assert [share.gpus for share in gpus.plan(1).shares] == [2]
    gpus.submit(RemoteTask("spans", gpu_calls.nodes, {}, {"folder": str(tmp_path)}, True, "cpu", 8))
    threading.Timer(0.0, remove_when_begun, (cluster, nodes[1], tmp_path, 2)).start()
    assert gpus.next() == ("spans", 1)
    assert len({file.read_text() for file in tmp_path.iterdir()}) == 2
    cluster.remove_node(nodes[0])


def remove_when_begun(cluster, node, folder, count):
    """Remove a node when this number of processes have begun."""
    wait_until(lambda: len(list(folder.iterdir())) >= count)
    cluster.remove_node(node, allow_graceful=False)


def test_tasks_beside_trainings_get_half_of_the_smallest_share(executor, monkeypatch):
    payoffs, cpu_task = (RemoteTask("x", calls_made.add, device=device) for device in ("cuda", "cpu"))
    resources = executor.resources
    assert resources.least_share == 0
    for cpus, gpus, share in ((16, 1, 0.25), (8, 4, 0.5), (4, 4, 1.0), (2, 4, 1.0)):
        monkeypatch.setattr(resources, "cpus", cpus)
        monkeypatch.setattr(resources, "gpus", gpus)
        assert resources.least_share == share
        options = [resources.task_options(task, None)["num_gpus"] for task in (payoffs, cpu_task)]
        assert options == [share / 2, 0]
        assert resources.capacity(payoffs, []) == min(cpus, gpus / (share / 2))
        assert resources.capacity(cpu_task, []) == cpus
    monkeypatch.setattr(resources, "cpus", 16)
    assert resources.capacity(payoffs, [GpuShare(3.0)]) == 8  # on the GPU that is free
    assert resources.capacity(payoffs, [GpuShare(4.0)]) == 0
    monkeypatch.setattr(resources, "gpus_per_learner", 0.5)
    assert resources.least_share == 0.5
    monkeypatch.setattr(resources, "gpus_per_learner", 2)
    assert resources.least_share == 1


# ---------------------------------------------------------------- leagues


def psro(path, executor):
    config = PSROConfig(iterations=2, **psro_runs.QUICK)
    with open_run(path, Game.of("LeducPoker-v0"), "psro", config) as store:
        PSRO(store, config, executor=executor).run()


def alphastar(path, executor):
    game = Game.of("SimpleTag-v0")
    running = small_league.league(path, "alphastar", 2, game, executor=executor, episodes=4)
    with running.store:
        running.run()


class DeadlyExecutor(RayExecutor):
    """Kills the worker of the first task that trains, and of the first one that plays payoffs."""

    folder: Path

    def submit(self, task):
        marker = self.folder / ("trains" if task.learns else "plays")
        if not marker.exists():
            marker.mkdir()
            arguments = {"marker": str(marker / "died"), "after": 0.3, "make": task.function, **task.arguments}
            task = dataclasses.replace(task, function=calls_made.killed_once, arguments=arguments)
        super().submit(task)


@pytest.mark.parametrize("run", [psro, alphastar])
def test_league_whose_workers_die_equals_that_of_one_process(run, cluster, tmp_path):
    run(tmp_path / "local", LocalExecutor())
    executor = DeadlyExecutor(cluster.address)
    executor.folder = tmp_path
    run(tmp_path / "ray", executor)
    executor.close()
    assert (tmp_path / "trains" / "died").exists()
    assert (tmp_path / "plays" / "died").exists()
    assert psro_runs.contents(tmp_path / "ray") == psro_runs.contents(tmp_path / "local")
