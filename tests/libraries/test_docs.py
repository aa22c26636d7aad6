"""The site that `make docs` has built: links and anchors, nothing from elsewhere, search, what the reference has."""

import functools
import importlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out" / "docs"
ROOMS = ("gpu_envs", "trainers", "league", "warp_kernels")
FETCHED = {"script": "src", "img": "src", "source": "src", "video": "src", "iframe": "src", "link": "href"}
"""Attributes with the files that a browser fetches to show a page, by tag."""


class Page(HTMLParser):
    """Names, links and fetched addresses of a page."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links, self.fetched = set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names |= {values["id"]} if values.get("id") else set()
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        if tag in FETCHED and values.get(FETCHED[tag]) and values.get("rel") not in ("canonical", "author"):
            self.fetched.add(values[FETCHED[tag]])


@functools.cache
def page(path):
    return Page(path)


def pages():
    paths = sorted(SITE.rglob("*.html"))
    assert len(paths) > 50, "build it first: make docs"
    return paths


def test_every_link_leads_somewhere():
    wrong = []
    for path in pages():
        for link in page(path).links | page(path).fetched:
            if re.match(r"(https?|mailto|data):", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            destination = (path.parent / target.partition("?")[0]).resolve() if target else path
            if not destination.is_file() or (
                anchor and destination.suffix == ".html" and anchor not in page(destination).names
            ):
                wrong.append(f"{path.relative_to(SITE)}: {link}")
    assert not wrong


def test_nothing_is_fetched_from_elsewhere():
    for path in pages():
        assert not [address for address in page(path).fetched if re.match(r"(https?:)?//", address)], path
    for path in SITE.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_search_finds_environments_settings_and_functions():
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    assert "envs/tag/tag_continuous" in index["docnames"]
    assert {"pettingzoo", "tagging_dist", "alphastar"} <= set(index["terms"])  # "tagging_dist": as the stemmer has it
    assert "Core" in [entry[-1] for entry in index["objects"]["gpu_envs.runtime.core"]]
    page = index["docnames"].index("envs/games/kuhn_poker")  # by the words of its id
    assert page in index["terms"]["kuhn"]
    assert page in index["terms"]["poker"]


def test_equations_are_mathml():
    """The converter leaves a command that it does not know as text with a backslash."""
    paths = [path for path in (SITE / "algorithms").glob("*.html") if "<math" in path.read_text(encoding="utf-8")]
    assert len(paths) >= 9
    for path in paths:
        for equation in re.findall(r"<math .*?</math>", path.read_text(encoding="utf-8"), re.DOTALL):
            assert not re.search(r"\\|&#x0005C;", equation), f"{path.name}: {equation}"


def test_headings_of_the_navigation_have_a_level():
    for path in pages():
        text = path.read_text(encoding="utf-8")
        assert text.count('role="heading"') == text.count('role="heading" aria-level="2"'), path


def test_parameters_of_signatures_are_lists():
    """Sphinx writes lists of descriptions without terms, which screen readers cannot read."""
    text = (SITE / "reference" / "gpu_envs.views.html").read_text(encoding="utf-8")
    assert text.count('<dd role="listitem"><em class="sig-param">') > 20
    assert '<dd><em class="sig-param">' not in text


def test_scorer_of_the_search_is_part_of_the_search():
    """The script of the search declares the default scorer first, so that this one must be a `var` too."""
    text = (SITE / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert "var Scorer = {" in text
    assert 'page.startsWith("envs/")' in text


def imported():
    """Return imports of this project by pages and examples: ("docs/...", "gpu_envs.errors.ConfigError")."""
    pattern = rf"^ *from ((?:{'|'.join(ROOMS)})[\w.]*) import (?:\(([^)]*)\)|([^\n#]+))"
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]:
        for module, names, line in re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE):
            for name in filter(None, re.split(r"[,\s]+", names or line.split(" as ")[0])):
                yield str(path.relative_to(ROOT)), f"{module}.{name}"


def defined(module: str, name: str) -> str:
    """Return the name under which the reference documents a public name of a package."""
    if not (ROOT / module.replace(".", "/")).is_dir():  # a module, which may need a library that is not installed
        return f"{module}.{name}"
    value = getattr(importlib.import_module(module), name, None)
    return f"{getattr(value, '__module__', module)}.{name}"


def test_reference_documents_every_imported_name():
    """Commands and environments have their own pages. Of a constant, its module is documented."""
    inventory = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data.values() for name in kind}
    missing = set()
    for source, name in imported():
        module, _, last = name.rpartition(".")
        names = {name, defined(module, last), *([module] if last.isupper() else [])}
        if not names & documented and module not in ("gpu_envs.cli", "gpu_envs.mpe"):
            missing.add(f"{source}: {name}")
    assert not missing
