"""Tables of pages: Markdown, text read from source files, and the parts of an environment's page."""

import ast
import dataclasses
import importlib
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gymnasium import spaces

from gpu_envs.definition import EnvDefinition, registry
from gpu_envs.descriptions import ANY, description_module
from gpu_envs.utils.settings import MAX_INT, MAX_SIZE, bounds_of, build_config

ROOT = Path(__file__).parents[2]


PAGES = ROOT / "docs" / "envs"
WIDTH = 120
"""Characters of a line of text."""


def names() -> dict[str, str]:
    """Return IDs by the page of an environment's files: {"mpe/simple_tag": "SimpleTag-v0", ...}."""
    modules = {entry.module: id for id, entry in registry._entries.items() if entry.module}
    return {
        module.removeprefix("gpu_envs.envs.").replace(".", "/"): id
        for module, id in modules.items()
        if module.startswith("gpu_envs.envs.")
    }


def oracle(page: str) -> Path:
    """Return the path of the oracle test of an environment."""
    folder, _, name = page.rpartition("/")
    return ROOT / "tests" / "parity" / folder / f"test_{name}.py"


def configured(page: str, settings: dict[str, Any]) -> tuple[Any, EnvDefinition]:
    """Return the config and the definition of an environment."""
    kind, build = registry.find(names()[page]).load()
    config = build_config(kind, settings, names()[page])
    return config, build(config)


# ---------------------------------------------------------------- Markdown


def table(head: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table; bars inside cells are escaped."""
    lines = [list(head), *rows]
    cells = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    cells.insert(1, ["---"] * len(cells[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def plain(doc: str) -> str:
    """Return a docstring as one line of Markdown."""
    return " ".join(doc.split()).replace("``", "`")


def number(value: float) -> str:
    """Return a number as short text; an infinite bound is "any"."""
    if abs(value) == ANY:
        return "any"
    for power, word in ((0.5**0.5, "1/√2"), (-(0.5**0.5), "-1/√2")):
        if abs(value - power) < 1e-9:
            return word
    return f"{value + 0.0:g}"  # -0 is 0


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 adversary", "3 adversaries", or "3 blue agents" of "agent_blue"."""
    noun = " ".join(reversed(noun.split("_")))
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def agents_of(groups: Mapping[str, Sequence[int]]) -> str:
    """Return the number of agents by group, such as "1 adversary, 3 agents", or "2 agents: left, right"."""
    if len(groups) > 1 and all(len(members) == 1 for members in groups.values()):
        return f"{len(groups)} agents: {', '.join(groups)}"
    return ", ".join(counted(len(members), group) for group, members in groups.items())


def field_words(source: str, class_name: str) -> dict[str, tuple[str, str]]:
    """Return the annotation and docstring (the string literal below) of every field of a class."""
    tree = ast.parse(source)
    body = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name).body
    words = {}
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            words[node.target.id] = (ast.unparse(node.annotation), " ".join(str(text).split()))
    return words


def field_comments(source: str, class_name: str) -> dict[str, str]:
    """Return the comment after every field of a class.

    Raises:
        ValueError: A field has no comment on its line.
    """
    body = source[source.index(f"class {class_name}:") :].split("\n\n\n", maxsplit=1)[0]
    comments = {}
    for field in re.finditer(r"^    (\w+): ([^#\n]+?)(?:  # (.*))?$", body, re.MULTILINE):
        if not field[3]:
            raise ValueError(f"{class_name}.{field[1]}: expected a comment on the line of the field, got none; add one")
        comments[field[1]] = field[3]
    return comments


def settings_table(kind: type) -> str:
    """Return the table of a settings dataclass: name, type, default, allowed values and docstring."""
    text: dict[str, tuple[str, str]] = {}
    for owner in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):  # fields of base classes come first
        text |= field_words(inspect.getsource(owner), owner.__name__)
    rows = []
    for field in dataclasses.fields(kind):
        annotation, doc = text[field.name]
        rows.append((f"`{field.name}`", f"`{annotation}`", f"`{field.default!r}`", allowed(field, annotation), doc))
    return table(("name", "type", "default", "allowed", "meaning"), rows)


