"""Colors of roles agree with the worlds."""

import colorsys

import pytest
import torch

from gpu_envs.rendering.palette import PALETTE, role_colors
from gpu_envs.runtime.factory import make_core

HUES = {"red": 0.02, "blue": 0.58, "green": 0.45, "olive": 0.12}
WORLDS = ["SimpleTag-v0", "SimpleAdversary-v0", "SimplePush-v0", "SimpleCrypto-v0", "SimpleWorldComm-v0",
          "TagContinuous-v0", "TagGridworld-v0", "SimpleSpread-v0", "DiscGame-v0"]  # fmt: skip


@pytest.mark.parametrize("env_id", WORLDS)
def test_groups_have_the_color_of_their_agents_in_the_world(env_id):
    core = make_core(env_id, 1, "cpu")
    core.alive.fill_(True)
    agents = core.definition.draw(core, torch.arange(1)).agents[0]
    single = len(core.groups) == 1 and env_id != "SimpleSpread-v0"
    names = {name: row for row, name in enumerate(core.possible_agents)} if single else None
    rows = names or {group: members[0] for group, members in core.groups.items()}
    colors = role_colors(env_id, list(rows))
    for name, row in rows.items():
        if env_id == "SimplePush-v0" and name == "agent":
            continue  # it has the color of its goal
        hue = colorsys.rgb_to_hsv(*agents[row, 6:9].tolist())[0]
        assert min(HUES, key=lambda color: abs(HUES[color] - hue)) == colors[name], name


def test_adversaries_are_red_and_other_roles_differ():
    for names in (["adversary", "agent"], ["tagger", "runner"], ["eve", "bob", "speaker"], ["agent", "adversary"]):
        colors = role_colors("Mine-v0", names)
        assert [name for name, color in colors.items() if color == "red"] == [
            name for name in names if name in ("adversary", "tagger", "eve")
        ]
        assert len(set(colors.values())) == len(names)
    assert role_colors("other:Mine-v0", ["left", "right"]) == dict(zip(["left", "right"], PALETTE, strict=False))
