"""LeducPoker-v0 (2 agents): Poker with a public card and two rounds."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import deal
from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, index, integers
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.games.scene import EDGE, FELT, card, chips, seats, turn_marker
from gpu_envs.rendering.scene import DARK, RED, Scene, join
from warp_kernels.games import leduc_poker

MAX_CHIPS = 1_000_000  # largest ante or raise


@dataclass(frozen=True)
class Config:
    """LeducPoker-v0 has no settings."""


def build(config: Config) -> EnvDefinition:
    return EnvDefinition(
        **game_roster({"player": 2}, leduc_poker.OBSERVATION_WIDTH, spaces.Discrete(3)),
        rules=leduc_poker.rules(),
        params={"ante": 1, "first_raise": 2, "second_raise": 4},
        bounds=dict.fromkeys(("ante", "first_raise", "second_raise"), (0, MAX_CHIPS)),
        state={
            "card": index((3,), 6),
            "chips": integers((2,), 0, 5 * MAX_CHIPS),  # the ante and four raises
            "round": index((), 2),
            "taken": integers((), 0, 4),
            "raised": integers((), 0, 2),
            "story": integers((2,), 0, 255),
            "mover": index((), 2),
        },
        zero_sum=True,
        max_episode_steps=8,  # at most two rounds of call, raise, raise, call
        time_limit_terminates=True,
        chance=deal("card", 6, 3),
        draw=draw,
        render_fps=1,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Player 0 below, player 1 above, with chips. Cards show J, Q or K in the color of the suit.
    """
    state = {name: tensor[envs] for name, tensor in core.world_state.items()}
    red, dark = (torch.tensor(color, device=core.device) for color in (RED, DARK))
    always = torch.ones(len(envs), dtype=torch.bool, device=core.device)
    parts = []
    assert core.to_move is not None
    places = (((0.0, -1.65), always), ((0.0, 1.65), always), ((0.0, 0.0), state["round"] == 1))
    for row, (seat, face_up) in enumerate(places):
        number = state["card"][:, row]
        color = torch.where((number % 2 == 0)[:, None], red, dark)
        if row < 2:
            parts.append(turn_marker(seat, core.to_move[envs, row]))
            parts.append(chips((1.62, seat[1]), state["chips"][:, row], 15, 5))
        parts.append(card(seat, number // 2, color, 3, face_up))
    agents = seats([seat for seat, _ in places[:2]], envs)
    return Scene(join(*parts), (-2.65, -2.65, 2.65, 2.65), background=FELT, border=EDGE, agents=agents)


def action_names(config: Config, row: int) -> list[str]:
    return ["fold", "call", "raise"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    story = "every action of the {} round (called, raised)"
    return [
        ObservationBlock("own seat, one-hot", width=2),
        ObservationBlock("own card, one-hot, lowest rank first, two suits per rank", width=6),
        ObservationBlock("public card, one-hot in the same order; zeros in the first round", width=6),
        *(
            ObservationBlock(story.format(number), width=8, parts=("called", "raised"))
            for number in ("first", "second")
        ),
    ]