def allowed(field: dataclasses.Field, annotation: str) -> str:
    """Return the allowed values of a setting."""
    bounds = bounds_of(field)
    if annotation in ("int", "int | None"):
        bounds = dataclasses.replace(bounds, le={MAX_INT: None, None: MAX_SIZE}.get(bounds.le, bounds.le))
    if bounds.choices:
        return ", ".join(f"`{choice!r}`" for choice in bounds.choices)
    if bounds.ge is not None and bounds.le is not None:
        return f"{bounds.ge:.7g} to {bounds.le:.7g}"
    return str(bounds)


# ---------------------------------------------------------------- parts of an environment's page


def summary(page: str) -> str:
    """Return the summary of an environment with default settings."""
    from docs.scripts.training import trainings  # imports the trainers, which the other tables do not need

    _, d = configured(page, {})
    groups = [
        f"{counted(len(rows), group)} ({_span([d.agents[row] for row in rows])})" for group, rows in d.groups.items()
    ]
    kinds = {spaces.Discrete: "discrete", spaces.MultiDiscrete: "multi-discrete", spaces.Box: "continuous"}
    widths = {space.shape[0] for space in d.flat_spaces.values()}
    limit = "terminates" if d.time_limit_terminates else "truncates"
    state_size = d.global_state_size
    joined = "own" if state_size else "the agents' observations, joined"
    rows = [
        ("id", f"`{names()[page]}`"),
        ("make", f'`gpu_envs.make("{names()[page]}", num_envs=1024)`'),
        ("agents by group", "; ".join(groups)),
        ("actions", f"{kinds[type(d.action_spaces[d.agents[0]])]}, {kinds_of(d.action_spaces)}"),
        ("observation", f"float32, {' or '.join(str(width) for width in sorted(widths))} numbers an agent"),
        ("global state", f"{state_size or sum(s.shape[0] for s in d.flat_spaces.values())} numbers a world, {joined}"),
        ("time limit", f"{d.max_episode_steps} steps, {limit}"),
        ("rules", _link(page, ROOT / f"{rules_module(page).replace('.', '/')}.py")),
        ("settings, spaces, drawing", _link(page, _host_file(page))),
        ("oracle test", f"{_link(page, oracle(page))}, {compared(page)}"),
        ("training", trainings(names()[page], os.path.relpath(PAGES.parent, (PAGES / page).parent))),
    ]
    return table(("", "with default settings"), [row for row in rows if row[1]])


def _span(agents: list[str]) -> str:
    return f"`{agents[0]}`" if len(agents) == 1 else f"`{agents[0]}` to `{agents[-1]}`"


def kinds_of(table_: dict[str, spaces.Space]) -> str:
    return " or ".join(dict.fromkeys(f"`{space}`" for space in table_.values()))


def _link(page: str, file: Path) -> str:
    """Return a link to a file, from the page of an environment."""
    return f"[{file.relative_to(ROOT)}]({os.path.relpath(file, (PAGES / page).parent)})"


def _host_file(page: str) -> Path:
    """Return the host file: of this name, or in the folder of this name."""
    folder = ROOT / "gpu_envs" / "envs" / page
    return folder / f"{folder.name}.py" if folder.is_dir() else folder.with_suffix(".py")


def rules_module(page: str) -> str:
    """Return the module of the rules: of this name, or in the folder of this name."""
    folder = ROOT / "warp_kernels" / page
    return ".".join(["warp_kernels", *page.split("/"), *([folder.name] if folder.is_dir() else [])])


def tolerances(page: str) -> list[str]:
    """Return the tolerances of the oracle test, as written there or, if it names TOLERANCE, in what it imports."""
    test = ast.parse(oracle(page).read_text())
    nodes = list(ast.walk(test))
    if any(
        "TOLERANCE" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")) for node in nodes
    ):
        nodes += [node for file in _parity_modules(test) for node in ast.walk(ast.parse(file.read_text()))]
    values = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TOLERANCE":
            values.add(ast.literal_eval(node.value))
        if isinstance(node, ast.keyword) and node.arg == "atol" and isinstance(node.value, ast.Constant):
            values.add(node.value.value)
    return [f"{value:.0e}".replace("e-0", "e-") for value in sorted(values)]


def _parity_modules(test: ast.Module) -> list[Path]:
    """Return the modules of `tests/parity` that a test imports."""
    imports = [node for node in ast.walk(test) if isinstance(node, ast.ImportFrom) and node.module]
    names = [
        name for node in imports for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    ]
    files = [ROOT / "tests" / f"{name.replace('.', '/')}.py" for name in names if str(name).startswith("parity")]
    return [file for file in files if file.exists()]


