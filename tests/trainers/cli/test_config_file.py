"""`--config` and `--print-config` of `gpu-envs train` and `tune`: a file is a nested form of the options."""

import dataclasses
import json

import pytest
from checkpoints import assert_equal_checkpoints
from messages import printed, refused
from small_commands import SMALL_FILE

from gpu_envs.cli.options import parse_pairs, split_command_line
from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.cli.options import TrainOptions, parse_train
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig
from trainers.storage.config_yaml import CONFIG_FILE, read_config


@pytest.fixture
def file(tmp_path):
    """Return a file with the settings of a small training."""
    (tmp_path / "small.yaml").write_text(SMALL_FILE)
    return tmp_path / "small.yaml"


def config_of(file, *argv):
    return parse_train(["--config", str(file), *argv])[0]


def test_values_of_a_file_are_parsed_by_the_types_of_the_options(file):
    config, options, _ = parse_train(["--config", str(file)])
    assert (config.env_id, config.num_envs, config.device, options.video) == ("SimpleTag-v0", 16, "cpu", False)
    assert (config.env["num_good"], config.policies) == (2, {"adversary": "hunters"})
    learner = config.learner
    assert (learner.hidden_sizes, learner.learning_rate, learner.normalize_obs) == ((16, 8), 0.001, False)
    assert learner.clip_range_vf is None


def test_ranges_of_domain_randomization_come_from_options_and_files(tmp_path, capsys):
    ranges = {"good_max_speed": (1.0, 1.6), "tag_reward": (5.0, 10.0)}
    words = [f"domain_randomization.{name}=[{low}, {high}]" for name, (low, high) in ranges.items()]
    assert parse_pairs(words) == {"domain_randomization": ranges}
    options = ["SimpleTag-v0", "--device", "cpu", *(word for pair in words for word in ("--env-arg", pair))]
    (tmp_path / "a.yaml").write_text(printed(capsys, "train", *options))
    assert config_of(tmp_path / "a.yaml").env["domain_randomization"] == ranges


def test_quoted_number_is_parsed_by_the_type_of_its_option(tmp_path):
    (tmp_path / "a.yaml").write_text("env_id: CartPole-v1\ndevice: cpu\nseed: '3'\nlearner: {gamma: '9e-1'}\n")
    config = config_of(tmp_path / "a.yaml")
    assert (config.seed, config.learner.gamma) == (3, 0.9)


def test_ints_may_have_an_exponent_or_underscores_in_files_and_on_the_command_line(tmp_path):
    text = "env_id: SimpleTag-v0\ndevice: cpu\ntotal_steps: 1e5\nenv: {num_good: 2e0}\nlearner: {hidden_sizes: [1e1]}\n"
    (tmp_path / "a.yaml").write_text(text)
    config = config_of(tmp_path / "a.yaml")
    assert (config.total_steps, config.learner.hidden_sizes) == (100_000, (10,))
    assert config.env["num_good"] == 2
    words = ["--total-steps", "2.5e6", "--num-envs=1_024", "--seed", "1e3", "--env-arg", "num_obstacles=1e0"]
    config = config_of(tmp_path / "a.yaml", *words, "--learner.hidden-sizes", "1e2", "1_6", "--env-arg", "num_good=3e0")
    assert (config.total_steps, config.num_envs, config.seed) == (2_500_000, 1_024, 1_000)
    assert config.learner.hidden_sizes == (100, 16)
    assert config.env == {"num_good": 3, "num_obstacles": 1}


@pytest.mark.parametrize("value", ["1.5", "1e-3", "1e400", "nan", "2e", "1__0"])
def test_ints_that_are_not_exact_are_refused_in_one_line(file, capsys, value):
    line = refused(capsys, "train", "CartPole-v1", "--total-steps", value)
    assert f"--total-steps: expected an int, got {value!r}" in line


