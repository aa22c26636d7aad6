"""The table of GPUs at the start of a run names the trainings of its next iteration."""

import psro_runs
import pytest
import small_league

from league.cli.run_output import gpu_table, trainings_of
from league.executors.gpu_shares import GpuNode, plan_shares
from league.executors.ray import RayExecutor
from league.executors.tasks import LocalExecutor
from league.game import Game


class ClaimedGpus(RayExecutor):
    """An executor on a cluster that is only claimed."""

    def __init__(self, *gpus: int) -> None:
        self.claimed = [GpuNode(count, 16, "H100", name=str(index)) for index, count in enumerate(gpus)]

    @property
    def nodes(self):
        return self.claimed

    def plan(self, trainings):
        return plan_shares(self.claimed, trainings)


@pytest.fixture
def league(tmp_path):
    builder = small_league.builder("latest", shared_worlds=False)
    running = small_league.league(tmp_path / "run", builder, 1, Game.of("SimpleTag-v0"), episodes=4)
    with running.store:
        yield running


def test_table_before_the_first_iteration_names_the_first_players(league):
    assert gpu_table(ClaimedGpus(8), league, "cuda:0").splitlines() == [
        "8 GPUs on 1 node (H100)",
        "  GPUs each  runs",
        "  4            2: main_adversary_0, main_agent_0",
    ]
    assert gpu_table(ClaimedGpus(8), league, "cpu") == ""
    assert gpu_table(LocalExecutor(), league, "cuda:0") == ""


def test_table_of_a_resumed_run_names_its_players(league):
    expected = trainings_of(league)
    league.begin()
    assert trainings_of(league) == expected


def test_trainings_of_psro_are_its_responses(tmp_path):
    for kind, names in (
        ("psro", ["player_0", "player_1"]),
        ("pipeline", ["player_0 level 0", "player_0 level 1", "player_1 level 0", "player_1 level 1"]),
        ("exact", []),
    ):
        running = psro_runs.psro(tmp_path / kind, **{"iterations": 1, **psro_runs.KINDS[kind]})
        with running.store:
            assert trainings_of(running) == names
            table = gpu_table(ClaimedGpus(1, 2), running, "cuda:0")
            assert all(name in table for name in names)
            assert table.startswith("3 GPUs on 2 nodes (H100)") == bool(names)
