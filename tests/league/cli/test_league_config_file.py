"""`--config` and `--print-config` of `gpu-envs league train`."""

import sys

import pytest
import torch
from psro_runs import contents

from gpu_envs.cli import main
from league.storage.run_store import RunStore
from trainers.storage.config_yaml import CONFIG_FILE, read_config

OWN_MODULE = "own_builder"
SMALL = """
env_id: RockPaperScissors-v0
env: {num_repetitions: 1}
device: cpu
iterations: 2
seed: 3
episodes_per_matchup: 10
train_overrides:
  num_envs: 8
  learner: {rollout_length: 4, hidden_sizes: [8], learning_rate: 1e-2, num_epochs: 1, num_minibatches: 1}
"""
SELF_PLAY = f"{SMALL}algorithm: self_play\nsteps: 64\nrules: {{opponents: uniform, freeze_every: 50}}\n"
PSRO = f"{SMALL}  total_steps: 64\nmeta_solver: prd\nmeta_solver_kwargs: {{gamma: 1e-9, iterations: 100}}\n"


@pytest.fixture(autouse=True)
def _threads():
    num_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)


def run(capsys, *argv):
    code = main(["league", *map(str, argv)])
    output = capsys.readouterr()
    return code, output.out, output.err


def weights(path):
    """Return the bytes of all policies of a run."""
    return {file.name: file.read_bytes() for file in (path / "policies").glob("*.safetensors")}


