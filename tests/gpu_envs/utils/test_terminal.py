"""Text that fits a terminal."""

import io
from pathlib import Path

import pytest

from gpu_envs.utils.terminal import (
    align,
    all_rows,
    fit_table,
    shell_command,
    short_number,
    shorten,
    terminal_width,
    wrap_lines,
)

HEAD = ["iteration", "main_0", "main_1"]
ROWS = [[str(i), f"{i}.00 (0.50)", "-"] for i in range(4)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (1_283.4, "1,280"),
        (-9_996.5, "-10,000"),
        (10_000, "10k"),
        (200_704, "201k"),
        (-166_119.4, "-166k"),
        (999_700, "1M"),
        (1_234_567, "1.23M"),
        (20_000_000, "20M"),
        (3.2e9, "3.2G"),
        (0.00012083, "0.000121"),
        (12.3456, "12.3"),
        (9.5e15, "9.5e+03T"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_have_three_significant_digits(value, text):
    assert short_number(value) == text


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("out/run", "out/run"),
        ("a b", "'a b'"),
        ("$HOME; ls", "'$HOME; ls'"),
        ("it's", "'it'\"'\"'s'"),
        ("-run", "./-run"),
    ],
)
def test_paths_in_commands_are_quoted_for_a_shell(path, word):
    assert shell_command("gpu-envs", "watch", Path(path)) == f"gpu-envs watch {word}"


def test_scores_have_four_significant_digits():
    assert [short_number(value, 4) for value in (-12.3456, 12_345.6, 999_960)] == ["-12.35", "12.35k", "1M"]


def test_long_text_ends_in_an_ellipsis():
    assert shorten("return agent 1", 14) == "return agent 1"
    assert shorten("return agent 1", 8) == "return …"


def test_files_other_than_terminals_have_the_width_of_the_environment_variable(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width(io.StringIO()) is None
    monkeypatch.setenv("COLUMNS", "80")
    assert terminal_width(io.StringIO()) == 80


def test_table_that_is_too_wide_has_a_row_per_column_and_its_last_rows():
    assert fit_table([HEAD, *ROWS], None) == (align([HEAD, *ROWS]), 4)
    assert fit_table([HEAD, *ROWS], 30)[1] == 4
    text, count = fit_table([HEAD, *ROWS], 29)
    assert count == 1
    assert [line.split() for line in text] == [
        ["iteration", "3"],
        [22 * "-"],
        ["main_0", "3.00", "(0.50)"],
        ["main_1", "-"],
    ]


def test_wide_table_without_omissions_is_divided_into_turned_tables():
    head = ["adversary", "agent", "agent return", "episode length"]
    lines = [head, *([f"a{i}", f"b{i}", f"{i}.00 ± 1.00", "25"] for i in range(5))]
    assert all_rows(lines, None) == align(lines, 4)
    text = all_rows(lines, 40)
    assert max(map(len, text)) <= 40
    words = " ".join(text).split()
    assert all(words.count(word) == 1 for i in range(5) for word in (f"a{i}", f"b{i}"))
    first, rule, second = (line.split() for line in text[:3])
    assert (first, set(*rule), second) == (["adversary", "a0", "a1"], {"-"}, ["agent", "b0", "b1"])


def test_text_is_cut_between_words():
    assert shorten("return adversary 23.61", 20) == "return adversary …"
    assert shorten("return adversary 23.61", 18) == "return adversary …"
    assert shorten("unbroken", 5) == "unbr…"


def test_lines_are_wrapped_between_words_below_their_second_column():
    text = "usage: gpu-envs COMMAND\n\n  eval    Evaluate trained policies against others.\n│ a box is " + "left " * 9
    assert wrap_lines(text, 40).split("\n") == [
        "usage: gpu-envs COMMAND",
        "",
        "  eval    Evaluate trained policies",
        "          against others.",
        "│ a box is " + "left " * 9,
    ]
    assert wrap_lines("one two three four five six seven", 20).split("\n") == ["one two three four", "five six seven"]
    command = "Example: gpu-envs train SimpleTag-v0\n--seed 3\n\nnext"
    assert wrap_lines(command, 32).split("\n") == ["Example: gpu-envs train \\", "  SimpleTag-v0 --seed 3", "", "next"]
