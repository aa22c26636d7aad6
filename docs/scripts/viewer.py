"""Make the picture of the viewer, docs/viewer.webp, from a league that is trained first if it is not there.

    .nox/browser/bin/python -m docs.scripts.viewer

It needs Chromium, and Playwright: `make test-libraries ARGS="-s browser"` makes the environment that has it. The run
stays in out/pictures/league-SimpleTag-v0; remove that folder to train again, for a minute.
"""

import io
import re
import shutil
import subprocess
import sys

from docs.scripts.tables import ROOT

RUN = ROOT / "out" / "pictures" / "league-SimpleTag-v0"
PICTURE = ROOT / "docs" / "viewer.webp"
TRAIN = (
    "league train SimpleTag-v0 --algorithm psro --iterations 6 --episodes-per-matchup 200 "
    "--train-overrides total_steps=60000 --num-threads 1"
)
SIZE = {"width": 1240, "height": 1146}
"""Size of the window [CSS pixels]."""
SCALE = 1.5
"""Pixels of the picture by one of these."""
STEP = "12"
"""Seed of the rollout."""
COMMAND = (sys.executable, "-c", "import sys; from gpu_envs.cli import main; sys.exit(main(sys.argv[1:]))")
"""`gpu-envs`, which that environment has not under its name."""


def shown(url: str) -> bytes:
    """Return a PNG of the page in the middle of a rollout with a selected agent."""
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=SCALE, reduced_motion="reduce")
        page.goto(url)
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled(timeout=60_000)
        page.get_by_role("slider", name="Step", exact=True).fill(STEP)
        page.get_by_role("button", name="adversary_0").click()
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        page.mouse.move(0, 0)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture = page.screenshot()
        browser.close()
    return picture


def main() -> None:
    """See the top of this file."""
    from PIL import Image

    subprocess.run([*COMMAND, *TRAIN.split(), "--run-dir", str(RUN)], cwd=ROOT, check=True)  # or what is left of it
    watch = [*COMMAND, "watch", str(RUN), "--no-browser"]
    with subprocess.Popen(watch, cwd=ROOT, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            line = viewer.stdout.readline()
            url = re.search(r"http://\S+", line)
            assert url, f"the viewer gave no address: {line!r}"
            picture = shown(url[0])
        finally:
            viewer.terminate()
    palette = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
    palette.save(PICTURE, lossless=True, quality=100)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
