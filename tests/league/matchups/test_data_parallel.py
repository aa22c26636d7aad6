"""League trainings by several processes equal trainings by one process, except for the rounding of sums."""

import functools
import multiprocessing
import socket

import pytest
import torch
from shard_responses import CASES, WORLDS, play, play_rank

from gpu_envs.errors import CheckpointError
from league.matchups.best_response import BestResponseTraining
from league.matchups.data_parallel import joined_shard, select_training
from league.matchups.matchup_distribution import MatchupDistribution
from trainers.base.shard import Shard

SHORT = ("segment",)
LONG = tuple(case for case in CASES if case not in SHORT)
OF_THREE = ("group_torch",)
"""Cases that three processes play, too: with 3, 2 and 2 worlds."""
CASES_OF_RANKS = [
    *((2, case) for case in SHORT),
    *(pytest.param(2, case, marks=pytest.mark.slow) for case in LONG),
    *(pytest.param(3, case, marks=pytest.mark.slow) for case in OF_THREE),
]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Return folders of results by number of processes."""
    return played_by(tmp_path_factory, SHORT)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Return folders of the other cases."""
    return played_by(tmp_path_factory, LONG, OF_THREE)


@pytest.fixture
def played(request, case):
    """Return the folders that have the results of a case."""
    longer = case in LONG or request.node.callspec.params.get("ranks") == 3
    return request.getfixturevalue("long" if longer else "short")


def played_by(tmp_path_factory, of_two, of_three=()):
    """Return folders by number of processes; one process plays first, so that the others find compiled kernels."""
    outs = {ranks: tmp_path_factory.mktemp(f"ranks{ranks}") for ranks in (1, 2, 3)}
    play(outs[1], [*of_two, *of_three], 0, sharded=False)
    for ranks, cases in ((2, of_two), (3, of_three)):
        if cases:
            finish(start(outs[ranks], ranks, cases))
    return outs


def start(out, ranks, cases, device="cpu"):
    """Start processes as forks, which need no imports."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    started = [
        fork.Process(target=play_rank, args=(out, rank, ranks, port, device, cases), daemon=True)
        for rank in range(ranks)
    ]
    for process in started:
        process.start()
    return started


def finish(started):
    for process in started:
        process.join(timeout=900)
        assert process.exitcode == 0, "its error is in the captured output"


def assert_equal_results(case, *outs):
    single, many = (torch.load(out / f"{case}.pt", weights_only=True) for out in outs)
    assert len(single) == len(many) == 2
    for first, other in zip(single, many, strict=True):
        assert first["steps"] == other["steps"]
        assert first["tally"]["count"].sum() > WORLDS
        for name in ("matchups", "learns", "started", "count"):
            assert torch.equal(first["tally"][name], other["tally"][name]), name
        for name in ("total", "square", "score"):
            torch.testing.assert_close(first["tally"][name], other["tally"][name], rtol=1e-4, atol=1e-4)
        assert first["state"].keys() == other["state"].keys()
        for name, value in first["state"].items():
            actual = other["state"][name]
            if not isinstance(value, torch.Tensor):
                assert value == pytest.approx(actual), name
            elif value.is_floating_point() and case != "response_box":  # its worlds amplify the rounding of actions
                message = functools.partial("{}: {}".format, name)
                torch.testing.assert_close(actual, value, rtol=1e-4, atol=1e-5, equal_nan=True, msg=message)
            else:
                assert (value.shape, value.dtype) == (actual.shape, actual.dtype), name
                assert value.is_floating_point() or torch.equal(value, actual), name


@pytest.mark.parametrize(("ranks", "case"), CASES_OF_RANKS)
def test_processes_learn_and_count_what_one_process_does(played, ranks, case):
    assert_equal_results(case, played[1], played[ranks])


@pytest.mark.slow
def test_processes_on_pretended_gpus_learn_what_one_process_does(tmp_path):
    """On a GPU opponents of all worlds act in blocks of fixed shapes, and kernels compute tiles of rows."""
    outs = {ranks: tmp_path / f"{ranks}" for ranks in (1, 2)}
    for ranks, out in outs.items():
        out.mkdir()
        finish(start(out, ranks, CASES, "cuda:0"))
    for case in CASES:
        assert_equal_results(case, *outs.values())


@pytest.mark.parametrize("case", [*SHORT, *(pytest.param(case, marks=pytest.mark.slow) for case in LONG)])
def test_cases_learn_from_opponents_that_were_sampled(played, case):
    """So that results are not equal only because opponents or gradients had no effect."""
    first, second = torch.load(played[1] / f"{case}.pt", weights_only=True)
    assert (first["tally"]["count"] > 0).sum() >= 3
    nets = [name for name in first["state"] if name.endswith("weight")]
    assert max(float((first["state"][name] - second["state"][name]).abs().max()) for name in nets) > 1e-3


def test_states_of_other_numbers_of_worlds_are_refused():
    _, game, _, train = CASES["group_torch"]
    training = BestResponseTraining(game, MatchupDistribution.self_play(game), {}, train)
    shard = Shard.split(1, 2, WORLDS + 1)
    with pytest.raises(CheckpointError, match="expected 8 worlds, got 7"):
        select_training(shard, training.state_dict(), training.core, training.learners.env_axes)


def test_training_alone_joins_no_group():
    assert joined_shard(CASES["segment"][-1], sharded=False) is None
    assert joined_shard(CASES["segment"][-1], sharded=True) == Shard.split(0, 1, WORLDS)