@pytest.mark.variations
@pytest.mark.parametrize("text", [SELF_PLAY, PSRO], ids=["self_play", "psro"])
def test_config_of_a_league_repeats_it_bit_for_bit(text, tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(text)
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    code, out, err = run(capsys, "train", "--config", tmp_path / "a.yaml", "--run-dir", first)
    assert code == 0, err
    written = first / CONFIG_FILE
    assert f"  {written}\n" in out
    assert f"gpu-envs league train --config {written}\n" in written.read_text()
    assert run(capsys, "train", "--config", written, "--run-dir", second)[0] == 0
    assert len(weights(first)) >= 2
    assert weights(first) == weights(second)
    assert contents(first) == contents(second)
    assert run(capsys, "train", "--config", written, "--run-dir", other, "--seed", 4)[0] == 0
    assert weights(first) != weights(other)


@pytest.mark.variations
@pytest.mark.parametrize("text", [PSRO, SELF_PLAY], ids=["psro", "self_play"])
def test_printed_settings_of_a_league_train_equal_policies(text, tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(text)
    code, out, _ = run(capsys, "train", "--config", tmp_path / "a.yaml", "--print-config")
    assert code == 0
    (tmp_path / "b.yaml").write_text(out)
    assert run(capsys, "train", "--config", tmp_path / "b.yaml", "--print-config")[1] == out
    config = read_config(tmp_path / "b.yaml")
    assert config["train_overrides"]["learner"]["learning_rate"] == 0.01
    assert config["train_overrides"]["learner"]["gamma"] > 0  # of the preset
    assert ("total_steps" in config["train_overrides"]) == (text == PSRO)
    for name in "ab":
        assert run(capsys, "train", "--config", tmp_path / f"{name}.yaml", "--run-dir", tmp_path / name)[0] == 0
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_options_of_the_command_line_override_those_of_the_file(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(SELF_PLAY)
    words = ["--iterations", 5, "--train-overrides", "num_envs=4", "--rules.opponents", "latest"]
    out = run(capsys, "train", "--config", tmp_path / "a.yaml", *words, "--print-config")[1]
    (tmp_path / "b.yaml").write_text(out)
    config = read_config(tmp_path / "b.yaml")
    assert (config["iterations"], config["rules"]["opponents"], config["rules"]["freeze_every"]) == (5, "latest", 50)
    assert config["train_overrides"]["num_envs"] == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iteration: 3", "no setting named 'iteration'; did you mean iterations?"),
        ("algorithm: alphastar\nrules: {main: {cont: 2}}", "'rules.main.cont'; did you mean rules.main.count?"),
        ("algorithm: alphastar\nrules: {main: 2}", "rules.main: expected a mapping of names to values, got 2"),
        ("train_overrides: [num_envs]", "train_overrides: expected a mapping of names to values"),
        ("algorithm: alphasta", "no league algorithm named 'alphasta'; did you mean alphastar?"),
        ("seed: soon", "league train: --seed: expected an int, got 'soon'"),
        ("ray_address: auto", "ray_address: expected on the command line, not in a file"),
        ("env_id: own_builder:Meet-v0", "env_id: 'own_builder:Meet-v0' is in the module 'own_builder', and a file"),
        ("algorithm: own_builder:Plain", "algorithm: 'own_builder:Plain' is in the module 'own_builder', and a file"),
        ("train_overrides: {algorithm: 'own_builder:L'}", "train_overrides.algorithm: 'own_builder:L' is in the"),
        ("joint_overrides: {algorithm: 'own_builder:L'}", "joint_overrides.algorithm: 'own_builder:L' is in the"),
    ],
)
def test_wrong_file_is_refused_in_one_line(text, words, own_module, tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(text)
    code, out, err = run(capsys, "train", "KuhnPoker-v0", "--config", tmp_path / "a.yaml")
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert own_module not in sys.modules


def test_own_builder_trains_and_resumes(own_module, tmp_path, capsys):
    allow = ["--allow-import", "own_builder"]
    text = SELF_PLAY.replace("self_play", "own_builder:Freezing").partition("rules:")[0]
    (tmp_path / "a.yaml").write_text(f"{text}rules: {{every: 2}}\n")
    code, out, err = run(capsys, "train", "--config", tmp_path / "a.yaml", "--run-dir", tmp_path / "run", *allow)
    assert code == 0, err
    assert f"gpu-envs league report {tmp_path / 'run'} --allow-import own_builder\n" in out
    with RunStore.open(tmp_path / "run", write=False) as store:
        assert store.config["rules"] == {"every": 2}
        assert len(store.populations["player"]) == 2  # the random policy, and a copy after iteration 2
    sys.modules.pop("own_builder")
    resume = ["resume", tmp_path / "run", "--iterations", 4]
    code, _, err = run(capsys, *resume)
    assert code == 2
    assert "add --allow-import own_builder if you trust it" in err
    assert run(capsys, *resume, *allow)[0] == 0
    with RunStore.open(tmp_path / "run", write=False) as store:
        assert len(store.populations["player"]) == 3
    assert read_config(tmp_path / "run" / CONFIG_FILE)["iterations"] == 4


def test_builder_without_settings_and_other_classes(own_module, tmp_path, capsys):
    argv = ["train", "RockPaperScissors-v0", "--print-config", "--algorithm"]
    code, out, err = run(capsys, *argv, "own_builder:Plain")
    assert code == 0, err
    assert "rules" not in out
    code, _, err = run(capsys, *argv, "own_builder:FreezingConfig")
    assert code == 2
    assert "expected a subclass of LeagueBuilder named FreezingConfig in own_builder, got <class" in err
    sys.modules["own_builder"].PlainConfig = type("PlainConfig", (), {})
    code, _, err = run(capsys, *argv, "own_builder:Plain")
    assert code == 2
    assert "expected a dataclass own_builder:PlainConfig, got <class" in err


def test_failed_start_leaves_no_folder(tmp_path, capsys):
    text = "env_id: SimpleSpread-v0\nalgorithm: self_play\ndevice: cpu\n"
    (tmp_path / "a.yaml").write_text(text)
    assert run(capsys, "train", "--config", tmp_path / "a.yaml", "--run-dir", tmp_path / "run")[0] == 2
    assert not (tmp_path / "run").exists()
