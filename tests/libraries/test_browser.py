"""Tests of the viewer's page in headless Chromium: display, playback, mouse and keyboard."""

import base64
import contextlib
import io
import os
import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from viewer import WAIT, league, metrics, moving, packed, rollout, training

from gpu_envs.rendering.scene import Scene, boxes, circles, join, lines, rasterize, rings
from league.watch.export import export

pytest_plugins = ["browser_fixtures"]

TRAILS = 1.65  # maximum processor time of a frame with trails, relative to one without; 1.5 pixels wide: 1.9

# Number of frames in which the step changes.
MOVED = """(frames) => new Promise((resolve) => {
  const step = document.querySelector('input[aria-label="Step"]');
  let [count, moved, before] = [0, 0, step.value];
  const next = () => {
    if (step.value !== before) moved++;
    before = step.value;
    if (++count < frames) raf(next);
    else resolve(moved);
  };
  raf(next);
})"""

# Count the frames that the page paints or advances. Its clock advances by 1/60 s per frame on any machine.
COUNTED = """
window.raf = window.requestAnimationFrame.bind(window);
window.frames_shown = new Set();
let [clock, last] = [0, null];
performance.now = () => clock;
const tick = (now) => {
  if (now !== last) clock += 1000 / 60;
  last = now;
  return clock;
};
window.requestAnimationFrame = (call) => raf((now) => {
  call(tick(now));
  window.frames_shown.add(now);
});
"""


def frame(page) -> int:
    return int(page.get_by_role("slider", name="Step", exact=True).input_value())


def expect_frame(page, number: int) -> None:
    expect(page.get_by_role("slider", name="Step", exact=True)).to_have_value(str(number))


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
    seen = imageio.imread(io.BytesIO(base64.b64decode(data.partition(",")[2])))[..., :3].astype(int)
    painted = rasterize(Scene(shapes, (0, 0, 10, 10), **scene), seen.shape[:2])[0].numpy().astype(int)
    apart = np.abs(seen - painted).max(-1)
    assert (apart > 48).mean() < 0.002, "edges may differ, by how they are smoothed, and the rounded corners"
    assert (apart > 8).mean() < 0.05


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
    seen = page.locator(".seen tbody tr")
    assert seen.get_by_role("rowheader").all_inner_texts() == ["0", "1", "2"]
    assert seen.locator(".number").all_inner_texts() == ["4030.000", "4031.000", "4032.000"]
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
    chart = page.get_by_role("slider", name="team/episode return mean")
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


def matchup(url: str) -> list[str]:
    return [unquote(name) for name in parse_qs(urlsplit(url).query)["policies"][0].split(",")]


