"""Shares of GPUs: no GPU is idle while trainings wait, none is promised twice, and every training gets a share."""

import math
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_envs.errors import ConfigError
from league.executors.gpu_shares import GpuNode, GpuShare, SharePlan, format_plan, free_shares, plan_shares

KINDS = st.sampled_from(["", "H100", "A100"])
NODES = st.lists(
    st.builds(
        GpuNode, st.integers(0, 8), st.integers(0, 64), KINDS, st.sampled_from([1e6, 16.0, 80.0])
    ),
    min_size=1,
    max_size=5,
).map(lambda nodes: [GpuNode(n.gpus, n.cpus, n.kind, n.memory, str(i)) for i, n in enumerate(nodes)])  # fmt: skip


def gpus_of(plan: SharePlan) -> list[float]:
    return [share.gpus for share in plan.shares]


def cluster(*gpus: int, cpus: int = 64) -> list[GpuNode]:
    return [GpuNode(count, cpus, name=str(index)) for index, count in enumerate(gpus)]


@pytest.mark.parametrize(
    ("gpus", "trainings", "expected"),
    [
        ((8,), 2, [4, 4]),
        ((8,), 3, [3, 3, 2]),
        ((4, 4), 3, [3, 3, 2]),
        ((1, 2), 1, [3]),
        ((8,), 8, [1] * 8),
        ((4,), 6, [0.5] * 4 + [1] * 2),
        ((4,), 10, [0.3333] * 6 + [0.5] * 4),
        ((1,), 4, [0.25] * 4),
        ((0, 2), 4, [0.5] * 4),
    ],
)
def test_shares_of_equal_gpus(gpus, trainings, expected):
    plan = plan_shares(cluster(*gpus), trainings)
    assert (gpus_of(plan), plan.waiting) == (expected, 0)


def test_trainings_beyond_the_limit_of_learners_wait():
    plan = plan_shares(cluster(1), 6)
    assert (gpus_of(plan), plan.waiting, plan.least) == ([0.25] * 4, 2, 0.25)
    assert plan_shares(cluster(1), 6, max_per_gpu=6).waiting == 0
    assert plan_shares(cluster(1, cpus=2), 6).shares == plan_shares(cluster(1), 2).shares
    assert plan_shares([GpuNode(1, 64, memory=80.0)], 6, memory=30.0).waiting == 4
    assert plan_shares([GpuNode(1, 64, memory=80.0)], 6, memory=90.0) == SharePlan((), 6)
    assert plan_shares(cluster(0), 3) == SharePlan((), 3)


def test_trainings_get_gpus_of_one_kind():
    nodes = [GpuNode(8, 64, "H100"), GpuNode(2, 64, "A100")]
    assert [(share.gpus, share.kind) for share in plan_shares(nodes, 3).shares] == [
        (4, "H100"),
        (4, "H100"),
        (2, "A100"),
    ]
    assert [(share.gpus, share.kind) for share in plan_shares(nodes, 1).shares] == [(8, "H100")]


def test_given_shares_are_kept():
    nodes = cluster(4, 4)
    assert gpus_of(plan_shares(nodes, 3, gpus=2)) == [2, 2, 2]
    plan = plan_shares(nodes, 5, gpus=3)
    assert (gpus_of(plan), plan.waiting) == ([3, 3], 3)
    plan = plan_shares(nodes, 30, gpus=0.5)
    assert (gpus_of(plan), plan.waiting) == ([0.5] * 16, 14)
    for wrong in (0, -1, 1.5, math.nan, math.inf):
        with pytest.raises(ConfigError, match=r"^gpus_per_learner: expected a share in \[0.001, 1\], a whole number"):
            plan_shares(nodes, 1, gpus=wrong)


def test_table_names_gpus_and_shares_in_short_lines():
    nodes = [GpuNode(2, 16, "H100", name="a"), GpuNode(1, 16, "H100", name="b")]
    names = [f"league_exploiter_{number}" for number in range(14)]
    assert format_plan(nodes, plan_shares(nodes, 14), names).splitlines() == [
        "3 GPUs on 2 nodes (H100)",
        "  GPUs each  runs",
        "  0.25        12: league_exploiter_0, league_exploiter_1, league_exploiter_2, …",
        "  waiting      2: league_exploiter_12, league_exploiter_13",
    ]
    mixed = [GpuNode(4, 8, "H100"), GpuNode(1, 8, "A100")]
    assert format_plan(mixed, plan_shares(mixed, 2), ["red", "blue"]).splitlines()[-2:] == [
        "  4 x H100     1: red",
        "  1 x A100     1: blue",
    ]


