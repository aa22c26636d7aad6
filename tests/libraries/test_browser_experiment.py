"""Tests of the viewer's page in headless Chromium: an experiment, its filter, and the way to its runs."""

import re

from playwright.sync_api import expect
from viewer import PHONE, experiment, moving

pytest_plugins = ["browser_fixtures"]


def test_curves_have_intervals_and_a_filter(view):
    page = view(experiment(moving(2, 4)))
    expect(page.locator(".state")).to_have_text("running, 20 of 40 runs")
    pole = page.get_by_role("slider", name="pole: eval/score (return per team), threshold 3")
    expect(pole).to_have_attribute("aria-valuetext", "env steps 400: ppo 4 [3.5, 4.5], a2c 5 [4.5, 5.5]")
    pole.press("Home")
    expect(pole).to_have_attribute("aria-valuetext", "env steps 100: ppo 1 [0.5, 1.5], a2c 2 [1.5, 2.5]")
    rows = page.locator("tbody tr", has=page.locator(".seeds"))
    expect(rows).to_have_count(4)
    page.get_by_role("checkbox", name="ppo").uncheck()
    expect(pole).to_have_attribute("aria-valuetext", re.compile(r"env steps \d+: a2c "))
    expect(rows).to_have_count(2)
    page.get_by_role("checkbox", name="pole").uncheck()
    expect(pole).to_have_count(0)
    expect(page.get_by_role("slider", name="tag: eval/won")).to_be_visible()
    expect(rows).to_have_count(1)
    page.get_by_role("checkbox", name="a2c").uncheck()
    expect(page.get_by_text("These cells have no evaluation of all seeds yet.")).to_be_visible()


def test_run_is_opened_and_left_by_links(view):
    page = view(experiment(moving(2, 4)))
    expect(page.get_by_role("link")).to_have_count(6)  # two runs have not begun
    expect(page.get_by_role("link", name="ppo on tag, seed 1")).to_have_text("1 (83 %)")
    page.get_by_role("link", name="ppo on tag, seed 1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("paper / tag / ppo / seed-1")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    expect(page.get_by_role("slider", name="team/entropy")).to_be_visible()
    page.get_by_role("link", name="paper").click()
    expect(page.get_by_role("link", name="ppo on tag, seed 1")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("paper / tag / ppo / seed-1")


def test_running_experiment_is_followed(view):
    answers = experiment(moving(2, 4))
    page = view(answers)
    chart = page.get_by_role("slider", name="tag: eval/won")
    expect(chart).to_have_attribute("aria-valuemax", "3")
    cells = [{**cell, "curve": [*cell["curve"], [500, 5, 4, 6]]} for cell in answers["api/experiment"]["cells"]]
    answers["api/experiment"] = {**answers["api/experiment"], "cells": cells, "version": 2}
    answers["api/run"] = {**answers["api/run"], "version": 2, "state": "finished", "writing": False}
    expect(chart).to_have_attribute("aria-valuetext", "env steps 500: ppo 5 [4, 6], a2c 5 [4, 6]")
    expect(page.locator(".state")).to_have_text("finished")


def test_experiment_fits_a_phone(view):
    page = view(experiment(moving(2, 4)), **PHONE)
    expect(page.locator(".plot canvas")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
