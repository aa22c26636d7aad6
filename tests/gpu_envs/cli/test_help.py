"""The help of each command states its purpose and shows a valid example."""

import io
import itertools
import re
import shlex
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import tyro

from gpu_envs.cli import dispatch
from gpu_envs.errors import ConfigError

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS = {
    name: EntryPoint(name, value, dispatch.GROUP)
    for name, value in PROJECT["entry-points"]["gpu_envs.commands"].items()
}
FAMILIES = ("league",)
"""Commands that have subcommands."""


def members(family):
    """Return the subcommands that the error about an unknown one lists."""
    with pytest.raises(ConfigError, match="expected one of ") as caught:
        COMMANDS[family].load()(["xyz"])
    return str(caught.value).rpartition("expected one of ")[2].split(", ")


EVERY = [*COMMANDS, *(f"{family} {name}" for family in FAMILIES for name in members(family))]


@pytest.fixture(autouse=True)
def _use_checkout(monkeypatch):
    """Use the commands of this checkout instead of the installed ones."""
    monkeypatch.setattr(dispatch, "entry_points", lambda group: list(COMMANDS.values()))


def help_text(capsys, *argv, option="--help"):
    """Return the output of --help."""
    try:
        code = dispatch.main([*argv, option])
    except SystemExit as stop:  # of tyro
        code = stop.code or 0
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return re.sub(r"\x1b\[[0-9;]*m", "", out)


def test_help_lists_all_commands_with_their_purpose(capsys):
    lines = help_text(capsys).splitlines()
    rows = dict(re.fullmatch(r"  (\S+) +(\S.*)", line).groups() for line in lines if line.startswith("  "))
    assert rows.keys() == COMMANDS.keys()
    assert rows["league"].startswith("Train populations")
    assert all(re.fullmatch(r"[A-Z][^`]*\.", words) for words in rows.values()), rows


@pytest.mark.parametrize("family", FAMILIES)
def test_help_of_command_group_lists_its_commands(capsys, family):
    assert re.findall(rf"^  gpu-envs {family} (\S+)", help_text(capsys, family), re.MULTILINE) == members(family)


@pytest.mark.parametrize("command", ["", *EVERY])
def test_lines_of_help_end_between_words_at_80_columns(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    text = help_text(capsys, *command.split())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", [command for command in EVERY if command not in (*FAMILIES, "experiment")])
def test_lines_of_help_are_full_and_do_not_end_at_a_hyphen(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    lines, count = help_text(capsys, *command.split(), option="--help-all").splitlines(), 0
    for line, following in itertools.pairwise(lines):
        assert not re.search(r"\w-$", line.rstrip()), line
        column = len(following) - len(following.lstrip())
        if (
            following.strip()
            and column >= 8
            and line[column - 2 : column].isspace()
            and not line[column:][:1].isspace()
        ):
            word = following.split()[0]
            assert len(line.rstrip()) + len(f" {word}") > 78, f"{line}\n{following}"
            count += 1
    assert count > 3, "too few lines were compared"


def test_help_has_the_options_that_are_used_first_and_help_all_has_all(capsys):
    short, long = (help_text(capsys, "train", "CartPole-v1", option=option) for option in ("--help", "--help-all"))
    options = [set(re.findall(r"^  (--[a-z][\w.-]+)", text, re.MULTILINE)) for text in (short, long)]
    assert {"--num-envs", "--env-arg", "--learner.learning-rate"} <= options[0] < options[1]
    assert len(options[0]) == 20
    assert {"--matmul-precision", "--learner.target-kl"} <= options[1] - options[0]
    assert short.endswith("The other options: gpu-envs train --help-all\n")
    assert re.search(r"--num-envs INT[^(]*\(default:\s+\d+\)", short), "the defaults of the preset"


def test_help_of_league_train_has_the_options_that_are_used_first(capsys):
    command = ("league", "train", "--algorithm", "pbt")
    short, long = (help_text(capsys, *command, option=option) for option in ("--help", "--help-all"))
    assert "--iterations" in short
    assert "--rules.size" not in short
    assert "--iterations" in long
    assert "--rules.size" in long
    assert short.endswith("The other options: gpu-envs league train --help-all\n")


def test_help_of_an_environment_lists_its_settings(capsys):
    text = " ".join(help_text(capsys, "train", "SimpleTag-v0").split())
    assert re.search(r"Settings of SimpleTag-v0: .*num_good: .*\(default: 1\)", text)
    assert "num_good: " not in help_text(capsys, "train")


def test_help_names_missing_extra_of_command(capsys, monkeypatch):
    def find_spec(name):
        raise ModuleNotFoundError(f"{name} needs an extra")

    monkeypatch.setattr(dispatch.importlib.util, "find_spec", find_spec)
    assert "  league      league.cli.dispatch needs an extra\n" in help_text(capsys)


class Parsed(BaseException):
    """The arguments were parsed; the command must not run."""


@pytest.mark.parametrize("command", EVERY)
def test_help_has_purpose_and_valid_example(capsys, monkeypatch, command):
    text = help_text(capsys, *command.split())
    assert re.match(r"usage: gpu-envs ", text)
    parts = text.split("\n\n")
    assert re.match(r"[A-Z].*\.", parts[1], re.DOTALL), "no line states the purpose"
    (example,) = (part for part in parts if part.lower().startswith("example: "))
    words = shlex.split(example.partition(": ")[2].replace("\\\n", ""))
    assert " ".join(words[: 1 + len(command.split())]).startswith(f"gpu-envs {command}")
    stop_after(monkeypatch, tyro, "cli")
    with pytest.raises(Parsed):
        dispatch.main(words[1:])


def stop_after(monkeypatch, module, name):
    """Raise `Parsed` after a parser has parsed."""
    real = getattr(module, name)

    def parse(*args, **settings):
        real(*args, **settings)
        raise Parsed

    monkeypatch.setattr(module, name, parse)


def test_help_has_boxes_and_colors_where_the_output_has_them(monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, plain = Terminal(), io.StringIO()
    for file in (terminal, plain):
        monkeypatch.setattr("sys.stdout", file)
        with pytest.raises(SystemExit):
            dispatch.main(["list", "--help"])
    assert "╭" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in plain.getvalue()