@pytest.mark.parametrize("value", ["1.5", "1e-3", "1e400"])
def test_ints_of_files_that_are_not_exact_are_refused_in_one_line(tmp_path, capsys, value):
    (tmp_path / "a.yaml").write_text(f"env_id: CartPole-v1\ndevice: cpu\ntotal_steps: {value}\n")
    assert "total-steps: expected an int, got" in refused(capsys, "train", "--config", tmp_path / "a.yaml")


def test_options_of_the_command_line_override_those_of_the_file(file):
    words = ["--learner.hidden-sizes", "4", "--seed", "7", "--env-arg", "num_good=1", "--learner.normalize-obs"]
    config = config_of(file, *words)
    assert (config.seed, config.learner.hidden_sizes, config.learner.normalize_obs) == (7, (4,), True)
    assert config.env["num_good"] == 1
    assert config_of(file, "--algorithm", "mappo").algorithm == "mappo"
    assert parse_train(["SimpleSpread-v0", "--config", str(file)])[0].env_id == "SimpleSpread-v0"


def test_algorithm_of_a_file_chooses_the_settings_of_the_learner(tmp_path):
    text = "env_id: CartPole-v1\ndevice: cpu\nalgorithm: dqn\nlearner: {n_step: 3, dueling: true}\n"
    (tmp_path / "a.yaml").write_text(text)
    learner = config_of(tmp_path / "a.yaml").learner
    assert (learner.n_step, learner.dueling) == (3, True)


def test_flag_of_a_learner_does_not_hide_the_option_behind_it():
    words = split_command_line(TrainOptions, ["CartPole-v1", "--learner.no-dueling", "--algorithm", "dqn"])
    assert words.last("algorithm") == "dqn"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("num_env: 3", "no setting named 'num_env'; did you mean num_envs?"),
        ("learner: {lr: 1e-3}", "no setting named 'learner.lr'; did you mean learner.learning_rate?"),
        ("gamma: 0.9", "no setting named 'gamma'; did you mean learner.gamma?"),
        ("env_args: {num_good: 2}", "no setting named 'env_args'; did you mean env?"),
        ("xyzzy: 1", "no setting named 'xyzzy'; expected one of "),
        ("1: 2", "no setting named '1'; expected one of "),
        ("num_envs: many", "train: --num-envs: expected an int, got 'many'"),
        ("num_envs: 0", "train: --num-envs: expected an int >= 1, got 0"),
        ("num_envs: [1, 2]", "num_envs: expected one value, got [1, 2]"),
        ("device: ''", "device: expected one value, got ''"),
        ("cuda_graph: 1", "cuda_graph: expected true or false, got 1"),
        ("learner: ppo", "learner: expected a mapping of names to values, got 'ppo'"),
        ("env: [num_good]", "env: expected a mapping of names to values, got ['num_good']"),
        ("learner: {hidden_sizes: 16}", "learner.hidden_sizes: expected a list such as [64, 64], got 16"),
        ("algorithm: 3", "algorithm: expected text, got 3"),
        ("seed: !x 3", "could not determine a constructor for the tag '!x'"),
        ("- seed", "expected a mapping such as 'seed: 1', got a list"),
        ("allow_import: [os]", "allow_import: expected on the command line, not in a file; give --allow-import there"),
        ("ray_address: auto", "ray_address: expected on the command line, not in a file; give --ray-address there"),
        ("resume: out/x", "resume: expected on the command line, not in a file; give --resume there"),
        ("config: b.yaml", "config: expected on the command line, not in a file; give --config there"),
    ],
)
def test_wrong_file_is_refused_in_one_line(tmp_path, capsys, text, words):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    line = refused(capsys, "train", "SimpleTag-v0", "--device", "cpu", "--config", file)
    assert line.startswith(f"{file}: ")
    assert words in line


