"""TagGridworld-v0 (11 agents): Taggers chase one runner on a grid."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, RED, Scene, boxes, circles, join, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.tag import tag_gridworld

MAX_LENGTH = 32_767
"""Largest grid_length, for which squared distances fit into 32 bits."""


@dataclass(frozen=True)
class Config:
    """Settings of TagGridworld-v0, with the names and defaults of WarpDrive, but a new start in every episode.

    Penalties and costs are magnitudes (>= 0) that are subtracted.
    """

    num_taggers: int = setting(10, ge=1)
    """Number of taggers; there is one runner."""
    grid_length: int = setting(10, ge=1, le=MAX_LENGTH)
    """Largest coordinate; a side has grid_length + 1 cells."""
    episode_length: int = setting(100, ge=1, le=MAX_INT)
    """Length of an episode T [steps]; observations contain t / T."""
    wall_hit_penalty: float = setting(0.1, ge=0.0)
    """Penalty of an agent that runs into the wall."""
    tag_reward_for_tagger: float = setting(10.0, ge=0.0)
    """Reward of every tagger when one of them tags the runner."""
    tag_penalty_for_runner: float = setting(2.0, ge=0.0)
    """Penalty of the runner when it is tagged."""
    step_cost_for_tagger: float = setting(0.01, ge=0.0)
    """Cost of taggers, and reward of the runner, in every step without a tag."""
    use_full_observation: bool = setting(True)
    """Observe all agents, instead of the opposing side only."""
    time_limit: str = setting("termination", choices=("termination", "truncation"))
    """Kind of the end at t = T: a termination (as in WarpDrive) or a truncation."""
    fixed_start: bool = setting(False)
    """Start as in WarpDrive: taggers on the middle cell, the runner on (0, 0)."""
    starting_location_x: tuple[int, ...] | None = None
    """Initial x of every agent [cells], the runner last; set it with the field below, for a fixed start."""
    starting_location_y: tuple[int, ...] | None = None
    """Initial y of every agent [cells]."""

    def __post_init__(self) -> None:
        """Check conditions that involve several fields."""
        count = self.num_taggers + 1
        starts = [self.starting_location_x, self.starting_location_y]
        if any(values is not None for values in starts) and not all(
            values is not None and len(values) == count for values in starts
        ):
            raise ConfigError(f"starting_location_x and starting_location_y need {count} cells each, or none of them")
        for name in ("starting_location_x", "starting_location_y"):
            for index, cell in enumerate(getattr(self, name) or ()):
                if not 0 <= cell <= self.grid_length:
                    raise ConfigError(f"{name}[{index}]: expected a cell in [0, {self.grid_length}], got {cell}")

    def start(self) -> np.ndarray | None:
        """Return the fixed start cells (A, 2), or None for random starts."""
        if self.starting_location_x is not None:
            return np.array([self.starting_location_x, self.starting_location_y]).T
        if self.fixed_start:
            return np.array([[self.grid_length // 2] * 2] * self.num_taggers + [[0, 0]])
        return None


def build(config: Config) -> EnvDefinition:
    count = config.num_taggers + 1
    counts = {"tagger": config.num_taggers, "runner": 1}
    width = tag_gridworld.observation_width(count, config.use_full_observation)
    named = roster(counts, dict.fromkeys(counts, width), dict.fromkeys(counts, spaces.Discrete(5)), 0.0, 1.0)
    start = config.start()
    return EnvDefinition(
        **named,
        rules=tag_gridworld.rules(
            config.num_taggers, config.use_full_observation, "random" if start is None else "given"
        ),
        params=params_of(config, tag_gridworld.Params),
        state={
            "cell": integers((count,), 0, MAX_LENGTH),  # grid_length may differ by world
            "survived": (count,),
            "start": integers((0 if start is None else count,), 0, MAX_LENGTH),
        },
        initial={} if start is None else {"start": start.astype(np.int32)},
        roles={"tagger": ("tagger",), "runner": ("runner",)},
        info={"survived": "survived"},
        results=("survived",),
        max_episode_steps=config.episode_length,
        time_limit_terminates=config.time_limit == "termination",
        fixed_params=("episode_length",),
        draw=draw,
        render_fps=8,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The cells, the runner as a blue square, taggers as red discs, overlapping on a shared cell.
    """
    sides = core.get_params(envs)["grid_length"][:, None] + 1.0  # (W, 1), they differ by world
    axis = torch.arange(int(sides.max()), device=core.device) + 0.5
    grid = torch.cartesian_prod(axis, axis).expand(len(envs), -1, -1)
    cell = core.world_state["cell"][envs]
    taggers = cell[:, :-1]
    together = (taggers[:, :, None] == taggers[:, None]).all(-1)  # (W, n, n)
    count, order = together.sum(-1), together.tril(-1).sum(-1)  # agents on the same cell, and those in lower rows
    aside = (order - 0.5 * (count - 1)) * (0.5 / count.clamp(min=4))
    middles = taggers + 0.5 + aside[..., None] * torch.tensor([1.0, -1.0], device=core.device)
    lattice = boxes(grid, 0.5, GRAY, alpha=0.35 * (grid.amax(2) < sides), line_width=0.03)
    runner = boxes(cell[:, -1:] + 0.5, 0.42, BLUE)
    discs, edges = circles(middles, 0.3, RED), rings(middles, 0.3, DARK, 0.03, 0.6)
    coins = torch.stack([discs, edges], 2).flatten(1, 2)  # the edge of a disc is painted before the next disc
    bounds = torch.cat([0.0 * sides, 0.0 * sides, sides, sides], 1)
    parts = join(lattice, runner, coins)
    return Scene(parts, bounds, agents=join(discs, runner), ground=lattice.shape[1])


def action_names(config: Config, row: int) -> list[str]:
    return ["stay", "+x", "-x", "+y", "-y"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    count, unit, time = config.num_taggers + 1, "`grid_length`", ObservationBlock("time", "`episode_length`")
    if config.use_full_observation:
        return [
            ObservationBlock("x of all agents in row order", unit, width=count),
            ObservationBlock("y of all agents", unit, width=count),
            ObservationBlock("type of all agents: 0 tagger, 1 runner", width=count),
            ObservationBlock("own row, one-hot", width=count),
            time,
        ]
    opponent = "the nearest tagger, the lowest row among ties" if row == config.num_taggers else "the runner"
    return [
        ObservationBlock("own cell (x, y)", unit, width=2, parts=("x", "y")),
        ObservationBlock(f"cell (x, y) of {opponent}", unit, width=2, parts=("x", "y")),
        ObservationBlock("own type: 0 tagger, 1 runner"),
        time,
    ]
