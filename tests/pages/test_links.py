"""Links of the pages lead somewhere when they are read in the repository; `make docs` checks the site made of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
"""Pages that the build of the site writes and checks."""
PAGES = [*ROOT.glob("*.md"), *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent != REFERENCE)]


def heading_names(path):
    """Return the anchors of a page's headings, as GitHub and the site spell them."""
    text = re.sub(r"^( *)```.*?^\1```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    """In the repository; `make docs` checks the same pages as a site."""
    text = path.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)]*))?\)", text):
        destination = path.parent / target if target else path
        if destination.parent == REFERENCE and path.name == "index.md":  # the start page of the site
            continue
        assert destination.exists(), target
        assert not anchor or anchor in heading_names(destination), f"{target}#{anchor}"
    for address in re.findall(r"\]\((\w+:[^)]*)\)", text):
        assert re.fullmatch(r"(https?://[\w.-]+\.[a-z]+(/[^\s]*)?|mailto:[^@\s]+@[^@\s]+)", address), address
