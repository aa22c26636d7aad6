"""Write the generated parts of the pages: tables between markers. Pictures are made by ``docs/pictures.py``.

    python docs/generate.py            write what has changed
    python docs/generate.py --check    write nothing; name what is stale and exit with 1

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; the functions of ``PARTS`` make them.
Tables come from the code itself: settings and their docstrings, spaces, constants of the rules, errors, options.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs import commands, tables
from docs.speeds import speeds
from docs.tables import PAGES, ROOT, configured, field_words, names, plain, table
from gpu_envs import core, factory

MARKED = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def environments(folder: str) -> str:
    """All environments in a table; their pages are in a folder, seen from the page of the table."""
    rows = []
    for place, id in sorted(names().items()):
        d = configured(place, {})[1]
        who = ", ".join(f"{len(members)} {group}" for group, members in d.groups.items())
        first = (PAGES / f"{place}.md").read_text().split("\n\n")[1].replace("\n", " ")
        rows.append((f"[{id}]({folder}/{place}.md)", who, tables.kinds_of(d.action_spaces), first))
    return table(("id", "agents by default", "action", "what it is"), rows)


def gallery(*places: str) -> str:
    """Pictures of environments, four in a row, for a page in docs/; of one by its place, or of all in a room."""
    chosen = [(place, id) for place, id in sorted(names().items()) if {place, place.partition("/")[0]} & {*places}]
    cells = []
    for place, id in chosen:
        cells.append(f"[![{id}](envs/{place}.gif)](envs/{place}.md)<br>[{id}](envs/{place}.md)")
    rows = [cells[start : start + 4] for start in range(0, len(cells), 4)]
    width = len(rows[0])
    return table([""] * width, [row + [""] * (width - len(row)) for row in rows])


def runner() -> str:
    """The settings that every environment has, from the signature of make and the docstring of Core."""
    text = inspect.getdoc(core.Core).split("Args:\n")[1]  # type: ignore[union-attr]
    doc = {
        key: " ".join(value.split()) for key, value in re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", text, re.MULTILINE)
    }
    rows = []
    for key, parameter in inspect.signature(factory.make_core).parameters.items():
        if parameter.default is not inspect.Parameter.empty and key in doc:
            rows.append((f"`{key}`", f"`{parameter.default!r}`", doc[key]))
    return table(("name", "default", "meaning"), rows)


def errors() -> str:
    """Every deliberate error."""
    module = importlib.import_module("gpu_envs.errors")
    rows = []
    for key, kind in vars(module).items():
        if isinstance(kind, type):
            bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
            rows.append((f"`{key}`", bases, plain(inspect.getdoc(kind).split("\n")[0])))  # type: ignore[union-attr]
    return table(("error", "is a", "when"), rows)


def options(which: str) -> str:
    """Options of training: "train", "eval", "export", "clone", or the name of an algorithm."""
    from trainers import algorithms
    from trainers.cloning import CloneArgs
    from trainers.commands import EvalArgs, ExportArgs, TrainArgs

    commands = {"train": TrainArgs, "eval": EvalArgs, "export": ExportArgs, "clone": CloneArgs}
    kind = commands[which] if which in commands else algorithms.find(which).config_type
    prefix = "--" if which in commands else "--learner."
    text: dict[str, tuple[str, str]] = {}
    for each in reversed(kind.__mro__[:-1]):
        text |= field_words(inspect.getsource(each), each.__name__)
    rows = []
    for field in dataclasses.fields(kind):
        annotation, doc = text[field.name]
        if not annotation.startswith("Positional") and field.name != "learner":
            default = "" if field.default in (None, ()) else f"`{_option(field.default)}`"
            rows.append((f"`{prefix}{field.name.replace('_', '-')}`", default, doc))
    return table(("option", "default", "meaning"), rows)


def _option(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def learners() -> str:
    """Every algorithm, where it is and what it does."""
    from trainers.algorithms import ALGORITHMS

    rows = [(f"`{name}`", f"`trainers/{each.module}.py`", each.summary) for name, each in ALGORITHMS.items()]
    return table(("algorithm", "file", "what it is"), rows)


def presets() -> str:
    """What a preset changes, by environment and device."""
    from trainers import algorithms
    from trainers.presets import PRESETS

    rows = []
    for (id, device, algorithm), given in PRESETS.items():
        parts = [f"{key}={value}" for key, value in given.get("env", {}).items()]
        parts += [f"--{key.replace('_', '-')} {value}" for key, value in given.items() if key not in ("env", "learner")]
        usual = algorithms.find(algorithm).settings()
        learner = given.get("learner", {})
        parts += [f"--learner.{k.replace('_', '-')} {_option(v)}" for k, v in learner.items() if v != getattr(usual, k)]
        rows.append((id, device, algorithm, ", ".join(f"`{part}`" for part in parts)))
    return table(("environment", "device", "algorithm", "what differs from the defaults"), rows)


OF_PAGE = (
    tables.summary,
    tables.actions,
    tables.observations,
    tables.rewards,
    tables.settings,
    tables.constants,
    tables.state,
)
"""Parts of an environment's page; they get its name."""


def template(file: str) -> str:
    """A file that ``gpu-envs new meet`` writes, as a block of code."""
    from gpu_envs.new import written

    return f"```python\n# file: meet/{file}\n{written('meet')[file]}```"


def script(file: str, *names: str) -> str:
    """Parts of a script in examples/ as a cell of a notebook: "imports", and what its top level defines, by name."""
    text = (ROOT / "examples" / f"{file}.py").read_text(encoding="utf-8")
    lines, parts, start = text.splitlines(), dict[str, str](), len(text)
    for node in ast.parse(text).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        code = "\n".join(lines[first - 1 : node.end_lineno])
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = min(start, node.lineno)
            parts["imports"] = "\n".join(lines[start - 1 : node.end_lineno])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) else (node.target,)
            parts[ast.unparse(target)] = code
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            parts[node.name] = code
    chosen = [parts[name] for name in names]
    code = "".join(("\n\n\n" if part.startswith(("def", "class", "@")) else "\n\n") + part for part in chosen)
    return f"```{{code-cell}} ipython3\n{code.lstrip()}\n```"


OF_OTHERS = (environments, gallery, runner, errors, learners, presets, options, template, script, commands.help, speeds)
"""Parts of other pages; they get the words behind their name in the marker."""
PARTS: dict[str, Callable[..., str]] = {part.__name__: part for part in (*OF_PAGE, *OF_OTHERS)}


def filled(path: Path, place: str = "") -> str:
    """A page with its generated parts made anew; ``place`` says whose page it is, if it lies elsewhere.

    Raises:
        KeyError: A marker names a part that does not exist.
    """

    def one(match: re.Match) -> str:
        part, *arguments = match[2].split()
        own = place or str(path.relative_to(PAGES).with_suffix("")) if PARTS[part] in OF_PAGE else ""
        arguments = [own] if own else arguments
        return f"{match[1]}{PARTS[part](*arguments)}\n{match[3]}"

    return MARKED.sub(one, path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- files


def pages() -> list[Path]:
    """Every page that may hold generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main(argv: list[str]) -> int:
    """Write, or check; see the top of this file."""
    check, stale = "--check" in argv, []
    for path in pages():
        text = filled(path)
        if text != path.read_text(encoding="utf-8"):
            stale.append(path)
            if not check:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
    if check and stale:
        print("run: python docs/generate.py")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
