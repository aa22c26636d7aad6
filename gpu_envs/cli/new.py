"""The command `gpu-envs new`: the files of a new environment."""

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from gpu_envs.cli.options import parse
from gpu_envs.definition.registry import list_envs
from gpu_envs.errors import ConfigError
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.terminal import shell_command

FOLDER = Path(__file__).with_name("templates")  # a folder for each template
TEMPLATES = ("line", "grid", "cards", "physics")
"""Names of the templates."""
FILES = {
    "rules.py": "rules.py.txt",
    "__init__.py": "__init__.py.txt",
    "test_{name}.py": "test.py.txt",
    "README.md": "README.md.txt",
}
"""File of a template by file of the new folder."""


@dataclass(frozen=True)
class NewOptions:
    """Write the files of a new environment: rules, host file, test, page. Its test passes at once.

    Example: gpu-envs new meet
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Name of the folder and Python module to create, such as my_game."""
    template: Literal["line", "grid", "cards", "physics"] = "line"
    """What it starts from. line: the smallest environment. grid: agents that move on a grid and see a part of it.
    cards: a game of turns with hidden cards and illegal actions. physics: discs, lines and boxes that push each
    other."""
    folder: Path = Path()
    """Folder in which to create it. Default: the working folder."""


def new_command(argv: list[str]) -> int:
    """Write the files of a new environment, with rules and a test."""
    args = parse(NewOptions, "new", argv)
    name, target = args.name, args.folder / args.name
    files = written(name, args.template)
    check_folder(target)
    if target.exists():
        raise ConfigError(f"new {name}: {target} exists already; choose another name or --folder")
    if importlib.util.find_spec(name) is not None or name in sys.stdlib_module_names:
        raise ConfigError(f"new {name}: Python has a module of this name already; choose another name")
    target.mkdir(parents=True)
    for file, text in files.items():
        (target / file).write_text(text, encoding="utf-8")
        print(f"  {target / file}")
    change = f"{shell_command('cd', args.folder)} && " if args.folder != Path() else ""
    train = shell_command("gpu-envs", "train", f"{name}:{_title(name)}-v0")
    print(f"try: {change}python -m pytest {name}\n     {change}{train}")
    return 0


def written(name: str, template: str = "line") -> dict[str, str]:
    """Return the text of each file of a new environment, from a template of ``TEMPLATES``.

    Raises:
        ConfigError: The name cannot name a module, or its environment id is taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"new: expected a name of small letters, digits and _, such as my_game, got {name!r}")
    if f"{_title(name)}-v0" in list_envs():
        raise ConfigError(f"new {name}: the environment id {_title(name)}-v0 is taken; choose another name")
    words = {"name": name, "Name": _title(name)}
    return {
        file.format(name=name): Template((FOLDER / template / source).read_text(encoding="utf-8")).substitute(words)
        for file, source in FILES.items()
    }


def _title(name: str) -> str:
    """Return the name in camel case: my_game -> MyGame."""
    return "".join(part.capitalize() for part in name.split("_"))
