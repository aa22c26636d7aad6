"""Shares of GPUs on Ray, with GPUs that the cluster claims to have: no GPU is idle while there is work."""

import time

import gpu_calls
import psro_runs
import pytest
import ray
import small_league
import torch
from calls_made import alive, gathered

from gpu_envs.errors import ConfigError
from league.cli.train import train_command
from league.executors import ray_resources
from league.executors.ray import RayExecutor
from league.executors.tasks import LocalExecutor, RemoteTask
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_store import RunStore
from trainers.cluster.connect import connect

SIMULATED = "simulated_gpu"
GPUS = 4


@pytest.fixture(scope="module", autouse=True)
def cluster(workers_find_tests):
    claims = {"num_cpus": GPUS, "num_gpus": 2, "resources": {SIMULATED: GPUS}}
    connect("the tests", "local", object_store_memory=100_000_000, **claims)
    yield
    ray.shutdown()


def simulated(**options) -> RayExecutor:
    return RayExecutor(gpu_resource=SIMULATED, **options)


def training(key, function, device="cpu", max_shards=1, **arguments) -> RemoteTask:
    return RemoteTask(key, function, {}, arguments, True, device, max_shards)


def test_trainings_share_the_gpus_of_a_node_as_planned(tmp_path):
    """Ray assigns the GPUs of a node by the shares: halves of one GPU, and the other one as a whole."""
    arguments = {"folder": str(tmp_path), "count": 3}  # each ends when all have begun
    tasks = [training(f"{n}", gpu_calls.meet, "cuda", name=f"{n}", **arguments) for n in range(3)]
    results = gathered(RayExecutor(), tasks)
    assert [results[f"{n}"]["resources"]["GPU"] for n in range(3)] == [0.5, 0.5, 1.0]
    assert results["0"]["gpus"] == results["1"]["gpus"] != results["2"]["gpus"]


@pytest.mark.slow
def test_trainings_with_several_gpus_run_in_as_many_processes():
    (ranks,) = gathered(RayExecutor(), [training("one", gpu_calls.ranks, "cuda", 8, worlds=5)]).values()
    assert [rank[:2] for rank in ranks] == [[0, 3], [1, 2]]
    assert len({rank[2] for rank in ranks}) == 2
    assert sorted(rank[3] for rank in ranks) == ["0", "1"]


def test_trainings_take_no_more_gpus_than_they_have_worlds():
    (ranks,) = gathered(simulated(), [training("one", gpu_calls.ranks, max_shards=1, worlds=1)]).values()
    assert [rank[:2] for rank in ranks] == [[0, 1]]


@pytest.mark.parametrize("how", ["dies once", pytest.param("dies always", marks=pytest.mark.slow), "raises"])
def test_task_of_several_processes_is_retried_as_a_whole(how, tmp_path, monkeypatch):
    monkeypatch.setattr("league.executors.ray.RETRIES", 1)
    executor, marker = simulated(gpus_per_learner=2), tmp_path / "died"
    arguments = {"worlds": 7, "marker": str(marker), "how": how}
    executor.submit(training("1/train/red", gpu_calls.sum_of_ranks, max_shards=7, **arguments))
    if how == "dies once":
        assert executor.next() == ("1/train/red", 21.0)
    elif how == "raises":
        with pytest.raises(ConfigError, match=r"^rank 1: expected a fish, got a bird$"):
            executor.next()
    else:
        with pytest.raises(Exception, match=r"1/train/red: no worker|[Cc]onnection|closed"):  # whichever comes first
            executor.next()
    assert marker.exists()
    assert executor.pending == 0


@pytest.mark.slow
def test_cancelled_processes_are_killed_and_their_gpus_are_free(tmp_path):
    executor = simulated()
    executor.submit(training("waits", gpu_calls.wait, max_shards=4, folder=str(tmp_path)))
    assert executor.next(within=0.1) is None
    deadline = time.monotonic() + 300
    while len(list(tmp_path.iterdir())) < GPUS and time.monotonic() < deadline:
        time.sleep(0.1)
    executor.cancel()
    (result,) = gathered(executor, [training("next", gpu_calls.resources)]).values()
    assert result["resources"][SIMULATED] == 1.0
    processes = [int(file.read_text()) for file in tmp_path.iterdir()]
    assert len(processes) == GPUS
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, processes))


