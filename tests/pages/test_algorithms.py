"""Every algorithm has a page with its equation, its source and its learning curves."""

import re
from pathlib import Path

import pytest

from benchmarks.experiments import publish
from docs.scripts import generate
from trainers.algorithms.algorithm_specs import ALGORITHMS, IMITATION, find

PAGES = Path(__file__).parents[2] / "docs" / "algorithms"
FAMILIES = sorted({entry.family for entry in (*ALGORITHMS.values(), *IMITATION.values())})
HEADINGS = ["Equation", "Source", "Learning curves", "Settings"]


def test_every_algorithm_is_on_one_page():
    named = [name for family in FAMILIES for name in re.findall(r"^\| `(\w+)`", generate.family(family), re.MULTILINE)]
    assert sorted(named) == sorted({*ALGORITHMS, *IMITATION})


@pytest.mark.parametrize("family", FAMILIES)
def test_page_has_equation_source_curves_and_settings(family):
    text = (PAGES / f"{family}.md").read_text(encoding="utf-8")
    sections = dict(zip(*[iter(re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert list(sections) == HEADINGS
    assert "```math" in sections["Equation"]
    assert re.search(r"\b(19|20)\d\d\b", sections["Source"])
    pictures = re.findall(r"\]\((\S+_curves\.webp)\)", sections["Learning curves"])
    assert all((PAGES / picture).stat().st_size > 5_000 for picture in pictures)
    for name in re.findall(r"\(\.\./learning/(\w+)_curves\.webp\)", sections["Learning curves"]):
        recorded = {row["algorithm"] for row in publish.evaluations(name)}
        assert recorded & {algorithm for algorithm, spec in ALGORITHMS.items() if spec.family == family}, (
            name,
            recorded,
        )
    assert bool(pictures) != ("**no recorded training**" in sections["Learning curves"])


def test_settings_of_every_algorithm_are_shown():
    """The site replaces a block of the page with the table."""
    names = [
        name for path in PAGES.glob("*.md") for name in re.findall(r"^```\{settings\} (\w+)$", path.read_text(), re.M)
    ]
    assert len(names) == len(set(names))
    for name in names:
        table = generate.options(name)
        assert re.search(r"^\| `--learner\.[\w-]+` \| .+ \| .+ \|$", table, re.MULTILINE)
        assert "|  |\n" not in table, f"{name}: a setting without meaning"
    assert {find(name).config_type for name in {*ALGORITHMS, *IMITATION}} == {find(name).config_type for name in names}


def test_unknown_family_raises():
    with pytest.raises(AssertionError, match="no algorithm"):
        generate.family("unknown")
