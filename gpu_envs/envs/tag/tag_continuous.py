"""TagContinuous-v0 on the host: settings, agents, spaces, drawing. Rules: ``warp_kernels/tag/tag_continuous.py``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.config import MAX_INT, setting
from gpu_envs.definition import Definition, index, integers, roster
from gpu_envs.errors import ConfigError
from gpu_envs.runner import choose_search
from warp_kernels import cells
from warp_kernels.tag import tag_continuous

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Scene


@dataclass(frozen=True)
class Config:
    """Settings of TagContinuous-v0, under WarpDrive's names. Defaults: its tutorial 5, with a new start every episode.

    Rewards and penalties are signed as in WarpDrive: penalties are <= 0 and added.
    """

    num_taggers: int = setting(5, low=1)
    """Taggers."""
    num_runners: int = setting(100, low=1)
    """Runners."""
    grid_length: float = setting(20.0, low=1e-6)
    """Side of the square [m]."""
    episode_length: int = setting(500, low=1, high=MAX_INT)
    """Steps of an episode, T; the observation tells t / T."""
    max_acceleration: float = setting(0.1)
    """Largest change of speed to choose from [m/step^2]."""
    min_acceleration: float = setting(-0.1)
    """Smallest change of speed to choose from [m/step^2]."""
    num_acceleration_levels: int = setting(10, low=0)
    """Accelerations to choose from, evenly spaced, besides none (choice 0)."""
    max_turn: float = setting(2.35)
    """Largest turn to choose from [rad/step]."""
    min_turn: float = setting(-2.35)
    """Smallest turn to choose from [rad/step]."""
    num_turn_levels: int = setting(10, low=0)
    """Turns to choose from, evenly spaced, besides none (choice 0)."""
    max_speed: float = setting(1.0, low=0.0)
    """Speed cap [m/step], before skill."""
    skill_level_tagger: float = setting(1.0, low=0.0)
    """Factor of the taggers' speed cap."""
    skill_level_runner: float = setting(1.0, low=0.0)
    """Factor of the runners' speed cap."""
    edge_hit_penalty: float = setting(0.0, high=0.0)
    """Added when an agent runs into the wall."""
    step_penalty_for_tagger: float = setting(0.0, high=0.0)
    """Added for a tagger every step."""
    step_reward_for_runner: float = setting(0.0, low=0.0)
    """Added for a runner every step it starts alive."""
    tag_reward_for_tagger: float = setting(10.0, low=0.0)
    """Added for the tagger, per runner it tags."""
    tag_penalty_for_runner: float = setting(-10.0, high=0.0)
    """Added for a runner that is tagged."""
    end_of_game_reward_for_runner: float = setting(1.0, low=0.0)
    """Added at t = T for a runner still in the game."""
    use_full_observation: bool = setting(False)
    """Observe all others in row order, instead of the nearest."""
    num_other_agents_observed: int = setting(10, low=1, high=256)
    """K, neighbours in the partial observation; zeros fill it up where fewer are alive."""
    neighbour_search: str = setting("auto", choices=("auto", "brute", "grid"))
    """How the nearest are found, with the same answer: among all, or in a grid of cells; "auto" takes the quicker."""
    tagging_distance: float = setting(0.02, low=0.0, high=1.0)
    """A runner closer than this fraction of grid_length to a tagger is tagged."""
    runner_exits_game_after_tagged: bool = setting(True)
    """A tagged runner leaves the game; else it plays on."""
    time_limit: str = setting("termination", choices=("termination", "truncation"))
    """What the end at t = T is: part of the rules (as in WarpDrive), or a cut."""
    fixed_start: bool = setting(False)
    """Start every world and episode of a seed from one layout, as WarpDrive does."""
    starting_location_x: tuple[float, ...] | None = None
    """x of every agent at the start [m], taggers first; with the two below, instead of random starts."""
    starting_location_y: tuple[float, ...] | None = None
    """y of every agent at the start [m]."""
    starting_directions: tuple[float, ...] | None = None
    """Direction of every agent at the start [rad]."""

    def __post_init__(self) -> None:
        """Rules between fields."""
        count = self.num_taggers + self.num_runners
        for name in ("acceleration", "turn"):
            low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if low > high:
                raise ConfigError(f"min_{name} must be <= max_{name}, got {low} > {high}")
        if self.use_full_observation and self.neighbour_search == "grid":
            raise ConfigError("neighbour_search='grid' needs use_full_observation=False: everyone is observed")
        given = [self.starting_location_x, self.starting_location_y, self.starting_directions]
        if any(values is not None for values in given) and not all(
            values is not None and len(values) == count for values in given
        ):
            raise ConfigError(
                "starting_location_x, starting_location_y and starting_directions need "
                f"{count} numbers each, or none of them"
            )
        for name in ("starting_location_x", "starting_location_y"):
            for row, value in enumerate(getattr(self, name) or ()):
                if not 0.0 <= value <= self.grid_length:
                    raise ConfigError(f"{name}[{row}] must be in [0, {self.grid_length}], got {value}")


