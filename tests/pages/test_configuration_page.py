"""The files on the page about configuration files are valid, and its table names what a file cannot set."""

import re
from pathlib import Path

import pytest

from gpu_envs.cli import main
from trainers.cli.config_file import TYPED_ONLY

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "configuration.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def command_of(text):
    if "search:" in text:
        return ["tune"]
    return ["league", "train"] if "rules:" in text else ["train"]


@pytest.mark.parametrize("text", FILES, ids=lambda text: command_of(text)[0])
def test_file_on_the_page_is_accepted(text, tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(text)
    assert main([*command_of(text), "--config", str(tmp_path / "a.yaml"), "--device", "cpu", "--print-config"]) == 0
    printed = capsys.readouterr().out
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        if value and "{" not in value and "[" not in value and "(" not in value and "e-" not in value:
            assert f"{name}: {value}\n" in printed, line


def test_page_has_a_file_for_every_command():
    assert sorted(command_of(text)[0] for text in FILES) == ["league", "train", "tune"]


def test_page_names_the_options_that_a_file_cannot_set():
    ending = PAGE.partition("## Files from others")[2]
    assert set(re.findall(r"`--([a-z-]+)`", ending)) == {name.replace("_", "-") for name in TYPED_ONLY}
