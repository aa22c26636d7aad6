"""Write the generated parts of the pages: tables between markers. Pictures are made by ``docs/scripts/pictures.py``.

    python docs/scripts/generate.py            write what has changed
    python docs/scripts/generate.py --check    write nothing; name what is stale and exit with 1

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

from docs.scripts import readme, tables
from docs.scripts.tables import PAGES, ROOT, configured, field_words, names, plain, table
from gpu_envs.runtime import core, factory
from gpu_envs.utils.settings import has_default

MARKED = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def environments(folder: str) -> str:
    """Return the table of all environments; ``folder`` is the path of their pages from the page of the table."""
    rows = []
    for page, id in sorted(names().items()):
        d = configured(page, {})[1]
        agents = tables.agents_of(d.groups)
        first = (PAGES / f"{page}.md").read_text().split("\n\n")[1].replace("\n", " ")
        rows.append((f"[{id}]({folder}/{page}.md)", agents, tables.kinds_of(d.action_spaces), first))
    return table(("id", "agents by default", "action", "description"), rows)


def gallery(*places: str) -> str:
    """Return animations of environments with their agents, four per row, for a page in docs/; of pages or groups."""
    chosen = [(page, id) for page, id in sorted(names().items()) if {page, page.partition("/")[0]} & {*places}]
    cells = []
    for page, id in chosen:
        agents = tables.agents_of(tables.configured(page, {})[1].groups)
        cells.append(f"[![{id}, animated](envs/{page}.gif)](envs/{page}.md)<br>[{id}](envs/{page}.md)<br>{agents}")
    rows = [cells[start : start + 4] for start in range(0, len(cells), 4)]
    width = len(rows[0])
    return table([""] * width, [row + [""] * (width - len(row)) for row in rows])


def runner() -> str:
    """Return the table of common settings, from the signature of make and the docstring of Core."""
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
    """Return the table of errors."""
    module = importlib.import_module("gpu_envs.errors")
    rows = []
    for key, kind in vars(module).items():
        if isinstance(kind, type):
            bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
            rows.append((f"`{key}`", bases, plain(inspect.getdoc(kind).split("\n")[0])))  # type: ignore[union-attr]
    return table(("error", "is a", "when"), rows)


def options(algorithm: str) -> str:
    """Return the table of the settings of an algorithm, for the directive ``settings``."""
    from trainers.algorithms import registry

    config_type = registry.find(algorithm).config_type
    text: dict[str, tuple[str, str]] = {}
    for base in reversed(config_type.__mro__[:-1]):
        text |= field_words(inspect.getsource(base), base.__name__)
    rows = []
    for field in dataclasses.fields(config_type):
        annotation, meaning = text[field.name]
        if "Suppress" not in annotation:
            default = "" if field.default in (None, ()) else f"`{_option(field.default)}`"
            default = default if has_default(field) else "required"
            rows.append((f"`--learner.{field.name.replace('_', '-')}`", default, meaning))
    return table(("option", "default", "meaning"), rows)


def _option(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def learners() -> str:
    """Return the table of algorithms with their files."""
    from trainers.algorithms.registry import ALGORITHMS

    rows = [
        (f"`{name}`", f"`trainers/algorithms/{algorithm.module.replace('.', '/')}.py`", algorithm.summary)
        for name, algorithm in ALGORITHMS.items()
    ]
    return table(("algorithm", "file", "description"), rows)


def family(module: str) -> str:
    """Return the table of the algorithms of a family, named by its module, with links from docs/algorithms."""
    from trainers.algorithms.registry import ALGORITHMS, IMITATION

    rows = []
    for name, algorithm in {**ALGORITHMS, **IMITATION}.items():
        if module in (algorithm.module.rpartition(".")[2], "sac" if name == "masac" else ""):
            path = f"trainers/algorithms/{algorithm.module.replace('.', '/')}.py"
            rows.append((f"`{name}`", algorithm.summary, f"[{Path(path).name}](../../{path})"))
    assert rows, f"no algorithm in a module {module}"
    return table(("name", "description", "code"), rows)


def presets() -> str:
    """Return the table of presets by environment and device."""
    from trainers.algorithms import registry
    from trainers.config.presets import PRESETS

    rows = []
    for (id, device, algorithm), settings in sorted(PRESETS.items()):
        parts = [f"{key}={value}" for key, value in settings.get("env", {}).items()]
        parts += [
            f"--{key.replace('_', '-')} {value}" for key, value in settings.items() if key not in ("env", "learner")
        ]
        usual = registry.find(algorithm).settings()
        learner = settings.get("learner", {})
        parts += [f"--learner.{k.replace('_', '-')} {_option(v)}" for k, v in learner.items() if v != getattr(usual, k)]
        rows.append((id, device, algorithm, ", ".join(f"`{part}`" for part in parts)))
    return table(("environment", "device", "algorithm", "what differs from the defaults"), rows)


OF_PAGE = (
    tables.summary,
    tables.observations,
    tables.settings,
    tables.constants,
    tables.state,
)
"""Parts of an environment's page; they get its name."""


def template(file: str) -> str:
    """Return a file of ``gpu-envs new meet`` as a code block."""
    from gpu_envs.cli.new import written

    return f"```python\n# file: meet/{file}\n{written('meet')[file]}```"


def script(file: str, *names: str) -> str:
    """Return parts of a script in examples/ as a notebook cell: "imports" or top-level definitions by name."""
    text = (ROOT / "examples" / f"{file}.py").read_text(encoding="utf-8")
    lines, parts, start = text.splitlines(), dict[str, str](), len(text)
    for node in ast.parse(text).body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
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


OF_LIBRARY = (readme.headline, readme.measured, readme.hardware, readme.families, readme.against)
OF_OTHERS = (environments, gallery, runner, errors, learners, family, presets, template, script)
"""Parts of other pages; they get the words behind their name in the marker."""
PARTS: dict[str, Callable[..., str]] = {part.__name__: part for part in (*OF_PAGE, *OF_LIBRARY, *OF_OTHERS)}


def filled(path: Path, page: str = "") -> str:
    """Return a page with its generated parts updated; ``page`` names the environment of a page outside its folder.

    Raises:
        KeyError: A marker names a part that does not exist.
    """

    def part_text(match: re.Match) -> str:
        settings: dict[str, Any] = {}
        part, *arguments = match[2].split()
        if "(" in part:
            part, arguments, settings = tables.read_call(match[2])
        page_argument = [page or str(path.relative_to(PAGES).with_suffix(""))] if PARTS[part] in OF_PAGE else []
        return f"{match[1]}{PARTS[part](*page_argument, *arguments, **settings)}\n{match[3]}"

    return MARKED.sub(part_text, path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- files


def pages() -> list[Path]:
    """Return all pages that may have generated parts."""
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
        print("run: python docs/scripts/generate.py")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