def compared(page: str) -> str:
    """Return the precision of the comparison in the oracle test."""
    values = tolerances(page)
    return f"errors up to {' or '.join(values)}" if values else "compared exactly"


def page_tables(page: str, heading: str) -> list[list[list[str]]]:
    """Return the cells of the tables below a heading of a page, without their heads."""
    section = (PAGES / f"{page}.md").read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    bodies = re.findall(r"^\| ---.*\n((?:\|.*\n)+)", re.split(r"^#", section, flags=re.MULTILINE)[0], re.MULTILINE)
    return [[row[2:-2].split(" | ") for row in body.splitlines()] for body in bodies]


def action_tables(page: str) -> list[list[tuple[Any, ...]]]:
    """Return the rows of the action tables of a page; the first cell is an int if it is an index."""
    return [
        [(int(first) if first.isdecimal() else first, *cells) for first, *cells in rows]
        for rows in page_tables(page, "## Actions")
    ]


def views(page: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the agent and the settings of each observation table on the page of an environment."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    calls = [read_call(marker) for marker in re.findall(r"<!-- on the site: (observations\(.+?\)) -->", text)]
    return [(agent, settings) for _, (_, agent), settings in calls]


def read_call(marker: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return name, arguments and settings of a marker: ``summary``, or ``observations("An agent", "agent_0", N=3)``."""
    call = ast.parse(marker, mode="eval").body
    if not isinstance(call, ast.Call):
        return marker, [], {}
    settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return ast.unparse(call.func), [ast.literal_eval(argument) for argument in call.args], settings


def observations(page: str, title: str, agent: str, **settings: Any) -> str:
    """Return the table of an agent's observation by index, with its title."""
    config, d = configured(page, settings)
    module: Any = description_module(names()[page])
    column, rows = 0, []
    for block in module.observation_blocks(config, d.agents.index(agent)):
        if block.width:
            last = column + block.width - 1
            span = f"{column}" if last == column else f"{column} to {last}"
            low, high = number(block.low), number(block.high)
            rows.append((span, block.meaning, block.unit, low if low == high == "any" else f"{low} to {high}"))
            column = last + 1
    return f"{title} ({column} numbers):\n\n{table(('index', 'meaning', 'unit', 'range'), rows)}"


def settings(page: str) -> str:
    """Return the table of settings."""
    return settings_table(registry.find(names()[page]).load()[0])


def state(page: str) -> str:
    """Return the table of the rules' State: shapes and integer ranges with default settings."""
    rules = importlib.import_module(rules_module(page))
    source = inspect.getsource(sys.modules[rules.State.cls.__module__])  # games may share it
    comments, d = field_comments(source, "State"), configured(page, {})[1]
    rows = []
    for key, comment in comments.items():
        low, high = d.ranges.get(key, (None, None))
        allowed = "" if key not in d.ranges else "any" if low is None else f"{low} to {high}"
        vector = getattr(rules.State.vars[key].type.dtype, "_shape_", ())  # numbers of a vector or matrix
        rows.append((f"`{key}`", f"`{('E', *d.shapes[key], *vector)}`".replace("'", ""), allowed, comment))
    text = "Fields of `core.world_state`, with default settings"
    text += ". `core.set_state` refuses integers outside their range:" if any(d.ranges.values()) else ":"
    return f"{text}\n\n{table(('field', 'shape', 'range', 'meaning, unit'), rows)}"


def constants(page: str) -> str:
    """Return the table of the rules' Params, below the sentence that says which of them `core.set_params` changes."""
    rules = importlib.import_module(rules_module(page))
    source = inspect.getsource(sys.modules[rules.Params.cls.__module__])  # it may be that of another environment
    comments, d = field_comments(source, "Params"), configured(page, {})[1]
    rows = [(f"`{key}`", number(d.params[key]), comment) for key, comment in comments.items()]
    fixed = [f"`{key}`" for key in comments if key in d.fixed_params]
    text = "Parameters of the rules. `core.set_params` changes them for all worlds or per world"
    if len(fixed) == len(comments):
        text = "Parameters of the rules, fixed when the environment is made"
    elif fixed:
        named = " and ".join(filter(None, (", ".join(fixed[:-1]), fixed[-1])))
        text += f", except {named}, which {'is' if len(fixed) == 1 else 'are'} fixed when the environment is made"
    return f"{textwrap.fill(text + ':', WIDTH)}\n\n{table(('constant', 'default', 'meaning, unit'), rows)}"
