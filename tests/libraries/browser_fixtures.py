"""Plugin of tests that open the viewer's page in headless Chromium."""

import re
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright
from viewer import HOME, WAIT, answering


@pytest.fixture(scope="module")
def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.fail("there is no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def view(chromium):
    """Return a function that opens a page with made-up answers or by address; the page must not log errors."""
    pages, complaints = [], []

    def opening(answers: dict | None = None, url: str = HOME, before: str = "", allowed: str = "nothing", **options):
        options = {"viewport": {"width": 1400, "height": 1000}, "reduced_motion": "reduce", **options}
        page = chromium.new_context(**options).new_page()
        pages.append(page)
        page.set_default_timeout(WAIT)
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda said: re.search(allowed, said.text) or complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if before:
            page.add_init_script(before)
        if answers is not None:
            page.route(f"{HOME}**", answering(answers))
        page.goto(url)
        return page

    expect.set_options(timeout=WAIT)
    yield opening
    for page in pages:
        page.context.close()
    assert not complaints
