"""SwitchRiddle-v0 (3 agents): Prisoners communicate by a lamp."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.rendering.scene import DARK, GRAY, GREEN, ORANGE, RED, Scene, boxes, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_SIZE, setting
from warp_kernels.games import switch_riddle


@dataclass(frozen=True)
class Config:
    """Settings of SwitchRiddle-v0, with the names and defaults of JaxMARL."""

    num_agents: int = setting(3, ge=3, le=MAX_SIZE)
    """Number of prisoners n; an episode has at most 4 n - 6 steps."""
    initial_bulb_state: bool = setting(False)
    """Start with the lamp on."""
    reward_all_die: float = setting(-1.0)
    """Reward of every agent if one tells before all have been in the room."""
    reward_all_live: float = setting(1.0)
    """Reward of every agent if one tells and all have been in the room."""


def time_limit(num_agents: int) -> int:
    """Return the largest number of steps of an episode, as in Foerster et al. (2016)."""
    return 4 * num_agents - 6


def build(config: Config) -> EnvDefinition:
    agents = config.num_agents
    return EnvDefinition(
        **roster(
            {"agent": agents},
            {"agent": switch_riddle.OBSERVATION},
            {"agent": spaces.Discrete(switch_riddle.NUM_ACTIONS)},
            low=0.0,
            high=1.0,
        ),
        rules=switch_riddle.rules(agents),
        params=params_of(
            config,
            switch_riddle.Params,
        ),
        state={
            "bulb": integers((), 0, 1),
            "room": index((), agents),
            "been": integers((agents,), 0, 1),
            "key": any_bits(()),
            "claim": integers((), 0, 2),
        },
        global_state_size=2 * agents + 2,
        max_episode_steps=time_limit(agents),
        time_limit_terminates=True,
        bounds={"initial_bulb_state": (0, 1)},
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    A room with a lamp above and the cells of the prisoners below. The prisoner in the room is missing in its cell. A
    check mark is below the cells of those who have been in the room.
    """
    count, state = core.num_agents, core.world_state
    room, bulb, been, claim = (state[name][envs] for name in ("room", "bulb", "been", "claim"))
    across = max(count, 3)
    column = (torch.arange(count, device=core.device) + 0.5 * (across - count) + 0.5).float()
    cells = torch.stack([column, torch.full_like(column, 0.75)], -1).expand(len(envs), -1, -1)
    inside = room[:, None] == torch.arange(count, device=core.device)

    def spot(x: float, y: float) -> torch.Tensor:
        return torch.tensor([[[x, y]]], device=core.device).expand(len(envs), 1, 2)

    def shift(places: torch.Tensor, right: float, up: float) -> torch.Tensor:
        return places + torch.tensor([right, up], device=core.device)

    middle = 0.5 * across
    position = torch.where(inside[..., None], spot(middle - 0.5, 2.15), cells)
    on = (bulb > 0)[:, None]
    lit = torch.tensor([1.0, 0.87, 0.3], device=core.device)
    dark = torch.tensor([0.45, 0.47, 0.5], device=core.device)
    lamp = spot(middle, 2.95)
    wall = torch.where(claim[:, None, None] == 2, torch.tensor(GREEN, device=core.device), torch.tensor(DARK).to(lamp))
    wall = torch.where(claim[:, None, None] == 1, torch.tensor(RED, device=core.device), wall)
    bars = [lines(shift(cells, x, -0.38), shift(cells, x, 0.38), 0.03, GRAY) for x in (-0.24, 0.0, 0.24)]
    lever = torch.where(on[..., None], spot(middle + 0.62, 2.45), spot(middle + 0.62, 2.05))
    shapes = join(
        boxes(
            spot(middle, 2.45),
            torch.tensor([1.0, 0.85]),
            torch.where(on[..., None], 0.25 * lit + 0.75, 0.82 * lit.new_ones(3)),
        ),
        boxes(spot(middle, 2.45), torch.tensor([1.0, 0.85]), wall, line_width=0.06),
        circles(lamp, 0.5, lit, 0.35 * on),
        lines(spot(middle, 3.3), shift(lamp, 0.0, 0.2), 0.04, DARK),
        circles(lamp, 0.19, torch.where(on[..., None], lit, dark)),
        rings(lamp, 0.19, DARK, 0.03),
        boxes(shift(lamp, 0.0, 0.2), torch.tensor([0.08, 0.06]), DARK),
        boxes(spot(middle + 0.62, 2.25), torch.tensor([0.12, 0.2]), PAPER),
        boxes(spot(middle + 0.62, 2.25), torch.tensor([0.12, 0.2]), DARK, line_width=0.03),
        lines(spot(middle + 0.62, 2.25), lever, 0.07, DARK),
        boxes(cells, 0.42, PAPER),
        boxes(cells, 0.42, DARK, line_width=0.04),
    )
    figures = [
        boxes(shift(position, 0.0, -0.18), torch.tensor([0.17, 0.17]), ORANGE),
        circles(shift(position, 0.0, 0.12), 0.14, (0.96, 0.80, 0.62)),
        rings(shift(position, 0.0, 0.12), 0.14, DARK, 0.025),
        circles(shift(position, -0.05, 0.14), 0.02, DARK),
        circles(shift(position, 0.05, 0.14), 0.02, DARK),
    ]
    checks = [
        lines(shift(cells, -0.14, -0.62), shift(cells, -0.03, -0.72), 0.06, GREEN, been > 0),
        lines(shift(cells, -0.03, -0.72), shift(cells, 0.17, -0.5), 0.06, GREEN, been > 0),
    ]
    return Scene(
        join(shapes, *figures, *bars, *checks),
        (0.0, -0.1, float(across), 3.4),
        border=None,
        agents=circles(position, 0.2, ORANGE),
    )


def action_names(config: Config, row: int) -> list[str]:
    return ["nothing", "switch", "tell"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [
        ObservationBlock("1 if the agent is in the room"),
        ObservationBlock("1 if the agent is in the room and the lamp is on"),
    ]
