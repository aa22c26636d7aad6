"""Fill in the generated parts of the pages, which functions of ``PARTS`` make from the code and from result files.

    python -m docs.scripts.generate                   write the committed parts that have changed
    python -m docs.scripts.generate mpe/simple_tag    print the page of an environment with its tables
    python -m docs.scripts.generate --json            print all pages of environments by name, for the site

A committed part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. The parts of an environment's page
are not committed: the build of the site replaces ``<!-- on the site: NAME -->`` by them, together with lines up to
``<!-- end -->`` that readers of the repository see instead.
"""

import dataclasses
import importlib
import inspect
import json
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
ON_SITE = re.compile(r"<!-- on the site: (.+?) -->(?:\n(?:.+\n)+?<!-- end -->)?")


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
        cells.append(f"[![{id}, animated](envs/{page}.webp)](envs/{page}.md)<br>[{id}](envs/{page}.md)<br>{agents}")
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
    from trainers.algorithms import algorithm_specs

    config_type = algorithm_specs.find(algorithm).config_type
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
    from trainers.algorithms.algorithm_specs import ALGORITHMS

    rows = [
        (f"`{name}`", f"`trainers/algorithms/{algorithm.module.replace('.', '/')}.py`", algorithm.summary)
        for name, algorithm in ALGORITHMS.items()
    ]
    return table(("algorithm", "file", "description"), rows)


def family(module: str) -> str:
    """Return the table of the algorithms of a family, named by its module, with links from docs/algorithms."""
    from trainers.algorithms.algorithm_specs import ALGORITHMS, IMITATION

    rows = []
    for name, algorithm in {**ALGORITHMS, **IMITATION}.items():
        if module == algorithm.family:
            path = f"trainers/algorithms/{algorithm.module.replace('.', '/')}.py"
            rows.append((f"`{name}`", algorithm.summary, f"[{Path(path).name}](../../{path})"))
    assert rows, f"no algorithm in a module {module}"
    return table(("name", "description", "code"), rows)


def presets() -> str:
    """Return the table of presets by environment and device."""
    from trainers.algorithms import algorithm_specs
    from trainers.config.presets import PRESETS

    rows = []
    for (id, device, algorithm), settings in sorted(PRESETS.items()):
        parts = [f"{key}={value}" for key, value in settings.get("env", {}).items()]
        parts += [
            f"--{key.replace('_', '-')} {value}" for key, value in settings.items() if key not in ("env", "learner")
        ]
        usual = algorithm_specs.find(algorithm).settings()
        learner = settings.get("learner", {})
        parts += [f"--learner.{k.replace('_', '-')} {_option(v)}" for k, v in learner.items() if v != getattr(usual, k)]
        rows.append((id, device, algorithm, ", ".join(f"`{part}`" for part in parts)))
    return table(("environment", "device", "algorithm", "what differs from the defaults"), rows)


_TABLES = (tables.summary, tables.observations, tables.settings, tables.constants, tables.state)
OF_PAGE: dict[str, Callable[..., str]] = {part.__name__: part for part in _TABLES}
"""Parts of an environment's page; they get its name."""


def template(file: str) -> str:
    """Return a file of ``gpu-envs new meet`` as a code block."""
    from gpu_envs.cli.new import written

    return f"```python\n# file: meet/{file}\n{written('meet')[file]}```"


OF_LIBRARY = (readme.headline, readme.measured, readme.hardware, readme.families, readme.against)
OF_OTHERS = (environments, gallery, runner, errors, learners, family, presets, template)
"""Parts of other pages; they get the words behind their name in the marker."""
PARTS: dict[str, Callable[..., str]] = {part.__name__: part for part in (*OF_LIBRARY, *OF_OTHERS)}


def filled(path: Path) -> str:
    """Return a page with its committed parts updated.

    Raises:
        KeyError: A marker names a part that does not exist.
    """

    def part_text(match: re.Match) -> str:
        part, *arguments = match[2].split()
        return f"{match[1]}{PARTS[part](*arguments)}\n{match[3]}"

    return MARKED.sub(part_text, path.read_text(encoding="utf-8"))


def environment_page(page: str) -> str:
    """Return the page of an environment with its tables."""

    def part_text(match: re.Match) -> str:
        part, arguments, settings = tables.read_call(match[1])
        return OF_PAGE[part](page, *arguments, **settings)

    return ON_SITE.sub(part_text, (PAGES / f"{page}.md").read_text(encoding="utf-8"))


# ---------------------------------------------------------------- files


def pages() -> list[Path]:
    """Return all pages that may have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main(arguments: list[str]) -> None:
    """Print pages of environments, or write the committed parts; see the top of this file."""
    if arguments == ["--json"]:
        print(json.dumps({page: environment_page(page) for page in names()}))
    elif arguments:
        print(*map(environment_page, arguments), sep="\n")
    else:
        for path in pages():
            text = filled(path)
            if text != path.read_text(encoding="utf-8"):
                path.write_text(text, encoding="utf-8")
                print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
