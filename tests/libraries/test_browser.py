"""Tests of the viewer's page in headless Chromium: display, playback and mouse."""

import base64
import io
import re

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from viewer import WAIT, expect_frame, frame, metrics, moving, packed, rollout, training

from gpu_envs.rendering.scene import Scene, boxes, circles, join, lines, rasterize, rings

pytest_plugins = ["browser_fixtures"]


def until(page, passed: int) -> None:
    """Wait until a playing rollout has passed a frame."""
    for _ in range(WAIT // 50):
        if frame(page) > passed:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"frame {frame(page)}: it does not play")


def test_it_plays_pauses_and_steps(view):
    page = view(training({**moving(5, 400), "fps": 10}))  # long enough for a busy machine
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    assert frame(page) == 0
    page.get_by_role("button", name="Play", exact=True).click()
    until(page, 3)
    page.get_by_role("button", name="Pause", exact=True).click()
    stopped = frame(page)
    page.get_by_role("button", name="Step forward").click()
    page.get_by_role("button", name="Step forward").click()
    page.get_by_role("button", name="Step back").click()
    expect_frame(page, stopped + 1)
    page.get_by_role("slider", name="Step", exact=True).fill("390")
    page.get_by_label("Speed").select_option("8")
    page.get_by_label("Loop").uncheck()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()  # playback stops at the end
    expect_frame(page, 399)
    expect(page.get_by_text("399 / 399")).to_be_visible()


def test_canvas_equals_the_rendered_frames(view):
    """Compare overlapping shapes of all kinds with the frames of `gpu-envs render`."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(12):
        at, to, half, color = (torch.rand((1, 2, size), generator=generator) for size in (2, 2, 1, 3))
        half = 0.3 + half[..., 0]
        parts += [
            circles(10 * at, half, color),
            boxes(10 * to, half[..., None], color, alpha=0.5),
            lines(10 * at, 10 * to, 0.15, color),
            rings(10 * to, 2 * half, color, 0.2),
            boxes(10 * at, 0.5, color, alpha=0.0),
            boxes(10 * at, 1.3, color, line_width=0.1),
        ]
    shapes = join(*parts)
    scene = {"background": [1, 1, 1], "surround": [0.9, 0.9, 0.9], "border": [0.4, 0.4, 0.4], "margin": 0.1}
    played = rollout(np.stack([shapes.numpy()] * 2), np.full((2, 1, 1, 3), np.nan), **scene)
    page = view(training(played))
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    data = page.evaluate("document.querySelector('.screen canvas').toDataURL()")
    picture = imageio.imread(io.BytesIO(base64.b64decode(data.partition(",")[2])))[..., :3].astype(int)
    painted = rasterize(Scene(shapes, (0, 0, 10, 10), **scene), picture.shape[:2])[0].numpy().astype(int)
    difference = np.abs(picture - painted).max(-1)
    assert (difference > 48).mean() < 0.002, "edges may differ, by how they are smoothed, and the rounded corners"
    assert (difference > 8).mean() < 0.05


def test_inspector_shows_the_values_of_an_agent(view):
    played = moving(7, 20)
    page = view(training(played))
    expect(page.get_by_text("Choose an agent")).to_be_visible()
    page.get_by_role("slider", name="Step", exact=True).fill("4")
    x, y, _ = np.frombuffer(base64.b64decode(played["places"]["data"]), "<f4").reshape(20, 7, 3)[4, 3].tolist()
    box = page.locator(".screen canvas").bounding_box()
    scale = min(box["width"], box["height"]) / 12  # bounds of 10, and their margin
    to = {"x": box["width"] / 2 + (x - 5) * scale, "y": box["height"] / 2 - (y - 5) * scale}
    page.locator(".screen canvas").click(position=to)
    expect(page.get_by_role("button", name="agent_3")).to_have_attribute("aria-pressed", "true")
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name="agent_3"))
    assert row.get_by_role("cell").all_inner_texts() == ["3", "0.50", "2.00", "yes"]  # the sum of four rewards
    rows = page.locator(".seen tbody tr")
    assert rows.get_by_role("rowheader").all_inner_texts() == ["0", "1", "2"]
    assert rows.locator(".number").all_inner_texts() == ["4030.000", "4031.000", "4032.000"]
    page.get_by_role("button", name="agent_3").press("ArrowDown")
    expect(page.get_by_role("button", name="agent_4")).to_be_focused()
    expect(page.get_by_text("Observation of agent_4")).to_be_visible()


def test_observations_and_actions_have_names(view):
    """A block of entries is named once; of a long block the first entries are shown, and the rest on demand."""
    far = {"meaning": "others", "unit": "m", "entries": [f"{i // 2} {'xy'[i % 2]}" for i in range(40)]}
    blocks = [{"meaning": "time", "unit": "episode_length", "entries": ["0"]}, far]
    rollout = moving(3, 4)
    values = np.arange(41) + np.zeros((4, 1, 3, 41))
    names = {"obs_names": {"team": blocks}, "action_names": {"team": ["stay", "go left", "jump"], "agent_2": []}}
    page = view(training({**rollout, "obs": packed(values), "obs_widths": [41] * 3, **names}))
    page.get_by_role("button", name="agent_1").click()
    actions = page.locator(".agents tbody td:nth-child(2)")
    assert actions.all_inner_texts() == ["stay", "go\u00a0left", "2"]
    first = ["time [episode_length]", "others [m]", *far["entries"][:12]]
    heads = page.locator(".seen tbody th")
    expect(heads).to_have_text(first)
    more = page.get_by_role("button", name="28 more")
    more.press("Enter")
    expect(heads).to_have_text([*first[:2], *far["entries"]])
    assert page.locator(".seen .number").last.inner_text() == "40.000"
    page.get_by_role("button", name="Fewer").press("Enter")
    expect(heads).to_have_text(first)


def test_page_follows_a_running_training(view):
    """A run without policies is reported as such; its first policy is shown automatically."""
    answers = training(moving(3, 10), rows=5)
    played, answers["api/rollout"] = answers["api/rollout"], "team: there is no policy yet"
    page = view(answers, allowed="404")
    expect(page.get_by_text("team: there is no policy yet")).to_be_visible()
    chart = page.get_by_role("slider", name="team/return per agent")
    expect(chart).to_have_attribute("aria-valuemax", "4")
    with page.expect_request("**/api/metrics"):  # the last curves must not be shown with this run
        answers["api/run"] = {**answers["api/run"], "version": 2, "algorithm": "later"}
    with page.expect_request("**/api/run"):
        pass
    assert not page.get_by_text("later").count()
    answers.update({"api/rollout": played, "api/metrics": metrics(80, version=2)})
    expect(chart).to_have_attribute("aria-valuemax", "79")
    expect(page.get_by_text("later").first).to_be_visible()
    expect(page.get_by_role("button", name="agent_2")).to_be_visible()
    chart.press("Home")
    expect(chart).to_have_attribute("aria-valuetext", re.compile("^env steps 100: "))
    chart.hover(position={"x": 200, "y": 60})
    expect(chart).not_to_have_attribute("aria-valuetext", re.compile("^env steps 100: "))
    page.get_by_text("Columns").click()
    page.get_by_role("checkbox", name="entropy").uncheck()
    expect(page.get_by_role("slider", name="team/entropy")).to_have_count(0)
