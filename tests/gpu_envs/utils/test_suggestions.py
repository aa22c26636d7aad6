"""Suggestions of names in error messages."""

import dataclasses
from functools import partial
from pathlib import Path

import gymnasium
import pytest

import gpu_envs
from gpu_envs.cli import dispatch
from gpu_envs.definition import registry
from gpu_envs.errors import ConfigError, GpuEnvsError, UnexpectedArgumentError
from gpu_envs.utils.suggestions import similar_names
from trainers.cli.train import train_command

CHANGELOG = Path(__file__).parents[3] / "CHANGELOG.md"

SETTINGS = ("num_envs", "N", "illegal_actions", "good_max_speed", "reset_mask", "seed")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("n", ["N"]),
        ("Num_Env", ["num_envs"]),
        ("speed", ["good_max_speed"]),  # a word of the name
        ("mask", ["reset_mask"]),
        ("random_seed", ["seed"]),
        ("sead", ["seed"]),
        ("local_ratio", []),  # has many letters of illegal_actions
        ("x", []),
        ("", []),
    ],
)
def test_similar_names_share_words_or_most_letters(name, expected):
    assert similar_names(name, SETTINGS) == expected


@pytest.mark.parametrize(
    ("env_id", "settings", "words"),
    [
        ("SimpleLine-v0", {"num_envs": 4, "num_agents": 3}, "'num_agents'; expected one of max_cycles,"),
        ("SimpleLine-v0", {"local_ratio": 0.5}, "'local_ratio'; expected one of max_cycles,"),
        ("SimpleFormation-v0", {"n": 3}, r"'n'; did you mean N\?"),
        ("SimpleFormation-v0", {"N": 3, "n": 3}, "'n'; expected one of max_cycles,"),
        ("SimpleTag-v0", {"num_good": 2, "num_goods": 2}, r"'num_goods'; (?!.*num_good\b)"),
    ],
)
def test_names_that_are_given_are_not_suggested(env_id, settings, words):
    with pytest.raises(ConfigError, match=words):
        gpu_envs.make(env_id, **settings)


@pytest.mark.parametrize(
    ("env_id", "settings", "words"),
    [
        ("Hanabi-v0", {"max_info_tokens": 3}, r"'max_info_tokens'; did you mean max_information_tokens\?"),
        ("Hanabi-v0", {"num_agents": 3}, r"'num_agents'; did you mean players\?"),
        ("Hanabi-v0", {"num_agents": 3, "players": 3}, "'num_agents'; (?!.*players)"),
        ("LevelBasedForaging-v0", {"n_agents": 3}, r"'n_agents'; did you mean players\?"),
        (
            "LevelBasedForaging-v0",
            {"levels": 3},
            "'levels'; levels have the settings min_player_level, .*max_food_level",
        ),
        ("Overcooked-v0", {"num_players": 2}, "'num_players'; a kitchen always has two players"),
        ("RobotWarehouse-v0", {"observation_type": "dict"}, "expected one of 'flattened', .* nested_space"),
    ],
)
def test_names_of_other_implementations_lead_to_the_setting(env_id, settings, words):
    with pytest.raises(ConfigError, match=words):
        gpu_envs.make(env_id, **settings)


def test_foreign_names_lead_to_settings_that_exist():
    count = 0
    for env_id in gpu_envs.list_envs():
        kind, _ = registry.find(env_id).load()
        names = {field.name for field in dataclasses.fields(kind)}
        for foreign, target in getattr(kind, "FOREIGN_NAMES", {}).items():
            count += 1
            assert foreign not in names, (env_id, foreign)
            assert target in names or " " in target, (env_id, foreign)
    assert count >= 10


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(gpu_envs.make, "SimpleTag-v0"), "frameskip"),
        (partial(gpu_envs.parallel_env, "SimpleTag-v0"), "frameskip"),
        (partial(gymnasium.make, "gpu_envs/CartPole-v1"), "frameskip"),
        (partial(gymnasium.make_vec, "gpu_envs/CartPole-v1"), "frameskip"),
    ],
)
def test_unknown_keyword_is_a_type_error_with_pythons_words(make, name):
    """TorchRL's GymEnv tries again without the argument if it finds these words in a TypeError."""
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'") as caught:
        make(**{name: 1})
    assert isinstance(caught.value, UnexpectedArgumentError)
    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (partial(gpu_envs.make, "TicTacToe-v0", illegal="loss"), "'illegal'; did you mean illegal_actions?"),
        (partial(train_command, ["SimpleTag-v0", "--learner.clip", "0.1"]), "did you mean --learner.clip-range?"),
    ],
)
def test_part_of_a_name_is_answered_by_the_whole_one(call, words):
    with pytest.raises(GpuEnvsError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train Leduc", "no environment named 'Leduc'; did you mean LeducPoker-v0?"),
        ("eval zoo:simpletag", "no model in the zoo named 'simpletag'; did you mean zoo:simple-tag-ppo?"),
        ("train run.yaml", "expected an environment, got the file run.yaml; did you mean --config run.yaml?"),
        ("tune CartPole-v1 --learner.lr 1e-3", "did you mean --train-overrides learner.learning_rate=VALUE?"),
        ("tune CartPole-v1 --train-overrides learner.lr=1e-3", "did you mean learner.learning_rate?"),
        ("tune CartPole-v1 --lr 1e-3", "did you mean --train-overrides learner.learning_rate=VALUE?"),
        ("tune CartPole-v1 --schedule asha", "did you mean --scheduler?"),
        ("league train KuhnPoker-v0 --steps 9", "did you mean --train-overrides total_steps=VALUE?"),
        ("league train KuhnPoker-v0 --num-envs 9", "did you mean --train-overrides num_envs=VALUE?"),
        ("league train KuhnPoker-v0 --algorithm alphastar --total-steps 9", "did you mean --steps?"),
    ],
)
def test_option_id_or_model_that_is_meant_is_named(line, words, capsys):
    assert dispatch.main(line.split()) == 2
    assert words in capsys.readouterr().err


def test_unknown_key_of_a_file_is_answered_by_a_similar_one(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("env_id: SimpleTag-v0\nlearner: {final_learning_rate: 0.0}\n")
    with pytest.raises(ConfigError, match=r"did you mean learner.learning_rate_final\?"):
        train_command(["--config", str(path)])