@settings(max_examples=300, deadline=None)
@given(
    nodes=NODES,
    trainings=st.integers(0, 60),
    cpus=st.integers(1, 4),
    limit=st.integers(1, 8),
    memory=st.sampled_from([0.0, 5.0, 30.0]),
)
def test_no_gpu_is_idle_while_trainings_wait(nodes, trainings, cpus, limit, memory):
    plan = plan_shares(nodes, trainings, cpus=cpus, max_per_gpu=limit, memory=memory)
    assert plan == plan_shares(nodes, trainings, cpus=cpus, max_per_gpu=limit, memory=memory)
    assert len(plan.shares) + plan.waiting == trainings
    assert all(share.gpus > 0 for share in plan.shares)
    usable = {node.name: min(node.gpus, node.cpus // cpus) if node.memory >= memory else 0 for node in nodes}
    total = sum(usable.values())
    parts = [share for share in plan.shares if share.node is not None]
    # nothing is promised twice: neither GPUs, nor CPUs, nor memory
    assert sum(gpus_of(plan)) <= sum(node.gpus for node in nodes) + 1e-9
    by_node, on_node = Counter(), Counter(share.node for share in parts)
    for share in parts:
        by_node[share.node] += share.gpus
    for node in nodes:
        assert by_node[node.name] <= node.gpus + 1e-9
        assert on_node[node.name] * cpus <= node.cpus
        assert on_node[node.name] * memory <= node.gpus * node.memory
    for kind in {node.kind for node in nodes}:
        of_kind = [share.gpus for share in plan.shares if share.kind == kind and share.node is None]
        assert sum(of_kind) <= sum(usable[node.name] for node in nodes if node.kind == kind)
    # nothing is idle
    if plan.shares and not parts:
        kinds = {share.kind for share in plan.shares}
        assert sum(gpus_of(plan)) == sum(usable[node.name] for node in nodes if node.kind in kinds)
        assert not plan.waiting
        if trainings >= len({node.kind for node in nodes if usable[node.name]}):
            assert sum(gpus_of(plan)) == total
    if plan.waiting and total:
        assert parts or memory
        for node in nodes:  # no training that waits fits anywhere
            slots = node.gpus * (min(limit, int(node.memory / memory)) if memory else limit)
            assert on_node[node.name] == (min(slots, node.cpus // cpus) if usable[node.name] else 0)
    elif parts:  # a GPU is empty only where no CPU is left
        for node in nodes:
            loads = Counter(round(share.gpus, 4) for share in parts if share.node == node.name)
            used = sum(number / round(1 / gpus) for gpus, number in loads.items())
            assert used == pytest.approx(usable[node.name])


@settings(max_examples=200, deadline=None)
@given(nodes=NODES, trainings=st.integers(1, 60), gpus=st.sampled_from([0.1, 0.25, 0.3, 1, 2, 3, 8]))
def test_given_shares_fit_into_the_cluster(nodes, trainings, gpus):
    plan = plan_shares(nodes, trainings, gpus=gpus)
    assert set(gpus_of(plan)) <= {float(gpus)}
    assert sum(gpus_of(plan)) <= sum(node.gpus for node in nodes) + 1e-9
    if plan.waiting and gpus >= 1:
        for kind in {node.kind for node in nodes}:
            usable = sum(min(node.gpus, node.cpus) for node in nodes if node.kind == kind)
            used = sum(share.gpus for share in plan.shares if share.kind == kind)
            assert usable - used < gpus


@pytest.mark.parametrize(("share", "processes"), [(0.25, 1), (1.0, 1), (2.0, 2), (8.0, 8)])
def test_processes_of_a_share(share, processes):
    assert GpuShare(share).processes == processes


def test_free_shares_are_those_that_running_trainings_leave():
    nodes = cluster(4)
    plan = plan_shares(nodes, 3)
    assert gpus_of(plan) == [2, 1, 1]
    assert [share.gpus for share in free_shares(nodes, plan, [])] == [2, 1, 1]
    assert [share.gpus for share in free_shares(nodes, plan, [GpuShare(2.0), GpuShare(1.0)])] == [1]
    assert free_shares(nodes, plan_shares(nodes, 2), [GpuShare(4.0)]) == []  # the first one has begun alone
    halves = plan_shares(cluster(1, 1), 4)
    assert free_shares(cluster(1, 1), halves, [halves.shares[3]]) == list(halves.shares[:3])
    assert free_shares(cluster(1, 1), halves, [GpuShare(1.0, "", "0")]) == list(halves.shares[2:])


@settings(max_examples=200, deadline=None)
@given(nodes=NODES, previous=st.integers(1, 20), num_running=st.integers(0, 20), more=st.integers(0, 20))
def test_free_shares_never_exceed_the_gpus(nodes, previous, num_running, more):
    running = plan_shares(nodes, previous).shares[:num_running]
    plan = plan_shares(nodes, len(running) + more)
    shares = free_shares(nodes, plan, running)
    assert len(shares) <= len(plan.shares) - len(running) or not shares
    assert sum(share.gpus for share in (*running, *shares)) <= sum(node.gpus for node in nodes) + 1e-6
    if not running:
        assert shares == list(plan.shares)


def test_no_gpu_is_idle_while_trainings_wait_after_their_number_has_changed():
    """Trainings that begin later take fewer whole GPUs if their share is not free."""
    for gpus, previous, now in product(range(1, 9), repeat=3):
        nodes = [GpuNode(gpus, 64, name="a")]
        earlier, plan = plan_shares(nodes, previous).shares, plan_shares(nodes, now)
        for running in (list(earlier[:count]) for count in range(len(earlier))):
            waiting = now - len(running)
            shares = free_shares(nodes, plan, running) if waiting > 0 else []
            idle = gpus - sum(share.gpus for share in [*running, *shares])
            assert idle > -1e-6
            assert idle < 1 or len(shares) >= waiting, (gpus, previous, now, running)
