"""Suggestions of names in error messages."""

import pytest

import gpu_envs
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
