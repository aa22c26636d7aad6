"""`gpu-envs league export`: checkpoints of a league's policies, used by the commands for trained policies."""

import pytest
import torch
from small_league import RPS, STEPS, TINY

from gpu_envs.cli import main
from league.league_algorithms import find
from league.leagues.alphastar import AlphaStarLeagueBuilder, alphastar_preset
from league.leagues.league import League
from league.storage.open_run import open_run
from league.storage.run_store import RunStore
from trainers.config.train_config import TrainConfig
from trainers.storage import checkpoint


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    """Return a run of AlphaStar's league, with exploiters."""
    path = tmp_path_factory.mktemp("runs") / "league"
    rules = alphastar_preset(min_steps=STEPS)
    config = find("alphastar").config_type(
        iterations=2, steps=STEPS, episodes_per_matchup=4, train_overrides=TINY, rules=rules
    )
    with open_run(path, RPS, "alphastar", config) as store:
        League(store, config, AlphaStarLeagueBuilder(rules)).run()
    return path


def test_latest_main_players_become_a_checkpoint(league, tmp_path, capsys):
    assert main(["league", "export", str(league), "--output", str(tmp_path / "out")]) == 0
    with RunStore.open(league, write=False) as store:
        players = store.populations["player"]
        entry = [item for item in players.entries if item.meta.get("kind") == "main"][-1]
        assert players.entries[-1].meta["kind"] != "main"  # otherwise the test below says nothing
        expected = players.policy(entry.index)
    assert f"{entry.name} as player_0" in capsys.readouterr().out
    saved = checkpoint.load(tmp_path / "out")
    assert saved.policies == ("player_0", "player_1")
    assert (saved.steps, saved.iteration) == (entry.meta["steps"], entry.iteration)
    for name in saved.policies:
        obs = torch.zeros(3, 1, expected.obs_width)
        policy = saved.policy(name)
        assert torch.equal(policy.net.actor(obs), expected.net.actor(obs))
    config = TrainConfig.of(saved)
    assert (config.env_id, config.env, config.num_envs) == (RPS.env_id, dict(RPS.env), TINY["num_envs"])


def test_checkpoint_can_be_evaluated(league, tmp_path, capsys):
    assert main(["league", "export", str(league), "--output", str(tmp_path / "out")]) == 0
    assert main(["eval", str(tmp_path / "out"), "--episodes", "4"]) == 0
    assert "player_0" in capsys.readouterr().out


def test_all_writes_every_copy_and_a_name_chooses_one(league, tmp_path, capsys):
    assert main(["league", "export", str(league), "--output", str(tmp_path / "all"), "--all"]) == 0
    steps = [checkpoint.load(path).steps for path in checkpoint.every(tmp_path / "all" / checkpoint.FOLDER)]
    assert steps == sorted(steps)
    assert len(steps) == int(capsys.readouterr().out.splitlines()[-1].split()[0]) > 1
    words = ["--policy", "player_0=main_0:1", "--output", str(tmp_path / "one")]
    assert main(["league", "export", str(league), *words]) == 0
    assert "main_0:1 as player_0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--policy", "dealer=main_0:1"], "--policy: no seat 'dealer' in RockPaperScissors-v0; there are player_0"),
        (["--policy", "player_0=main_9"], "player: expected the name of one of"),
        (["--policy", "player_0=main_0:1", "--all"], "--policy: has no effect with --all"),
        (["--policy", "player_0=random"], "random: expected a trained network, got a policy of kind random"),
    ],
)
def test_wrong_choices_are_refused(league, tmp_path, words, line, capsys):
    assert main(["league", "export", str(league), "--output", str(tmp_path / "out"), *words]) == 2
    assert line in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_other_files_are_not_overwritten(league, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["league", "export", str(league), "--output", str(tmp_path)]) == 2
    assert "expected a folder that does not exist or is empty" in capsys.readouterr().err
