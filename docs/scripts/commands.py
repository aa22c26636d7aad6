"""The help of each command, as a user sees it."""

import contextlib
import io
import os
import tomllib
from importlib.metadata import EntryPoint
from unittest import mock

from docs.scripts.tables import ROOT

GROUP = "gpu_envs.commands"


def commands() -> dict[str, EntryPoint]:
    """Return the commands of gpu-envs from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: EntryPoint(name, target, GROUP) for name, target in project["entry-points"][GROUP].items()}


def help_text(name: str, *words: str) -> str:
    """Return the output of ``gpu-envs NAME WORDS --help-all``, or of ``--help`` of a group of commands."""
    output = io.StringIO()
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        commands()[name].load()([*words, "--help-all"])
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())