def test_payoff_cell_plays_its_match(view, served, api):
    page = view(url=served)
    names = [api.latest.get()[0].policies[seat.role] for seat in api.latest.get()[0].stage.seats]
    cells = page.get_by_role("gridcell")
    expect(cells).to_have_count(len(names[0]) * len(names[1]))
    expect(page.get_by_text("player_0: final meta-strategy")).to_be_visible()
    expect(page.locator("[role=gridcell][aria-selected=true]")).to_have_count(0)
    with page.expect_request("**/api/rollout*") as asked:
        cells.nth(1).click()
    assert matchup(asked.value.url) == [names[0][0], names[1][1]]
    expect(cells.nth(1)).to_have_attribute("aria-selected", "true")
    cells.nth(1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(cells.nth(len(names[1]))).to_be_focused()
    with page.expect_request("**/api/rollout*") as asked:
        page.keyboard.press("Enter")
    assert matchup(asked.value.url) == [names[0][1], names[1][0]]
    expect(cells.nth(len(names[1]))).to_have_attribute("aria-selected", "true")
    for title in ("Exploitability", "Ratings", "Meta-strategy", "Lineage", "Curves"):
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()


def test_large_population_is_shown_in_ranges(view):
    """The newest policies come first; the size of the table is bounded."""
    page = view(league(moving(2, 4), 300))
    cells, heading = page.get_by_role("gridcell"), page.get_by_role("heading", name="Payoffs")
    expect(cells).to_have_count(60 * 60)
    expect(heading).to_have_text("Payoffs left 241–300 of 300, right 241–300 of 300")
    assert "p299 against p299" in cells.last.get_attribute("aria-label")
    rows = page.get_by_label("Policies of left")
    expect(rows.locator("option")).to_have_text([f"{i}–{i + 59} of 300" for i in (1, 61, 121, 181, 241)])
    rows.focus()
    before = page.evaluate("performance.now()")
    page.keyboard.press("Home")
    expect(heading).to_have_text("Payoffs left 1–60 of 300, right 241–300 of 300")
    print(f"another range after {page.evaluate('performance.now()') - before:.0f} ms")
    expect(cells).to_have_count(60 * 60)
    assert "p1 against p240: −239" in cells.nth(60).get_attribute("aria-label")
    with page.expect_request("**/api/rollout*") as asked:
        cells.nth(60).click()
    assert matchup(asked.value.url) == ["p1", "p240"]
    cells.nth(60).press("ArrowDown")
    expect(cells.nth(120)).to_be_focused()
    with page.expect_request("**/api/rollout*") as asked:
        page.keyboard.press("Enter")
    assert matchup(asked.value.url) == ["p2", "p240"]


def test_ranges_of_policies(view):
    """The last range is full; a population that fits has no ranges."""
    page = view(league(moving(2, 4), 70))
    options = page.get_by_label("Policies of right").locator("option")
    expect(options).to_have_text(["1–60 of 70", "11–70 of 70"])
    page = view(league(moving(2, 4), 60))
    expect(page.get_by_role("gridcell")).to_have_count(60 * 60)
    expect(page.get_by_role("heading", name="Payoffs")).to_have_text("Payoffs")
    assert page.get_by_label("Policies of right").count() == 0


def test_all_is_reached_by_keyboard_and_seen(view, served):
    page = view(url=served)
    expect(page.get_by_role("gridcell").first).to_be_visible()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate("""() => {
          const at = document.activeElement;
          if (!at || at === document.body) return null;
          const mark = getComputedStyle(at.querySelector('.halo') ?? at);
          const seen = mark.outlineStyle !== 'none' && parseFloat(mark.outlineWidth) >= 2 || mark.stroke !== 'none';
          return [at.getAttribute('role') ?? at.tagName.toLowerCase(), seen, at.outerHTML];
        }""")
        if focused is None:
            break
        reached.append(focused)
    assert focused is None, "the walk comes to its end"
    assert not [html[:90] for _, seen, html in reached if not seen], "where the focus is can be seen"
    counts = {kind: [role for role, *_ in reached].count(kind) for kind, *_ in reached}
    assert counts["gridcell"] == 1  # arrow keys continue from there
    assert {"select", "input", "button", "summary", "slider"} <= counts.keys()
    assert any(html.startswith("<g ") for *_, html in reached), "the lineage"

    page.evaluate("document.activeElement.blur()")
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    expect_frame(page, 1)
    page.keyboard.press("]")
    expect(page.locator(".agents [aria-pressed=true]")).to_have_count(1)
    page.keyboard.press("2")
    expect(page.get_by_role("combobox", name="World", exact=True)).to_have_value("1")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("checkbox", name="Use these keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert frame(page) == 1, "the keys are off"


def test_learned_responses_and_several_policies_of_an_iteration_are_in_the_charts(view):
    answers = league(moving(2, 4), 3)
    league_answer = answers["api/league"]
    elos = [("p0", 0, 10.0), ("p1", 0, 20.0), ("p2", 1, 5.0)]
    league_answer["ratings"] = [{"role": "left", "name": name, "iteration": at, "elo": elo} for name, at, elo in elos]
    league_answer["learned_responses"] = {"iteration": 1, "nash_conv": 0.05, "half_width": 0.1}
    rows = [[0, 1.0, 1.0], [1, 0.0, 0.0]]
    answers["api/metrics"] |= {"x": "iteration", "columns": ["iteration", "nash_conv", "best_nash_conv"], "rows": rows}
    page = view(answers)
    gains = page.get_by_role("slider", name="Gain of all seats against the meta-strategy; 0 is drawn at the bottom")
    said = "iteration 1: NashConv 0, best so far 0, learned responses (lower bound) 0.05"
    expect(gains).to_have_attribute("aria-valuetext", said)
    ratings = page.get_by_role("slider", name="Elo of each policy")
    for key, said in (("End", "iteration 1: left 5, left (2) –"), ("Home", "iteration 0: left 10, left (2) 20")):
        ratings.press(key)
        expect(ratings).to_have_attribute("aria-valuetext", said)


def seconds_of_children() -> float:
    """Return the processor time of this process's living descendants, including Chromium's [s]."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])

    def ours(pid: int) -> bool:
        parent = stats[pid][0] if pid in stats else 0
        return parent == os.getpid() or (parent > 1 and ours(parent))

    return sum(ticks for pid, (_, ticks) in stats.items() if ours(pid)) / os.sysconf("SC_CLK_TCK")


def test_many_agents_are_painted_in_every_frame_and_in_half_of_its_time(view):
    """105 agents with trails, painted without a GPU: a new step in every frame, and cheap trails."""
    page = view(training({**moving(105, 1300), "fps": 120}), before=COUNTED)
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    frames, turns = 100, 2

    def work() -> tuple[int, float]:
        """Return the number of frames in which the step changed, and the processor time per frame [ms]."""
        before = seconds_of_children()
        moved = page.evaluate(MOVED, frames)
        return moved, 1000 * (seconds_of_children() - before) / frames

    still, idle = work()
    page.get_by_role("button", name="Play", exact=True).click()
    until(page, 30)
    counts, trails, plain = [], [], []
    for _ in range(turns):  # the lesser of two counts: other programs only add to a frame's time
        for label, spent in ((page.get_by_label("Trails").check, trails), (page.get_by_label("Trails").uncheck, plain)):
            label()
            moved, each = work()
            counts.append(moved)
            spent.append(each)
    trails, plain = min(trails), min(plain)
    assert page.get_by_role("button", name="Pause").is_visible(), "it played to the end"
    print(
        f"105 agents: another step in {min(counts)} of {frames} frames, {trails - idle:.1f} ms of a processor for "
        f"each, {plain - idle:.1f} ms without trails"
    )
    assert (still, *counts) == (0, *[frames] * 2 * turns)
    assert trails - idle <= TRAILS * (plain - idle)


def test_exported_file_needs_no_server(view, api, tmp_path):
    played, trouble = export(api, tmp_path / "run.html")
    assert played > 1
    assert not trouble
    page = view(url=(tmp_path / "run.html").as_uri())
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="Roll out")).to_have_count(0)
    cells = page.locator("[role=gridcell]:not([aria-disabled=true])")
    expect(cells).to_have_count(played - 1)  # the first rollout is of the meta-strategy, which has no cell
    cells.nth(1).click()
    expect(cells.nth(1)).to_have_attribute("aria-selected", "true")
    page.get_by_label("Recorded").select_option("0")
    expect(cells.nth(1)).to_have_attribute("aria-selected", "false")
    assert not [url for url in page.asked if not url.startswith(("file:", "data:"))]
