"""`gpu-envs eval`: the table, engines, errors in one line."""

import json
import shutil

import pytest
from small_commands import SMALL, no_curves, run  # noqa: F401

from gpu_envs.cli.new import written
from gpu_envs.definition import registry
from gpu_envs.errors import CheckpointError, ConfigError
from trainers.cli.evaluate import eval_command
from trainers.cli.train import train_command
from trainers.storage import checkpoint, run_folder


def test_eval_prints_the_table(run, capsys, tmp_path):
    assert (
        eval_command([str(run), "--episodes", "4", "--opponents", str(run), "--output", str(tmp_path / "t.json")]) == 0
    )
    text = capsys.readouterr().out
    assert "adversary return" in text
    assert text.split().count("trained") >= 4
    assert len(json.loads((tmp_path / "t.json").read_text())["matchups"]) == 7


@pytest.mark.slow
def test_eval_engines_agree_within_their_intervals(run, tmp_path, capsys):
    matchups = {}
    for engine in ("auto", "torch", "kernel"):
        output = tmp_path / f"{engine}.json"
        assert eval_command([str(run), "--episodes", "60", "--engine", engine, "--output", str(output)]) == 0
        matchups[engine] = json.loads(output.read_text())["matchups"]
    assert matchups["auto"] == matchups["torch"]  # so few episodes are not worth the compilation
    assert matchups["kernel"] != matchups["torch"]
    for matchup, other in zip(matchups["kernel"], matchups["torch"], strict=True):
        assert matchup["policies"] == other["policies"]
        for group, estimate in matchup["returns"].items():
            expected = other["returns"][group]
            assert abs(estimate["mean"] - expected["mean"]) <= 2 * (estimate["half"] + expected["half"]), group


OWN = """

class Gatherer:
    def __init__(self, core, member):
        self.line = 1.0 / core.config.length

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        apart = obs[..., 1] - obs[..., 0]  # the mean of all cells, from the own one
        return torch.where(apart > 0.5 * self.line, 2, torch.where(apart < -0.5 * self.line, 1, 0))

    def initial_hidden_state(self, *shape):
        return None

    def seed(self, seed):
        pass


gpu_envs.register(
    "ScriptedMeet-v0",
    config=Config,
    build=build,
    presets={
        ("cpu", "ppo"): {
            "env": {"length": 5},
            "num_envs": 8,
            "total_steps": 160,
            "eval_episodes": 0,
            "learner": {"rollout_length": 10, "hidden_sizes": [8], "num_epochs": 1},
        }
    },
    scripted=Gatherer,
)
"""


@pytest.mark.usefixtures("no_curves")
def test_own_environment_has_its_preset_and_its_scripted_opponents(tmp_path, monkeypatch, capsys):
    folder, out = tmp_path / "scripted_meet", tmp_path / "run"
    folder.mkdir()
    for file, text in written("scripted_meet").items():
        (folder / file).write_text(text)
    source = folder / "__init__.py"
    source.write_text(source.read_text().partition("gpu_envs.register(")[0] + OWN)
    monkeypatch.syspath_prepend(tmp_path)
    env_id = "scripted_meet:ScriptedMeet-v0"
    try:
        assert train_command([env_id, "--device", "cpu", "--no-video", "--run-dir", str(out)]) == 0
        config = json.loads((out / "config.json").read_text())
        assert (config["env"], config["num_envs"], config["total_steps"]) == ({"length": 5}, 8, 160)
        assert config["learner"]["hidden_sizes"] == [8]
        table = tmp_path / "table.json"
        assert eval_command([str(out), "--opponents", "scripted", "--episodes", "32", "--output", str(table)]) == 0
        assert "other: scripted" in capsys.readouterr().out
        by_policy = {
            tuple(matchup["policies"].values()): matchup for matchup in json.loads(table.read_text())["matchups"]
        }
        random, other = (by_policy[name,]["returns"]["walker"] for name in ("random", "other"))
        assert other["mean"] - other["half"] > random["mean"] + random["half"]
        assert by_policy["other",]["length"]["mean"] < 6  # the agents meet in the middle
    finally:
        registry._withdraw("ScriptedMeet-v0")