def build(config: Config) -> Definition:
    """Put the environment together."""
    count = config.num_taggers + config.num_runners
    width = tag_continuous.observation_width(count, config.num_other_agents_observed, config.use_full_observation)
    given = config.starting_location_x is not None
    nearest = 0 if config.use_full_observation else config.num_other_agents_observed
    search = config.neighbour_search if config.neighbour_search != "auto" else choose_search(count, nearest)
    grid = search == "grid"
    action = spaces.MultiDiscrete([config.num_acceleration_levels + 1, config.num_turn_levels + 1])
    same_name = (
        "grid_length episode_length max_speed skill_level_tagger skill_level_runner min_acceleration max_acceleration "
        "min_turn max_turn edge_hit_penalty step_penalty_for_tagger step_reward_for_runner tag_reward_for_tagger "
        "tag_penalty_for_runner end_of_game_reward_for_runner"
    )
    columns = (config.starting_location_x, config.starting_location_y, config.starting_directions)
    start = np.array(columns, np.float32).T if given else None
    counts = {"tagger": config.num_taggers, "runner": config.num_runners}
    named = roster(counts, dict.fromkeys(counts, width), dict.fromkeys(counts, action))
    cell_shapes = cells.shapes(count, nearest) if grid else dict.fromkeys(cells.shapes(1, 1), (0,))
    return Definition(
        **named,
        rules=tag_continuous.rules(
            config.num_taggers,
            config.num_runners,
            config.num_acceleration_levels,
            config.num_turn_levels,
            nearest,
            config.use_full_observation,
            "given" if given else "fixed" if config.fixed_start else "random",
            grid,
        ),
        params={name: getattr(config, name) for name in same_name.split()}
        | {
            "tagging_margin": config.tagging_distance * config.grid_length,
            "exits": int(config.runner_exits_game_after_tagged),
        },
        state=dict.fromkeys(("pos", "speed", "acceleration", "direction", "shown"), (count,))
        | {
            "caught_by": integers((count,), -1, config.num_taggers - 1),
            "tags": integers((config.num_taggers,), 0, config.num_runners),
            "left": integers((), 0, 1),
            "near": integers((count, 0 if grid else nearest), -1, count - 1),
            "cells": integers(cell_shapes["cells"], 0, count),
            "slot": index(cell_shapes["slot"], count),
            "who": index(cell_shapes["who"], count),
            "spot": cell_shapes["spot"],
            "start": (count if given else 0,),
        },
        initial={} if start is None else {"start": start},
        scratch=tuple(cells.shapes(1, 1)),
        dense=("pos", "speed", "acceleration", "direction", "shown"),
        roles={"tagger": ("tagger",), "runner": ("runner",)},
        max_steps=config.episode_length,
        limit_terminates=config.time_limit == "termination",
        fixed_params=("episode_length",),
        draw=draw,
        render_fps=20,
        global_state_size=tag_continuous.global_state_width(count),
    )


def draw(core: "Core", envs: torch.Tensor) -> "Scene":
    """Scene of some worlds: taggers red with a ring as far as a tag reaches, runners blue, a line ahead of all.

    Who has left is gone, but for the end of an episode; where tagged runners play on, they have a ring for a step.
    """
    from gpu_envs.rendering import BLUE, DARK, ORANGE, RED, Scene, circles, join, lines, rings

    taggers, params = core.config.num_taggers, core.get_params(envs)
    size, reach = params["grid_length"][:, None], params["tagging_margin"][:, None]  # (W, 1), they differ by world
    state = {name: tensor[envs] for name, tensor in core.world_state.items() if name in ("pos", "direction")}
    alive = core.alive[envs]
    alive = alive | (core.valid[envs] & ~alive.any(1, keepdim=True))
    radius = min(0.022, max(0.004, 0.09 / core.num_agents**0.5)) * size  # smaller in a crowd
    ahead = torch.stack([state["direction"].cos(), state["direction"].sin()], -1)
    hunters, prey = ([tensor[:, rows] for tensor in (state["pos"], ahead, alive)] for rows in _sides(taggers))
    bodies = circles(hunters[0], 1.3 * radius, RED, hunters[2]), circles(prey[0], radius, BLUE, prey[2])
    tagged = prey[2] & (core.world_state["caught_by"][envs, taggers:] >= 0)
    told = torch.where((reach > 1.3 * radius)[..., None], torch.tensor(RED, device=size.device), 1.0)  # white on a body
    parts = [
        circles(hunters[0], reach, RED, 0.14 * hunters[2]),
        lines(prey[0], prey[0] + 2.1 * radius[..., None] * prey[1], 0.5 * radius, BLUE, prey[2]),
        bodies[1],
        rings(prey[0], 1.5 * radius, ORANGE, 0.6 * radius, tagged),
        lines(hunters[0], hunters[0] + 2.4 * radius[..., None] * hunters[1], 0.7 * radius, RED, hunters[2]),
        bodies[0],
        rings(hunters[0], 1.3 * radius, DARK, 0.002 * size, 0.5 * hunters[2]),
        rings(hunters[0], reach, told, 0.004 * size, 0.8 * hunters[2]),
    ]
    return Scene(join(*parts), torch.cat([0.0 * size, 0.0 * size, size, size], 1), agents=join(*bodies))


def _sides(taggers: int) -> tuple[slice, slice]:
    """Rows of taggers and runners."""
    return slice(0, taggers), slice(taggers, None)
