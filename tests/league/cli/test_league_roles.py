"""`gpu-envs league train --roles`: roles for environments that declare none, or others than they declare."""

import pytest

from gpu_envs.cli import main
from league.storage.run_store import RunStore
from trainers.storage.config_yaml import read_config

TINY = ["--iterations", "1", "--steps", "64", "--episodes-per-matchup", "2", "--device", "cpu", "--num-threads", "1"]
TINY += ["--train-overrides", "num_envs=4", "--train-overrides", "learner.rollout_length=4"]
CARTS = ["league", "train", "MultiCartPole-v0", "--algorithm", "independent", *TINY]


def seats_of(run):
    with RunStore.open(run, write=False) as store:
        return {seat.name: seat.members for seat in store.game.seats}


@pytest.mark.slow
def test_roles_are_those_of_the_command_line_and_of_its_file(tmp_path, capsys):
    expected = {"even": ("agent_0", "agent_2"), "odd": ("agent_1", "agent_3")}
    roles = ["--roles", "even=agent_0,agent_2", "--roles", "odd=agent_1,agent_3"]
    assert main([*CARTS, *roles, "--run-dir", str(tmp_path / "one")]) == 0, capsys.readouterr().err
    assert seats_of(tmp_path / "one") == expected
    file = tmp_path / "one" / "config.yaml"
    assert read_config(file)["roles"] == {role: list(members) for role, members in expected.items()}
    assert main(["league", "train", "--config", str(file), "--run-dir", str(tmp_path / "two")]) == 0
    assert seats_of(tmp_path / "two") == expected


@pytest.mark.slow
def test_role_with_several_seats_has_one_population(tmp_path, capsys):
    roles = ["--roles", "even=agent_0/agent_2", "--roles", "odd=agent_1,agent_3"]
    assert main([*CARTS, *roles, "--run-dir", str(tmp_path / "one")]) == 0, capsys.readouterr().err
    expected = {"even_0": ("agent_0",), "even_1": ("agent_2",), "odd": ("agent_1", "agent_3")}
    assert seats_of(tmp_path / "one") == expected
    with RunStore.open(tmp_path / "one", write=False) as store:
        assert [seat.role for seat in store.game.seats] == ["even", "even", "odd"]
        assert {name.rpartition(":")[0] for name in (entry.name for entry in store.populations["even"].entries)} == {
            "",  # the random policy
            "main_even_0",
        }
    assert (
        main(["league", "train", "--config", str(tmp_path / "one" / "config.yaml"), "--run-dir", str(tmp_path / "two")])
        == 0
    )
    assert seats_of(tmp_path / "two") == expected


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ([], "MultiCartPole-v0: expected an environment with roles, got none"),
        (["all"], "--roles all: expected NAME=VALUE"),
        (["even=3"], "--roles even=3: expected groups or agents, such as even=agent_0,agent_2"),
        (["even=agent_0,agent_9"], "role even: expected groups or agents among"),
        (["even=agent_0"], "expected every agent in exactly one role"),
        (['even=["agent_0", ["agent_2"]]'], "role even: expected groups or agents of one seat, or a list of them for"),
        (["even=agent_0/agent_2", "even_1=agent_1,agent_3"], "expected different names of seats"),
        (["even=agent_0,agent_2", "odd=agent_1,agent_3", "none=[]"], "role none: expected groups or agents, got none"),
        (['even=[[["agent_0"]]]'], "role even: expected groups or agents of one seat, or a list of them for"),
    ],
)
def test_wrong_roles_are_one_line(tmp_path, capsys, roles, message):
    words = [word for role in roles for word in ("--roles", role)]
    assert main([*CARTS, *words, "--run-dir", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_sides_of_smax_are_the_roles_of_its_leagues(tmp_path, capsys):
    sides = ["--env-arg", "scenario=3m", "--env-arg", "enemy=self_play", "--env-arg", "max_steps=8"]
    argv = ["league", "train", "SMAX-v0", *sides, "--algorithm", "alphastar", *TINY, "--run-dir", str(tmp_path)]
    assert main(argv) == 0, capsys.readouterr().err
    assert seats_of(tmp_path) == {side: (side,) for side in ("ally", "enemy")}