def test_eval_errors_are_one_line_before_any_play(run, tmp_path, capsys):
    (tmp_path / "file").touch()
    for error, message, argv in [
        (ConfigError, "--episodes: expected an int >= 2, got 1", ["--episodes", "1"]),
        (ConfigError, r"--seed: expected an int in \[0, 2\*\*63\), got 9{20}", ["--seed", "9" * 20]),
        (ConfigError, f"--output {tmp_path}: expected a file, got a folder", ["--output", str(tmp_path)]),
        (ConfigError, "can be made, got the file .*/file$", ["--output", str(tmp_path / "file" / "x" / "t.json")]),
        (CheckpointError, "env_id: expected TagContinuous-v0, got SimpleTag-v0", ["--env-id", "TagContinuous-v0"]),
    ]:
        with pytest.raises(error, match=message) as caught:
            eval_command([str(run), *argv])
        assert "\n" not in str(caught.value)
    output = capsys.readouterr()
    assert output.out + output.err == ""


def test_policies_of_another_size_are_refused(run):
    with pytest.raises(CheckpointError, match=r"policy-adversary.json: obs_width: expected 16 .* got 20"):
        eval_command([str(run), "--episodes", "4", "--env-arg", "num_good=1"])


@pytest.mark.usefixtures("no_curves")
def test_policies_with_other_actions_are_refused(run, tmp_path):
    """Observations are as wide as before."""
    continuous = ["--env-arg", "continuous_actions=true"]
    message = r"policy-adversary.json: action: expected {0} as in this environment, got {1}"
    kinds = ("{'kind': 'continuous', .*}", "{'kind': 'discrete', 'sizes': .5.}")
    with pytest.raises(CheckpointError, match=message.format(*kinds)):
        eval_command([str(run), "--episodes", "4", *continuous])
    options = [*SMALL, *continuous, "--total-steps", "160", "--eval-episodes", "0", "--learner.init-log-std", "-1"]
    assert train_command([*options, "--run-dir", str(tmp_path / "b")]) == 0
    with pytest.raises(CheckpointError, match="b/checkpoints/.*" + message.format(*reversed(kinds))):
        eval_command([str(run), "--episodes", "4", "--opponents", str(tmp_path / "b")])
    assert eval_command([str(tmp_path / "b"), "--episodes", "4"]) == 0


def seeds_of(run, folder):
    """Return a folder of two seeds: a run, and its state at an earlier checkpoint."""
    for name in ("seed-0", "seed-1"):
        shutil.copytree(run, folder / name)
    shutil.rmtree(checkpoint.every(folder / "seed-1" / "checkpoints")[-1])
    run_folder.write_seeds(folder, 2, {"seed": 0})
    return folder


def test_several_seeds_have_a_row_each_and_a_mean(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # a row per matchup
    file = tmp_path / "table.json"
    assert eval_command([str(seeds_of(run, tmp_path / "seeds")), "--episodes", "4", "--output", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ("seed-0", "seed-1", "mean"):
        rows = [line.split() for line in lines if line.startswith(f"{name} ")]
        assert [row[1:3] for row in rows] == [["trained", "random"], ["random", "trained"], ["trained", "trained"]]
    assert sum(line.split()[:2] == ["random", "random"] for line in lines) == 1, "the same for all seeds"
    assert lines[-3:] == [
        "4 episodes each, mean ± half of the 95 % interval",
        "returns are per team: the sum over the agents of a group",
        'rows "mean": over the 2 runs, not over episodes',
    ]
    answer = json.loads(file.read_text())
    assert answer["runs"].keys() == {"seed-0", "seed-1"}
    assert answer["means"][-1]["policies"] == {"adversary": "trained", "agent": "trained"}
    returns = [runs["matchups"][-1]["returns"]["agent"]["mean"] for runs in answer["runs"].values()]
    mean = answer["means"][-1]["agent return"]
    assert returns[0] != returns[1]
    assert mean["mean"] == pytest.approx(sum(returns) / 2)
    assert mean["half"] == pytest.approx(12.7062 * abs(returns[0] - returns[1]) / 2)  # Student's t, one degree


def test_one_seed_has_no_mean(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # a row per matchup
    folder = seeds_of(run, tmp_path / "seeds")
    shutil.rmtree(folder / "seed-1")
    assert eval_command([str(folder), "--episodes", "4"]) == 0
    text = capsys.readouterr().out
    assert "\nseed-0 " in text
    assert "\nmean " not in text
    assert "nan" not in text