def test_wrong_values_of_groups_name_the_setting(tmp_path, capsys):
    for text, words in (
        ("env: {num_goood: 2}", "unexpected keyword argument 'num_goood'; did you mean num_good?"),
        ("env: {num_good: '2'}", "num_good: expected an int"),
        ("learner: {gamma: 2}", "learner.gamma: expected a finite number in [0, 1], got 2.0"),
        ("num_seeds: 2\nvideo: true", "--video: expected a training with one seed, got several"),
    ):
        (tmp_path / "a.yaml").write_text(text)
        argv = ("SimpleTag-v0", "--device", "cpu", "--config", tmp_path / "a.yaml", "--run-dir", tmp_path / "run")
        assert words in refused(capsys, "train", *argv)


def test_error_of_the_command_line_does_not_name_the_file(file, capsys):
    line = refused(capsys, "train", "--config", file, "--seed", "x")
    assert line.startswith("train: --seed")


def test_missing_file_and_resume_with_a_file_are_refused(tmp_path, file, capsys):
    assert "none.yaml: this file is missing" in refused(capsys, "train", "--config", tmp_path / "none.yaml")
    assert refused(capsys, "train", "--config", file, "--resume", tmp_path).startswith("--config: expected a new run")
    (tmp_path / "b.yaml").write_text("seed: 1")
    assert "expected an environment, got none" in refused(capsys, "train", "--config", tmp_path / "b.yaml")


@pytest.mark.parametrize("algorithm", ["ppo", "maddpg", "qmix", "sac"])
def test_printed_settings_are_a_file_with_equal_settings(algorithm, tmp_path, capsys):
    env_id = "TwoStepGame-v0" if algorithm == "qmix" else "SimpleSpread-v0"
    argv = ["train", env_id, "--algorithm", algorithm, "--device", "cpu", "--seed", "5"]
    text = printed(capsys, *argv, "--until-return", "-1e-3")
    (tmp_path / "a.yaml").write_text(text)
    assert printed(capsys, "train", "--config", tmp_path / "a.yaml") == text
    config = read_config(tmp_path / "a.yaml")
    assert {field.name for field in dataclasses.fields(TrainConfig)} < config.keys()
    assert config["learner"].keys() == {f.name for f in dataclasses.fields(algorithm_specs.find(algorithm).config_type)}
    assert (config["until_return"], config["video"], config["seed"]) == (-0.001, False, 5)


@pytest.mark.representative
@pytest.mark.parametrize("env_id", list_envs())
def test_printed_settings_of_every_environment_can_be_read(env_id, tmp_path, capsys):
    text = printed(capsys, "train", env_id, "--device", "cpu")
    (tmp_path / "a.yaml").write_text(text)
    assert printed(capsys, "train", "--config", tmp_path / "a.yaml") == text


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "CartPole-v1", "TicTacToe-v0"])
def test_common_time_limit_is_printed_once_and_can_be_read(env_id, tmp_path, capsys):
    text = printed(capsys, "train", env_id, "--device", "cpu", "--env-arg", "max_episode_steps=4")
    assert text.count("  max_episode_steps: 4\n") == 1
    assert "max_cycles" not in text  # SimpleTag-v0's own name of the limit
    (tmp_path / "a.yaml").write_text(text)
    assert printed(capsys, "train", "--config", tmp_path / "a.yaml") == text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["max_episode_steps=-3"], ["max_episode_steps", "-3"]),
        (["max_episode_steps=4", "max_cycles=3"], ["expected one of max_episode_steps and max_cycles, got both"]),
        (["illegal_actions=other"], ["illegal_actions", "other"]),
        (["max_cycle=3"], ["unexpected keyword argument 'max_cycle'"]),
    ],
)
def test_wrong_settings_are_not_printed(values, words, capsys):
    arguments = [word for value in values for word in ("--env-arg", value)]
    for command in ("train", "league train"):
        line = refused(capsys, *command.split(), "SimpleTag-v0", "--device", "cpu", *arguments, "--print-config")
        assert all(word in line for word in words)


