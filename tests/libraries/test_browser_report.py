"""Tests of the viewer's page in headless Chromium: accessibility, the report of a run, and the built file."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect
from viewer import HOME, PAGE, PHONE, STORIES, experiment, moving, story, training

from gpu_envs.rendering.palette import PALETTE
from league.analysis.report_tables import page_tables
from league.report import build_report

pytest_plugins = ["browser_fixtures"]

LARGEST = 300 * 1024  # maximum size of the page [byte]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def contrast(first: str, other: str) -> float:
    def light(color: str) -> float:
        digits = color.strip()[1:]
        digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
        parts = np.array(list(bytes.fromhex(digits))) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    darker, lighter = sorted((light(first), light(other)))
    return (lighter + 0.05) / (darker + 0.05)


def violations(page, built):
    """Return the violations of `RULES` that axe-core finds, each with an element."""
    page.evaluate((built / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    entries = page.evaluate("(rules) => axe.run(document, rules)", {"runOnly": RULES})["violations"]
    return [(entry["id"], entry["nodes"][0]["html"], entry["nodes"][0]["failureSummary"]) for entry in entries]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_all(view, served, built, scheme):
    """Check WCAG 2.1 AA with axe-core, and a contrast of 3:1 for lines, areas and frames of controls."""
    pages = ((training(moving(5, 10)), HOME, {}), (None, served, {}), (story(STORIES), HOME, {}), (None, served, PHONE))
    for answers, url, options in pages:
        page = view(answers, url=url, color_scheme=scheme, **options)
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
        page.keyboard.press("]")
        for opened_ in ("", "?"):
            page.keyboard.press(opened_) if opened_ else None
            assert not violations(page, built)
    names = ["--panel", "--control", "--accent", *(f"--{color}" for color in PALETTE)]
    ground, *marks = page.evaluate(
        "(names) => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))", names
    )
    assert min(contrast(ground, mark) for mark in marks) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_experiment_can_be_read_by_all(view, built, scheme):
    page = view(experiment(moving(2, 4)), color_scheme=scheme, **PHONE)
    expect(page.locator(".plot canvas")).to_have_count(2)
    assert not violations(page, built)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_shows_its_tables_and_figures(view, run, built, scheme, tmp_path):
    report = build_report(run, tmp_path)
    page = view(url=(tmp_path / "report.html").as_uri(), color_scheme=scheme)
    for title, head, rows in page_tables(report):
        table = page.get_by_role("group", name=title, exact=True)
        expect(table).to_be_visible()
        expect(table.get_by_role("row")).to_have_count(any(head) + len(rows))
        texts = table.locator("th, td").all_text_contents()
        assert texts == [*(head if any(head) else []), *(cell for row in rows for cell in row)]
    count = len(report.policies["player"])
    expect(page.get_by_role("gridcell")).to_have_count(count**2)
    expect(page.get_by_role("gridcell").first).to_contain_text("±")
    gains = page.get_by_role("slider", name="Gain of all seats against the meta-strategy")
    gains.press("Home")
    text = re.compile("NashConv .*, best so far .*, gain by own policies ")
    expect(gains).to_have_attribute("aria-valuetext", text)
    expect(page.get_by_role("slider", name="Elo of each policy")).to_be_visible()
    expect(page.get_by_role("slider", name="player: values along iteration", exact=True)).to_be_visible()
    expect(page.locator(".lineage g[role=button]")).to_have_count(count)
    for title in ("Payoffs", "Exploitability", "Ratings", "Meta-strategy", "Lineage", "Curves"):
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    assert page.locator("#report, .screen").count() == 0, "neither tables without JavaScript nor a rollout"
    assert not violations(page, built)
    assert not [url for url in page.urls if not url.startswith(("file:", "data:"))]


def test_report_shows_its_tables_without_javascript(view, run, tmp_path):
    report = build_report(run, tmp_path)
    page = view(url=(tmp_path / "report.html").as_uri(), java_script_enabled=False)
    expect(page.locator("noscript")).to_be_visible()
    titles = [title for title, *_ in page_tables(report)]
    expect(page.locator("#report h2")).to_have_text(titles)
    for i in range(len(titles)):
        expect(page.locator("#report table").nth(i)).to_be_visible()
    for entry in report.policies["player"]:
        expect(page.get_by_role("cell", name=entry["name"], exact=True).first).to_be_visible()


def test_it_is_one_file_and_a_fresh_build(built):
    fresh = built.parent / "static" / "index.html"
    assert fresh.read_bytes() == PAGE.read_bytes(), "build it again: npm ci && npm run build in league/watch/page"
    assert len(PAGE.read_bytes()) <= LARGEST
    page = PAGE.read_text(encoding="utf-8")
    assert not re.search(
        r"""(src|href)=["'](?!data:)""", page.partition("<script")[0] + page.rpartition("</script>")[2]
    )