def test_gpus_are_used_until_the_last_task_starts(tmp_path):
    """A training ends only when so many others have begun that no GPU was left out since its start.

    Payoffs, which were submitted first, fill what the last trainings leave free, before these end.
    """
    executor, arguments = simulated(gpus_per_learner=1), {"folder": str(tmp_path), "num_others": GPUS - 1}
    payoffs = [RemoteTask(f"payoffs{n}", gpu_calls.relay, {}, {**arguments, "trainings": 0}) for n in range(4)]
    trainings = [training(f"train{n}", gpu_calls.relay, trainings=16, **arguments) for n in range(16)]
    results = gathered(executor, [*payoffs, *trainings])
    shares = {key: result["resources"][SIMULATED] for key, result in results.items()}
    assert shares == {f"train{n}": 1.0 for n in range(16)} | {f"payoffs{n}": 0.5 for n in range(4)}


# ---------------------------------------------------------------- leagues


def psro(path, executor):
    config = PSROConfig(iterations=1, **psro_runs.QUICK)
    with open_run(path, Game.of("LeducPoker-v0"), "psro", config) as store:
        PSRO(store, config, executor=executor).run()


def league(path, executor):
    builder = small_league.builder("latest", shared_worlds=False)
    running = small_league.league(path, builder, 2, Game.of("SimpleTag-v0"), executor=executor, episodes=4)
    with running.store:
        running.run()


@pytest.mark.parametrize("run", [psro, pytest.param(league, marks=pytest.mark.slow)])
def test_run_with_two_gpus_per_policy_equals_that_of_one_process(run, tmp_path):
    """Two policies train on two GPUs each; tallies and weights are equal but for the rounding of sums."""
    run(tmp_path / "local", LocalExecutor())
    executor, sizes = simulated(), []
    send = executor._watch
    executor._watch = lambda running: (sizes.append(len(running.refs)), send(running))
    run(tmp_path / "ray", executor)
    assert [size for size in sizes if size > 1] == [2] * (2 if run is psro else 4)
    local, remote = (RunStore.open(tmp_path / name, write=False) for name in ("local", "ray"))
    with local, remote:
        assert sorted(local.tasks()) == sorted(remote.tasks())
        for role, pool in local.populations.items():
            pairs = list(zip(pool[:], remote.populations[role][:], strict=True))
            assert len(pairs) >= 2
            for mine, theirs in pairs:
                if hasattr(mine, "net"):
                    nets = [dict(policy.net.state_dict()) for policy in (mine, theirs)]
                    torch.testing.assert_close(nets[0], nets[1], rtol=1e-4, atol=1e-5)
        steps = [[store.result(task).get("steps") for task in sorted(store.tasks())] for store in (local, remote)]
        assert steps[0] == steps[1]
        matches = [
            [(match.iteration, match.role, match.count) for match in store.matches()] for store in (local, remote)
        ]
        assert matches[0] == matches[1]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="workers would find the GPUs that the cluster claims")
def test_command_prints_the_gpus_of_each_training_before_the_run(tmp_path, capsys):
    argv = ["KuhnPoker-v0", "--algorithm", "psro", "--iterations", "1", "--executor", "ray", "--device", "cuda"]
    with pytest.raises(Exception, match=r"CUDA|cuda"):  # of the first task, on a machine without a GPU
        train_command([*argv, "--run-dir", str(tmp_path / "run")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("psro on KuhnPoker-v0")
    assert lines[1:4] == ["2 GPUs on 1 node", "  GPUs each  runs", "  1            2: player_0, player_1"]


def test_memory_of_gpus_limits_the_trainings_on_them(monkeypatch):
    monkeypatch.setattr(ray_resources, "_gpu_memory", lambda: 16.0)
    executor = RayExecutor(memory_per_learner=10.0)
    assert [node.memory for node in executor.nodes] == [16.0]
    plan = executor.plan(3)
    assert ([share.gpus for share in plan.shares], plan.waiting) == ([1.0, 1.0], 1)
    assert executor.resources.least_share == 1.0
    message = r"^memory_per_learner = 20: expected at most the 16 GiB of the cluster's largest GPU; use .*$"
    with pytest.raises(ConfigError, match=message):
        RayExecutor(memory_per_learner=20.0)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match=r"^memory_per_learner: expected GiB above 0 or None, got"):
            RayExecutor(memory_per_learner=wrong)


def test_shares_that_the_cluster_cannot_give_are_refused_in_one_line():
    message = r"^gpus_per_learner = 8: expected at most the 4 GPUs of one kind in the cluster.*; use fewer$"
    with pytest.raises(ConfigError, match=message):
        simulated(gpus_per_learner=8)
