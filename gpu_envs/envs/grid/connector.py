"""Connector-v0 (10 agents): Agents wire pairs of cells without crossing."""

import colorsys
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import DARK, GRAY, Scene, boxes, circles, join, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.grid import connector


@dataclass(frozen=True)
class Config:
    """Settings of Connector-v0, with the names and defaults of Jumanji's Connector-v3."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "time_limit": "max_episode_steps",
        "max_steps": "max_episode_steps is the time limit, max_walk_steps the length of random walks",
    }
    """Names of Jumanji."""

    grid_size: int = setting(10, ge=2, le=connector.MAX_SIDE)
    """Number of rows and of columns."""
    num_agents: int = setting(10, ge=1)
    """Number of agents."""
    max_episode_steps: int = setting(50, ge=1, le=MAX_INT)
    """Time limit [steps]; it truncates."""
    generator: str = setting("random_walk", choices=("random_walk", "uniform"))
    """Start: targets at the ends of random walks, so that all agents can connect, or uniformly random cells."""
    temperature: float = setting(1.0, ge=0.001)
    """Temperature of random walks: low values lead far away from the start."""
    max_walk_steps: int | None = setting(None, ge=1, le=255)
    """Limit of the length of random walks, including the first step [steps]; None: 1.5 * grid_size."""
    connected_reward: float = 1.0
    """Reward of an agent for reaching its target."""
    timestep_reward: float = -0.03
    """Reward of an agent in every step that begins before it is connected."""
    shared_rewards: bool = setting(False)
    """Every agent gets the sum of all rewards."""
    cnn: bool = setting(False)
    """Observe an image of 5 channels, for `--learner.network cnn`, instead of a vector."""

    def __post_init__(self) -> None:
        cells = self.grid_size**2
        # Each walk starts in two neighboring cells. If fewer than half of all such pairs that fit are placed at once,
        # there is room for another one.
        limit = cells // 2 if self.generator == "uniform" else (cells // 2 + 1) // 2
        if self.num_agents > limit:
            raise ConfigError(
                f"num_agents: expected at most {limit} with grid_size={self.grid_size} and "
                f"generator={self.generator!r}, got {self.num_agents}"
            )

    @property
    def walk_steps(self) -> int:
        """Limit of the length of random walks [steps]."""
        return int(1.5 * self.grid_size) if self.max_walk_steps is None else self.max_walk_steps


def original_settings(name: str) -> dict[str, int]:
    """Return the settings of a task of Mava and Sable, such as "con-10x10x10a": rows, columns, agents.

    Raises:
        ConfigError: The name is no such task.
    """
    match = re.fullmatch(r"con-(\d+)x(\d+)x(\d+)a", str(name))
    if match is None or match[1] != match[2]:
        raise ConfigError(f"name: expected a task of Mava such as 'con-10x10x10a', got {name!r}")
    return {"grid_size": int(match[1]), "num_agents": int(match[3])}


def build(config: Config) -> EnvDefinition:
    agents, side = config.num_agents, config.grid_size
    width = connector.LAYERS * side * side
    named = roster({"agent": agents}, {"agent": width}, {"agent": spaces.Discrete(connector.NUM_ACTIONS)})
    shape = (connector.LAYERS, side, side) if config.cnn else (width,)
    named["observation_spaces"] = dict.fromkeys(named["agents"], spaces.Box(0.0, 1.0, shape, np.float32))
    return EnvDefinition(
        **named,
        rules=connector.rules(agents, side),
        params=params_of(
            config,
            connector.Params,
            uniform=int(config.generator == "uniform"),
            max_walk=config.walk_steps,
        ),
        state={
            "grid": integers((side, side), 0, 3 * agents),
            "position": integers((agents,), 0, side - 1),
            "target": integers((agents,), 0, side - 1),
            "destination": integers((agents,), 0, side - 1),
            "connected": integers((agents,), 0, 1),
            "length": integers((agents,), 1, side * side),
        },
        scratch=("destination",),
        global_state_size=3 * side * side,
        max_episode_steps=config.max_episode_steps,
        time_limit_terminates=False,
        channels_first=True,
        info={"connected": "connected", "path_length": "length"},
        results=("connected", "path_length"),
        bounds={"shared_rewards": (0, 1)},
        fixed_params=("uniform", "max_walk"),
        draw=draw,
        render_fps=6,
    )


def _colors(count: int) -> torch.Tensor:
    """Return a color per agent (A, 3); neighbors on the color wheel differ in lightness."""
    return torch.tensor(
        [colorsys.hls_to_rgb((0.58 + index / count) % 1.0, 0.42 + 0.16 * (index % 2), 0.62) for index in range(count)]
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: wires in the colors of the agents, discs for heads, squares for targets."""
    grid, heads, targets = (core.world_state[name][envs] for name in ("grid", "position", "target"))
    side, count = grid.shape[-1], heads.shape[1]
    colors = _colors(count).to(core.device)

    def centers(cells: torch.Tensor) -> torch.Tensor:
        """Return the centers of cells (W, N, 2); row 0 is at the top."""
        return torch.stack([cells[..., 1] + 0.5, side - 0.5 - cells[..., 0]], -1)

    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    cells = centers(torch.stack([rows.flatten(), columns.flatten()], -1)[None]).to(core.device)
    cells = cells.expand(len(envs), -1, -1)
    values = grid.flatten(1)
    owners = (values - 1).clamp(min=0) // 3
    is_wire, is_used = values % 3 == 1, (values > 0) & (values % 3 > 0)
    ground = boxes(cells, 0.5, GRAY, alpha=0.3, line_width=0.03)
    wires = boxes(cells, 0.46, 0.45 * colors[owners] + 0.55, alpha=is_used)
    dots = circles(cells, 0.1, colors[owners], alpha=is_wire)
    names = torch.arange(count, device=core.device).expand(len(envs), -1)
    ends, places = centers(targets), centers(heads)
    connected = core.world_state["connected"][envs]
    shapes = join(
        ground,
        wires,
        dots,
        boxes(ends, 0.38, colors),
        boxes(ends, 0.31, PAPER),
        numbers(ends, names, 0.4, 0.34, DARK, largest=count - 1),
        circles(places, 0.4, colors),
        rings(places, 0.4, DARK, 0.04, alpha=1 - connected),
        numbers(places, names, 0.4, 0.34, PAPER, largest=count - 1),
    )
    return Scene(
        shapes,
        (0.0, 0.0, float(side), float(side)),
        agents=circles(places, 0.4, colors),
        ground=ground.shape[1],
    )


def action_names(config: Config, row: int) -> list[str]:
    return ["stay", "up", "right", "down", "left"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    cells = [f"row {y}, column {x}" for y in range(config.grid_size) for x in range(config.grid_size)]
    layers = ("a head", "a target", "a wire", "the own head", "the own target")
    return [flags(f"1 in cells with {layer}; row 0 is at the top", cells) for layer in layers]
