"""Every command tells what it is for, and shows an example that it takes."""

import argparse
import re
import shlex
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import tyro

from gpu_envs import cli
from gpu_envs.errors import ConfigError

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS = {
    name: EntryPoint(name, value, cli.GROUP) for name, value in PROJECT["entry-points"]["gpu_envs.commands"].items()
}
FAMILIES = ("cluster", "league")
"""Commands that have commands of their own."""


def members(family):
    """The commands that a family's refusal of a wrong one lists."""
    with pytest.raises(ConfigError, match="there are ") as caught:
        COMMANDS[family].load()(["nonsense"])
    return str(caught.value).rpartition("there are ")[2].split(", ")


EVERY = [*COMMANDS, *(f"{family} {name}" for family in FAMILIES for name in members(family))]


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """The commands of this checkout, whatever is installed."""
    monkeypatch.setattr(cli, "entry_points", lambda group: list(COMMANDS.values()))


def told(capsys, *argv):
    """What --help prints."""
    try:
        code = cli.main([*argv, "--help"])
    except SystemExit as stop:  # argparse's and tyro's way
        code = stop.code or 0
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return re.sub(r"\x1b\[[0-9;]*m", "", out)


def test_all_commands_and_what_they_are_for(capsys):
    lines = told(capsys).splitlines()
    rows = dict(re.fullmatch(r"  (\S+) +(\S.*)", line).groups() for line in lines if line.startswith("  "))
    assert rows.keys() == COMMANDS.keys()
    assert rows["league"].startswith("Grow populations")
    assert all(re.fullmatch(r"[A-Z][^`]*\.", words) for words in rows.values()), rows


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_lists_its_members(capsys, family):
    assert re.findall(rf"^  gpu-envs {family} (\S+)", told(capsys, family), re.MULTILINE) == members(family)


def test_a_command_whose_extra_is_missing_says_so(capsys, monkeypatch):
    def find_spec(name):
        raise ModuleNotFoundError(f"{name} needs an extra")

    monkeypatch.setattr(cli.importlib.util, "find_spec", find_spec)
    assert "  league   league.commands needs an extra\n" in told(capsys)


class Parsed(Exception):
    """The arguments were taken; nothing shall run."""


@pytest.mark.parametrize("command", EVERY)
def test_help(capsys, monkeypatch, command):
    text = told(capsys, *command.split())
    assert re.match(r"usage: gpu-envs ", text)
    parts = text.split("\n\n")
    assert re.match(r"[A-Z].*\.", parts[1]), "no line says what it is for"
    (example,) = (part for part in parts if part.lower().startswith("example: "))
    words = shlex.split(example.partition(": ")[2])
    assert " ".join(words[: 1 + len(command.split())]).startswith(f"gpu-envs {command}")
    stop_after(monkeypatch, argparse.ArgumentParser, "parse_args")
    stop_after(monkeypatch, tyro, "cli")
    with pytest.raises(Parsed):
        cli.main(words[1:])


def stop_after(monkeypatch, where, name):
    """Let a parser parse, and no more happen."""
    real = getattr(where, name)

    def parse(*args, **settings):
        real(*args, **settings)
        raise Parsed

    monkeypatch.setattr(where, name, parse)
