"""Commands that messages and output name are quoted for a shell: `shell_command` makes them."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"(\b(gpu-envs|tensorboard) [a-z-][^;:)]*|--resume) $")
"""End of a text that a value follows as a word of a command."""


def unquoted_commands(source):
    """Return the lines of f-strings with a command that is followed by a value."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "" for part in node.values]
            pairs = itertools.pairwise(texts)
            lines += [node.lineno for text, after in pairs if not after and COMMAND.search(text)]
    return lines


def test_unquoted_commands_are_found():
    assert unquoted_commands('print(f"  gpu-envs train --resume {out}{option}")') == [1]
    assert unquoted_commands('print(f"  tensorboard --logdir {out}")') == [1]
    assert unquoted_commands('f"continue it with --resume {out}, or"') == [1]
    assert not unquoted_commands('f"see gpu-envs {command} --help"')
    assert not unquoted_commands("f'{shell_command(*words)}; gpu-envs list; {count} ids'")


@pytest.mark.parametrize("package", ["gpu_envs", "trainers", "league"])
def test_commands_in_messages_are_quoted(package):
    unquoted = {str(file): unquoted_commands(file.read_text("utf-8")) for file in (ROOT / package).rglob("*.py")}
    assert not {file: lines for file, lines in unquoted.items() if lines}, "use gpu_envs.utils.terminal.shell_command"
