"""SimpleCrypto-v0 on the host: settings, agents, spaces, drawing. Rules: ``warp_kernels/mpe/simple_crypto.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, box, index
from gpu_envs.mpe import common
from gpu_envs.mpe.camera import letters
from warp_kernels.mpe import simple_crypto

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene

AGENTS = ("eve_0", "bob_0", "alice_0")  # in the order of rows
LETTERS = int(simple_crypto.LETTERS)  # of the alphabet


@dataclass(frozen=True)
class Config:
    """Settings of SimpleCrypto-v0, under mpe2's names and with its defaults."""

    max_cycles: int = setting(25, low=1, high=MAX_INT)
    """Steps until the episode is truncated."""
    continuous_actions: bool = setting(False)
    """Box(0, 1, (4,)) actions, a loudness per letter, instead of Discrete(4), one letter."""
    dynamic_rescaling: bool = setting(True)
    """Without effect: a picture has no camera here."""
    benchmark_data: bool = setting(False)
    """Tell mpe2's benchmark figures in `info`."""


def build(config: Config) -> Definition:
    """Put the environment together."""
    widths = {"eve_0": LETTERS, "bob_0": 2 * LETTERS, "alice_0": 2 * LETTERS}
    space = common.action_space(config.continuous_actions, 0, LETTERS)
    return Definition(
        rules=simple_crypto.rules(config.continuous_actions, config.benchmark_data),
        params={"bob_weight": 1.0, "eve_weight": 1.0},
        state={
            "goal": index((), LETTERS),
            "key": index((), LETTERS),
            "said": (3, LETTERS),
            "benchmark": (3, 2 * LETTERS if config.benchmark_data else 0),
        },
        agents=AGENTS,
        groups={"eve": (0,), "bob": (1,), "alice": (2,)},
        roles={"eve": ("eve",), "allies": ("bob", "alice")},
        observation_spaces={agent: box(widths[agent]) for agent in AGENTS},
        action_spaces=dict.fromkeys(AGENTS, space),
        max_steps=config.max_cycles,
        limit_terminates=False,
        draw=draw,
        render_fps=2,
        info={"benchmark_data": "benchmark"} if config.benchmark_data else {},
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: Alice left, Bob right, Eve below, in letters' colours.

    A disc is the letter told loudest; Alice's has the goal in it. Squares are the key, the dots what is said.
    """
    from gpu_envs import rendering as paint

    state, device = core.world_state, core.device
    palette = torch.tensor([paint.BLUE, paint.ORANGE, paint.PURPLE, paint.DARK], device=device)
    said, goal, key = state["said"][envs], state["goal"][envs].long(), state["key"][envs].long()
    places = torch.tensor([[0.0, -0.5], [0.72, 0.42], [-0.72, 0.42]], device=device).expand(len(envs), 3, 2)
    zoom = torch.ones((len(envs), 1), device=device)
    wire = (0.80, 0.81, 0.83)
    middle = places.new_tensor([[0.0, 0.42]]).expand(len(envs), 1, 2)
    shapes = [paint.lines(places[:, 2:], places[:, 1:2], 0.025, wire), paint.lines(middle, places[:, :1], 0.025, wire)]
    sent = palette[said[:, 2].argmax(1)][:, None]
    shapes += [
        paint.circles(middle, 0.075, sent, said[:, 2].amax(1, keepdim=True)),
        paint.rings(middle, 0.075, paint.GREY, 0.015),
    ]
    for row, edge in enumerate((paint.RED, paint.GREEN, paint.GREEN)):
        spot, loud = places[:, row : row + 1], said[:, row].amax(1, keepdim=True)
        colour = palette[said[:, row].argmax(1)][:, None]
        shapes += [
            paint.circles(spot, 0.2, (1.0, 1.0, 1.0)),
            paint.circles(spot, 0.2, colour, loud),
            paint.rings(spot, 0.2, edge, 0.035),
            letters(spot - places.new_tensor([0.0, 0.29]), said[:, row], zoom, palette),
        ]
        if row:
            shapes.append(paint.boxes(spot + places.new_tensor([0.0, 0.31]), 0.055, palette[key][:, None]))
    alice = places[:, 2:]
    shapes += [paint.circles(alice, 0.1, (1.0, 1.0, 1.0)), paint.circles(alice, 0.08, palette[goal][:, None])]
    agents = paint.circles(places, 0.2, torch.tensor([paint.RED, paint.GREEN, paint.GREEN], device=device))
    return paint.Scene(paint.join(*shapes), (-1.0, -1.0, 1.0, 1.0), margin=0.06, agents=agents)
