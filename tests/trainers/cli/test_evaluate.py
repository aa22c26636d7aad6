"""`gpu-envs eval`: the table, engines, errors in one line."""

import json

import pytest
from small_commands import SMALL, no_curves, run  # noqa: F401

from gpu_envs.cli.new import written
from gpu_envs.definition import registry
from gpu_envs.errors import CheckpointError, ConfigError
from trainers.cli.evaluate import eval_command
from trainers.cli.train import train_command


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
