"""Progress of long work."""

import io
import re
import sys

import pytest

from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.terminal import MARGIN


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self):
        return True


def test_plain_lines_are_the_first_the_last_and_some_between(capsys):
    with ProgressBar(2000, "frames") as progress:
        for done in (10, 20, 2000):
            progress(done, "fine")
    assert capsys.readouterr().out.splitlines() == [
        "          10 / 2,000 frames  fine",
        "       2,000 / 2,000 frames  fine",
    ]
    with ProgressBar(3, "laws", interval=0.0, file=sys.stderr) as progress:
        for done in (1, 2, 3):
            progress(done)
    assert [line.split() for line in capsys.readouterr().err.splitlines()] == [
        [str(done), "/", "3", "laws"] for done in (1, 2, 3)
    ]


def test_terminal_shows_a_progress_bar():
    file = Terminal()
    with ProgressBar(4, "rounds", file=file) as progress:
        progress(1, "[one]")
        progress(9, "[all]")
    output = file.getvalue()
    assert "4/4" in output
    assert "rounds" in output
    assert "[all]" in output  # brackets are no markup


@pytest.mark.parametrize("width", [50, 80, 160])
def test_bar_cuts_its_text_before_the_percentage_the_amount_and_the_remaining_time(width, monkeypatch):
    """No line reaches the last columns, where Ctrl-C would break it and leave a second bar."""
    monkeypatch.setenv("COLUMNS", str(width))
    file = Terminal()
    with ProgressBar(20_000_000, "steps", file=file) as progress:
        progress(1_510_000, "166k steps/s  return adversary 123.45  agent -123.45  bystander 0.25")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= width - MARGIN
    last = [line for line in lines if line.strip()][-1]
    assert re.match(r"  8% ([━╸╺]+ )?1\.51M/20M steps ETA -:--:-- 166k", last)
    assert last.rstrip().endswith(" …" if width < 160 else "0.25"), "a number is cut"


def test_terminal_without_rich_shows_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    file = Terminal()
    with ProgressBar(1, file=file) as progress:
        progress(1)
    assert file.getvalue().split() == ["1", "/", "1", "steps"]


def test_process_without_output_shows_no_progress(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with ProgressBar(2) as progress:
        progress(2)
    assert progress.file is None
