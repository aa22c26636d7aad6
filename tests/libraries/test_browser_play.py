"""`gpu-envs play` in headless Chromium: clicks on a board, and keys for a particle."""

import re

from playwright.sync_api import expect
from viewer import WAIT, serving

from gpu_envs.runtime.factory import make_core
from league.watch.play import PlayApi

pytest_plugins = ["browser_fixtures"]


def play(env_id, agent):
    core = make_core(env_id, 1, "cpu", autoreset="disabled")
    return PlayApi(core, agent, {}, "random actions of the others", seed=0)


def test_board_is_played_with_clicks(view):
    api = play("TicTacToe-v0", "player_0")
    with serving(api) as url:
        page = view(url=url)
        expect(page.get_by_text("You are player_0, with random actions of the others.")).to_be_visible()
        for cells_taken in (2, 4):  # one by the person, one by the other player
            page.locator("button:enabled", has=page.locator("kbd")).first.click()
            expect(page.locator("button:disabled")).to_have_count(cells_taken)
        page.get_by_role("button", name="New episode").click()
        expect(page.locator("button:disabled")).to_have_count(0)


def test_particle_moves_with_the_arrow_keys(view):
    api = play("SimpleSpread-v0", "agent_0")
    with serving(api) as url:
        page = view(url=url)
        expect(page.get_by_role("button", name=re.compile("right"))).to_be_visible()
        waits = page.get_by_label("The world does not wait")
        if waits.is_checked():
            waits.uncheck()
        for _ in range(WAIT // 50):  # a key that is pressed while the page waits for an answer does nothing
            if api.core.elapsed_steps.item() >= 2:
                break
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(50)
        assert api.core.elapsed_steps.item() >= 2
        assert api.core.obs[0, 0, 0] > 0.0, "velocity to the right"
