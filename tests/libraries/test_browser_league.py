"""Tests of the viewer's page of a league in headless Chromium: payoffs, charts, keyboard and exported file."""

from playwright.sync_api import expect
from viewer import asked_policies, expect_frame, frame, league, moving

from league.watch.export import export

pytest_plugins = ["browser_fixtures"]


def test_payoff_cell_plays_its_match(view, served, api):
    page = view(url=served)
    names = [api.latest.get()[0].policies[seat.role] for seat in api.latest.get()[0].stage.seats]
    cells = page.get_by_role("gridcell")
    expect(cells).to_have_count(len(names[0]) * len(names[1]))
    expect(page.get_by_text("player_0: final meta-strategy")).to_be_visible()
    expect(page.locator("[role=gridcell][aria-selected=true]")).to_have_count(0)
    with page.expect_request("**/api/rollout*") as request:
        cells.nth(1).click()
    assert asked_policies(request.value) == [names[0][0], names[1][1]]
    expect(cells.nth(1)).to_have_attribute("aria-selected", "true")
    cells.nth(1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(cells.nth(len(names[1]))).to_be_focused()
    with page.expect_request("**/api/rollout*") as request:
        page.keyboard.press("Enter")
    assert asked_policies(request.value) == [names[0][1], names[1][0]]
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
    start = page.evaluate("performance.now()")
    page.keyboard.press("Home")
    expect(heading).to_have_text("Payoffs left 1–60 of 300, right 241–300 of 300")
    print(f"another range after {page.evaluate('performance.now()') - start:.0f} ms")
    expect(cells).to_have_count(60 * 60)
    assert "p1 against p240: −239" in cells.nth(60).get_attribute("aria-label")
    with page.expect_request("**/api/rollout*") as request:
        cells.nth(60).click()
    assert asked_policies(request.value) == ["p1", "p240"]
    cells.nth(60).press("ArrowDown")
    expect(cells.nth(120)).to_be_focused()
    with page.expect_request("**/api/rollout*") as request:
        page.keyboard.press("Enter")
    assert asked_policies(request.value) == ["p2", "p240"]


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
    assert not [html[:90] for _, is_visible, html in reached if not is_visible], "where the focus is can be seen"
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
    text = "iteration 1: NashConv 0, best so far 0, learned responses (lower bound) 0.05"
    expect(gains).to_have_attribute("aria-valuetext", text)
    ratings = page.get_by_role("slider", name="Elo of each policy")
    for key, text in (("End", "iteration 1: left 5, left (2) –"), ("Home", "iteration 0: left 10, left (2) 20")):
        ratings.press(key)
        expect(ratings).to_have_attribute("aria-valuetext", text)


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
    assert not [url for url in page.urls if not url.startswith(("file:", "data:"))]
