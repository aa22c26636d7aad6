"""SimpleCrypto-v0 (3 agents): Two agents hide a message from a third."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, message_block
from gpu_envs.envs.mpe.scene import letters
from gpu_envs.rendering import scene as paint
from gpu_envs.rendering.scene import Scene
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import simple_crypto

LETTERS = int(simple_crypto.LETTERS)  # size of the alphabet


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleCrypto-v0, with the names and defaults of mpe2."""

    continuous_actions: bool = setting(False)
    """Use Box(0, 1, (4,)) actions, a loudness per letter, instead of Discrete(4), one letter."""
    dynamic_rescaling: bool = setting(True)
    """No effect: the camera is fixed in this environment."""


def build(config: Config) -> EnvDefinition:
    groups = ("eve", "bob", "alice")
    return scenario.define(
        config,
        counts=dict.fromkeys(groups, 1),
        widths={"eve": LETTERS, "bob": 2 * LETTERS, "alice": 2 * LETTERS},
        actions=dict.fromkeys(groups, scenario.action_space(config.continuous_actions, 0, LETTERS)),
        rules=simple_crypto.rules(config.continuous_actions, config.benchmark_data),
        params={"bob_weight": 1.0, "eve_weight": 1.0},
        state={
            "goal": index((), LETTERS),
            "key": index((), LETTERS),
            "said": (3, LETTERS),
            "benchmark": (3, 2 * LETTERS if config.benchmark_data else 0),
        },
        roles={"eve": ("eve",), "allies": ("bob", "alice")},
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: Alice left, Bob right, Eve below, in the colors of letters.

    The color of a disc is the loudest letter; Alice's disc contains the goal. Squares are the key, dots the messages.
    """
    state, device = core.world_state, core.device
    palette = torch.tensor([paint.BLUE, paint.ORANGE, paint.PURPLE, paint.DARK], device=device)
    loudness, goal, key = state["said"][envs], state["goal"][envs].long(), state["key"][envs].long()
    places = torch.tensor([[0.0, -0.5], [0.72, 0.42], [-0.72, 0.42]], device=device).expand(len(envs), 3, 2)
    zoom = torch.ones((len(envs), 1), device=device)
    wire = (0.80, 0.81, 0.83)
    middle = places.new_tensor([[0.0, 0.42]]).expand(len(envs), 1, 2)
    shapes = [paint.lines(places[:, 2:], places[:, 1:2], 0.025, wire), paint.lines(middle, places[:, :1], 0.025, wire)]
    sent = palette[loudness[:, 2].argmax(1)][:, None]
    shapes += [
        paint.circles(middle, 0.075, sent, loudness[:, 2].amax(1, keepdim=True)),
        paint.rings(middle, 0.075, paint.GRAY, 0.015),
    ]
    for row, edge in enumerate((paint.RED, paint.GREEN, paint.GREEN)):
        spot, loud = places[:, row : row + 1], loudness[:, row].amax(1, keepdim=True)
        color = palette[loudness[:, row].argmax(1)][:, None]
        shapes += [
            paint.circles(spot, 0.2, (1.0, 1.0, 1.0)),
            paint.circles(spot, 0.2, color, loud),
            paint.rings(spot, 0.2, edge, 0.035),
            letters(spot - places.new_tensor([0.0, 0.29]), loudness[:, row], zoom, palette),
        ]
        if row:
            shapes.append(paint.boxes(spot + places.new_tensor([0.0, 0.31]), 0.055, palette[key][:, None]))
    alice = places[:, 2:]
    shapes += [paint.circles(alice, 0.1, (1.0, 1.0, 1.0)), paint.circles(alice, 0.08, palette[goal][:, None])]
    agents = paint.circles(places, 0.2, torch.tensor([paint.RED, paint.GREEN, paint.GREEN], device=device))
    return paint.Scene(paint.join(*shapes), (-1.0, -1.0, 1.0, 1.0), margin=0.06, agents=agents)


def action_names(config: Config, row: int) -> list[str]:
    return [f"letter {letter}" for letter in range(LETTERS)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    goal = ObservationBlock("goal, the letter to send, one-hot", width=LETTERS)
    key, message = ObservationBlock("key, one-hot", width=LETTERS), message_block("Alice's", LETTERS)
    return ([message], [key, message], [goal, key])[row]