@pytest.mark.slow
def test_config_of_a_run_repeats_it_bit_for_bit(file, tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    assert train_command(["--config", str(file), "--run-dir", str(first), "--seed", "3"]) == 0
    written = first / CONFIG_FILE
    assert f"  {written}\n" in capsys.readouterr().out
    assert f"gpu-envs train --config {written}\n" in written.read_text()
    assert train_command(["--config", str(written), "--run-dir", str(second), "--no-video"]) == 0
    assert json.loads((first / "config.json").read_text()) == json.loads((second / "config.json").read_text())
    assert_equal_checkpoints(first, second)
    other = tmp_path / "other"  # another seed differs
    assert train_command(["--config", str(written), "--run-dir", str(other), "--no-video", "--seed", "4"]) == 0
    with pytest.raises(AssertionError):
        assert_equal_checkpoints(first, other)


@pytest.mark.slow
def test_config_of_several_seeds_repeats_them_bit_for_bit(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(SMALL_FILE.replace("video: false\n", "num_seeds: 2\n"))
    first, second, alone = tmp_path / "first", tmp_path / "second", tmp_path / "alone"
    assert train_command(["--config", str(tmp_path / "a.yaml"), "--run-dir", str(first)]) == 0
    assert train_command(["--config", str(first / CONFIG_FILE), "--run-dir", str(second)]) == 0
    runs = sorted(folder.name for folder in first.iterdir() if (folder / CONFIG_FILE).exists())
    assert len(runs) == 2
    for name in runs:
        assert_equal_checkpoints(first / name, second / name)
    argv = ["--config", str(first / runs[1] / CONFIG_FILE), "--run-dir", str(alone), "--no-video"]
    assert train_command(argv) == 0
    assert_equal_checkpoints(first / runs[1], alone)


def test_settings_of_a_search_are_a_file_with_equal_settings(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(
        "env_id: CartPole-v1\ndevice: cpu\nscheduler: none\nnum_samples: 3\n"
        "search: {learner.learning_rate: 'loguniform(1e-4,1e-2)', num_envs: 'grid(4,8)'}\n"
        "train_overrides: {engine: torch, learner: {gamma: 0.9, hidden_sizes: [8]}}\n"
    )
    text = printed(capsys, "tune", "--config", tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text(text)
    assert printed(capsys, "tune", "--config", tmp_path / "b.yaml") == text
    config = read_config(tmp_path / "b.yaml")
    assert config["search"] == {"learner.learning_rate": "loguniform(0.0001,0.01)", "num_envs": "grid(4,8)"}
    assert config["train_overrides"]["learner"]["hidden_sizes"] == [8]
    assert (config["train_overrides"]["engine"], config["num_samples"]) == ("torch", 3)
    for text, words in (
        ("allow_pickle: true", "allow_pickle: expected on the command line"),
        ("schedule: asha", "no setting named 'schedule'; did you mean scheduler?"),
    ):
        (tmp_path / "c.yaml").write_text(text)
        assert words in refused(capsys, "tune", "CartPole-v1", "--config", tmp_path / "c.yaml")


# ---------------------------------------------------------------- classes by module:Name


def test_two_level_settings_come_from_options_and_files(file, tmp_path, capsys):
    words = ("--decide-every", "hunters=4", "--learn-after", "agent=200", "--anneal", "good_accel=[4.0,2,300]")
    text = printed(capsys, "train", "--config", file, *words)
    (tmp_path / "whole.yaml").write_text(text)
    config = read_config(tmp_path / "whole.yaml")
    assert config["decide_every"] == {"hunters": 4}
    assert config["learn_after"] == {"agent": 200}
    assert config["anneal"] == {"good_accel": [4.0, 2, 300]}
    changed = printed(capsys, "train", "--config", tmp_path / "whole.yaml", "--learn-after", "agent=100")
    assert changed == text.replace("agent: 200", "agent: 100")
    with pytest.raises(ConfigError, match="decide_every: agent: expected an int >= 1, got 'often'"):
        train_command(["--config", str(file), "--decide-every", "agent=often"])
