"""``gpu-envs new NAME``: the files of a new environment, which pass their test at once."""

import importlib.util
import re
import sys
from pathlib import Path
from string import Template

from gpu_envs.commands import command_parser
from gpu_envs.errors import ConfigError
from gpu_envs.paths import check_folder
from gpu_envs.registry import list_envs

TEMPLATES = Path(__file__).with_name("templates")  # folder of the files that `new` fills in
FILES = {
    "rules.py": "rules.py.txt",
    "__init__.py": "__init__.py.txt",
    "test_{name}.py": "test.py.txt",
    "README.md": "README.md.txt",
}
"""File of the new folder -> template."""


def new_command(argv: list[str]) -> int:
    """Write the files of a new environment: rules, host file, test and page."""
    args = command_parser("new", "Write the files of a new environment.", "gpu-envs new meet")
    args.add_argument("name", help="folder and module to make, such as my_game")
    args.add_argument("--folder", type=Path, default=Path(), help="where to make it")
    given = args.parse_args(argv)
    name, target = given.name, given.folder / given.name
    files = written(name)
    check_folder(target)
    if target.exists():
        raise ConfigError(f"new {name}: {target} exists already; choose another name or --folder")
    if importlib.util.find_spec(name) is not None or name in sys.stdlib_module_names:
        raise ConfigError(f"new {name}: Python has a module of this name already; choose another")
    target.mkdir(parents=True)
    for file, text in files.items():
        (target / file).write_text(text, encoding="utf-8")
        print(f"  {target / file}")
    where = f"cd {given.folder} && " if given.folder != Path() else ""
    title = f"{name}:{_title(name)}-v0"
    print(f"try: {where}python -m pytest {name}\n     {where}gpu-envs train {title}")
    return 0


def written(name: str) -> dict[str, str]:
    """The files of a new environment and what is in them.

    Raises:
        ConfigError: The name is no good as a module's, or its id is taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"new: expected a name of small letters, digits and _, such as my_game, got {name!r}")
    if f"{_title(name)}-v0" in list_envs():
        raise ConfigError(f"new {name}: there is an environment {_title(name)}-v0 already; choose another name")
    words = {"name": name, "Name": _title(name)}
    return {
        file.format(name=name): Template((TEMPLATES / source).read_text(encoding="utf-8")).substitute(words)
        for file, source in FILES.items()
    }


def _title(name: str) -> str:
    """my_game -> MyGame."""
    return "".join(part.capitalize() for part in name.split("_"))
