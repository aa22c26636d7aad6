"""Tests of the viewer's page in headless Chromium: phone, live runs, states, policies of leagues, colors, names."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect
from viewer import PHONE, STORIES, asked_policies, league, metrics, moving, packed, story, training

from gpu_envs.rendering.palette import PALETTE

pytest_plugins = ["browser_fixtures"]


@pytest.mark.parametrize("kind", ["training", "league"])
def test_page_fits_a_phone_and_shows_one_world_first(view, kind):
    played = moving(5, 10, worlds=4)
    page = view(training(played) if kind == "training" else {**story(STORIES), "api/rollout": played}, **PHONE)
    expect(page.get_by_role("combobox", name="World", exact=True)).to_have_value("0")
    assert page.get_by_role("combobox", name="World", exact=True).locator("option").all_inner_texts() == [
        "all, tiled", "1", "2", "3", "4",
    ]  # fmt: skip
    expect(page.locator(".plot canvas").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [panel.bounding_box() for panel in page.locator(".panel").all()]
    assert len({box["x"] for box in boxes}) == 1
    assert all(box["x"] + box["width"] <= 390 for box in boxes)
    page.get_by_text("Settings").click()
    box = page.locator(".settings > div").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_live_run_is_looped_followed_and_named(view):
    answers = training(moving(3, 5))
    page = view(answers, reduced_motion="no-preference")
    expect(page.locator(".state")).to_have_text("running, 20 of 40 iterations")
    expect(page.get_by_label("Loop")).to_be_checked()
    expect(page.get_by_label("Follow latest")).to_be_checked()
    expect(page.locator(".playing")).to_have_text("team: 000000020 (latest)")
    page.get_by_label("Speed").select_option("8")
    page.wait_for_timeout(2500)
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()  # 5 frames would be over
    newer = {"policies": {"team": ["random", "000000020", "000000030"]}, "latest": {"team": "000000030"}, "done": 30}
    seats = [{"name": "team", "role": "team", "policy": "000000030"}]
    answers["api/rollout"] = {**answers["api/rollout"], "seats": seats}
    answers["api/metrics"] = metrics(60, version=2)
    with page.expect_request("**/api/rollout*") as request:
        answers["api/run"] = {**answers["api/run"], **newer, "version": 2}
    assert asked_policies(request.value) == ["latest"]  # the server knows the newest
    expect(page.locator(".playing")).to_have_text("team: 000000030 (latest)")
    page.get_by_label("Follow latest").uncheck()
    count = len(page.urls)
    answers["api/metrics"] = metrics(70, version=3)
    last = {"policies": {"team": ["random", "000000040"]}, "latest": {"team": "000000040"}, "done": 40}
    answers["api/run"] = {**answers["api/run"], **last, "version": 3, "state": "finished", "writing": False}
    expect(page.locator(".state")).to_have_text("finished")
    page.wait_for_timeout(1000)
    assert not [url for url in page.urls[count:] if "api/rollout" in url]
    expect(page.locator(".playing")).to_have_text("team: 000000030")


@pytest.mark.parametrize(
    ("state", "text"),
    [("running", "running, 88 of 1,875 iterations"), ("stopped", "stopped at 88 of 1,875 iterations"),
     ("ended", "ended at 88 of 1,875 iterations"), ("finished", "finished")],
)  # fmt: skip
def test_state_of_a_run_is_shown(view, state, text):
    answers = training(moving(2, 4))
    answers["api/run"] |= {"state": state, "writing": state == "running", "done": 88, "total": 1875}
    page = view(answers)
    expect(page.locator(".state")).to_have_text(text)
    expect(page.get_by_label("Follow latest")).to_be_checked(checked=state == "running")


def test_league_offers_main_agents_and_the_mixture_by_short_names(view):
    page = view(story(STORIES))
    seat = page.get_by_role("combobox", name="left", exact=True)
    expect(seat.locator("option").nth(0)).to_have_text("latest main agent")
    expect(seat.locator("option").nth(1)).to_have_text("final meta-strategy")
    seat.select_option("meta-strategy")
    with page.expect_request("**/api/rollout*") as request:
        page.get_by_role("button", name="Roll out").click()
    assert asked_policies(request.value) == ["meta-strategy", "latest"]
    row = page.locator("[role=grid] tbody th")
    texts = row.all_inner_texts()
    assert {"random", "M0:1", "ME3:2", "LE0:1"} <= set(texts)
    assert row.nth(texts.index("LE0:1")).get_attribute("title") == "league_exploiter_0:1"
    expect(page.get_by_text("More to the right →; scroll to see it.").first).to_be_visible()
    page.locator(".scroll:has([role=grid])").evaluate("(box) => box.scrollTo(10000, 0)")
    expect(page.locator(".scroll:has([role=grid]) + .beyond")).to_have_text("← More to the left; scroll to see it.")


def test_players_differ_by_shape_and_color_and_lines_by_color_and_dash(view):
    page = view(story(STORIES))
    marks = page.locator(".lineage g[role=button]")
    expect(marks).to_have_count(1 + 2 * len(STORIES))
    assert {"random", "M0:1", "LE3:2"} <= set(page.locator(".lineage g[role=button] > text").all_text_contents())
    assert marks.nth(1).locator("title").text_content().startswith("main_0:1, policy")
    look = "(each) => each.map((g) => g.querySelector('.sign').getAttribute('d') + g.getAttribute('style'))"
    looks = marks.evaluate_all(look)
    assert len(set(looks)) == 1 + len(STORIES)
    assert looks[1] == looks[1 + len(STORIES)], "two stages of a player look alike"
    legend = page.locator("figure", has_text="Elo of each policy").locator(".values li").all()[1:]
    samples = [item.evaluate("(li) => li.firstElementChild.outerHTML") for item in legend]
    assert len(legend) == 1 + len(STORIES)
    assert len(set(samples)) == len(samples)


def test_role_has_one_color_and_a_high_payoff_is_blue(view):
    answers = league(moving(2, 4), 3)
    answers["api/run"]["colors"] = {"left": "red", "right": "green"}
    answers["api/run"]["roles"] = ["left", "right"]
    columns = ["iteration", "left/return", "right/return"]
    answers["api/metrics"] |= {"x": "iteration", "columns": columns, "rows": [[0, 1.0, 2.0], [1, 1.5, 2.5]]}
    page = view(answers)
    color = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--red').trim()")
    assert color == PALETTE["red"]
    for selector in (".playing span", "[role=grid] .corner div", "figure:has-text('left/return') li"):
        dot = page.locator(selector).locator("i.dot").first
        expect(dot).to_have_attribute("style", re.compile(r"var\(--red\)"))
    cells = page.get_by_role("gridcell")
    low, high = (cells.nth(i).evaluate("(cell) => getComputedStyle(cell).backgroundColor") for i in (2, 6))
    red, _, blue = map(float, re.findall(r"[\d.]+", high)[:3])
    assert blue > red
    red, _, blue = map(float, re.findall(r"[\d.]+", low)[:3])
    assert red > blue


def test_curves_span_gaps(view):
    answers = training(moving(2, 4))
    values = [0.5 if i < 15 or i >= 35 else None for i in range(50)]
    rows = [[i, 100 * i, value] for i, value in enumerate(values)]
    answers["api/metrics"] = {**metrics(0), "columns": ["iteration", "env_steps", "team/score"], "rows": rows}
    page = view(answers)
    chart = page.locator("figure", has_text="team/score").locator(".plot canvas")
    expect(chart).to_be_visible()
    blue = """() => {
      const canvas = [...document.querySelectorAll('figure')]
        .find((figure) => figure.textContent.includes('team/score')).querySelector('.plot canvas');
      const {width, height} = canvas;
      const {data} = canvas.getContext('2d').getImageData(Math.round(0.55 * width), 0, 1, height);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) count += data[i + 3] > 100 && data[i + 2] > data[i] + 60;
      return count > 0;
    }"""
    page.wait_for_function(blue)  # the gap is in the middle of the chart


def test_components_of_continuous_actions_have_names(view):
    played = moving(2, 4)
    action = np.broadcast_to(np.array([0.25, -1.5]), (3, 1, 2, 2))
    parts = {"action": packed(action), "action_parts": {"team": ["torque", "left push"]}}
    page = view(training({**played, **parts}))
    expect(page.locator(".agents tbody td").first).to_have_text("torque\u00a00.25, left\u00a0push\u00a0−1.50")


def test_short_names_of_several_roles_differ(view):
    roles = ("adversary", "agent")
    page = view(story([f"{kind}_{role}_0" for kind in ("main", "league_exploiter") for role in roles]))
    row = page.locator("[role=grid] tbody th")
    expect(row.filter(has_text="MAd0:1")).to_have_count(1)
    texts = row.all_inner_texts()
    assert {"random", "MAd0:1", "MAg0:1", "LEAd0:2", "LEAg0:2"} <= set(texts)
    assert len(set(texts)) == len(texts)
    assert row.nth(texts.index("MAg0:1")).get_attribute("title") == "main_agent_0:1"
    assert set(page.locator(".lineage g[role=button] > text").all_text_contents()) == set(texts)


def test_last_value_of_every_line_is_shown_with_its_place(view):
    answers = training(moving(2, 4))
    rows = [[i, 100 * i, 0.5 + i if i < 7 else None] for i in range(10)]
    answers["api/metrics"] = {**metrics(0), "columns": ["iteration", "env_steps", "team/score"], "rows": rows}
    page = view(answers)
    values = page.locator("figure", has_text="team/score").locator(".values li")
    expect(values).to_have_text(["env steps 900", "value 6.5 at 600"])
    page.locator("figure", has_text="team/score").locator(".plot").focus()
    page.keyboard.press("End")
    expect(values).to_have_text(["env steps 900", "value –"])
