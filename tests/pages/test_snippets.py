"""The Python of the pages runs. Each page is one story: its blocks run in order, in one namespace and an empty folder.

A block whose first line starts with ``# not run:`` says there why it cannot; readers see it as well. Tutorials that
are notebooks run their cells in ``make docs``, which shows what they print; their other blocks are other libraries'.
"""

from pathlib import Path

import pytest

from docs.scripts import notebook

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "README.md": "tests/pages/test_readme.py",
    "docs/guides/libraries.md": "tests/libraries/test_libraries_page.py",
    "docs/tutorials/write_an_environment.md": "tests/pages/test_tutorial.py",
}
"""Pages whose blocks need more than a namespace, and who runs them."""

LONG = ("docs/guides/train.md", "docs/guides/use.md")
"""Pages that play many environments or train: slow tests, as are the pages of all environments but one."""
ENVIRONMENT = "docs/envs/games/kuhn_poker.md"


def pages():
    """Return every page with Python code, relative to the root."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with_code = [path for path in paths if notebook.blocks(path.read_text(encoding="utf-8"), notebook.PYTHON)]
    return [str(path.relative_to(ROOT)) for path in with_code if path not in notebook.notebooks()]


def is_slow(page):
    """Return whether the test of a page is slow."""
    return page in LONG or (page.startswith("docs/envs/") and page != ENVIRONMENT)


HERE = [page for page in pages() if page not in ELSEWHERE]


@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow if is_slow(page) else ()) for page in HERE])
def test_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    notebook.run(ROOT / page, notebook.PYTHON)


def test_pages_of_slow_tests_exist():
    assert {*LONG, ENVIRONMENT} < set(HERE)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_run_elsewhere_are_named_there(page):
    assert page in pages()
    assert Path(page).name in (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")
