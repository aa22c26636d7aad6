"""Suggestions of names in error messages."""

import dataclasses

import pytest

import gpu_envs
from gpu_envs.definition import registry
from gpu_envs.errors import ConfigError
from gpu_envs.utils.suggestions import similar_names

SETTINGS = ("num_envs", "N", "illegal_actions", "good_max_speed", "reset_mask", "seed")


@pytest.mark.parametrize(
    ("name", "found"),
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
def test_similar_names_share_words_or_most_letters(name, found):
    assert similar_names(name, SETTINGS) == found


@pytest.mark.parametrize(
    ("env_id", "settings", "words"),
    [
        ("SimpleLine-v0", {"num_envs": 4, "num_agents": 3}, "'num_agents'; expected one of N,"),
        ("SimpleLine-v0", {"local_ratio": 0.5}, "'local_ratio'; expected one of N,"),
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
    found = 0
    for env_id in gpu_envs.list_envs():
        kind, _ = registry.find(env_id).load()
        names = {field.name for field in dataclasses.fields(kind)}
        for foreign, target in getattr(kind, "FOREIGN_NAMES", {}).items():
            found += 1
            assert foreign not in names, (env_id, foreign)
            assert target in names or " " in target, (env_id, foreign)
    assert found >= 10
