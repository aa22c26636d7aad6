"""Settings as text."""

import pytest

from gpu_envs.utils.settings import exact_int, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("-3", -3),
        ("1e6", 1_000_000),
        ("2.5E3", 2_500),
        ("100.0", 100),
        ("1_000_000", 1_000_000),
        ("9007199254740993e0", 2**53 + 1),  # a float would be rounded
        ("1e-3", 1e-3),
        ("1.5", 1.5),
        ("[1e2, 0.5]", (100, 0.5)),
        ("True", True),
        ("null", None),
        ("a_1", "a_1"),
        ("1_000_", "1_000_"),
    ],
)
def test_text_denotes_json_or_a_word_and_whole_numbers_are_ints(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


@pytest.mark.parametrize("text", ["1.5", "1e-3", "nan", "inf", "1__0", "1e999999999", "9" * 5_000, "one", ""])
def test_text_that_is_no_exact_int_is_refused_as_by_int(text):
    with pytest.raises(ValueError, match=r"invalid literal for int\(\)|Exceeds the limit"):
        exact_int(text)
