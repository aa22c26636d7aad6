"""TagContinuous-v0 (105 agents): Taggers chase many runners on a square."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, index, integers, params_of, roster
from gpu_envs.descriptions import Entities, ObservationBlock
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, ORANGE, RED, Scene, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.spatial import cell_grid
from warp_kernels.tag import tag_continuous, tag_observation


@dataclass(frozen=True)
class Config:
    """Settings of TagContinuous-v0, with the names of WarpDrive.

    Defaults are those of its tutorial 5, but with a new start in every episode.
    Rewards and penalties are signed as in WarpDrive: penalties are <= 0 and added.
    """

    num_taggers: int = setting(5, ge=1)
    """Number of taggers."""
    num_runners: int = setting(100, ge=1)
    """Number of runners."""
    grid_length: float = setting(20.0, ge=1e-6)
    """Side of the square [m]."""
    episode_length: int = setting(500, ge=1, le=MAX_INT)
    """Length of an episode T [steps]; observations contain t / T."""
    max_acceleration: float = setting(0.1)
    """Largest selectable acceleration [m/step^2]."""
    min_acceleration: float = setting(-0.1)
    """Smallest selectable acceleration [m/step^2]."""
    num_acceleration_levels: int = setting(10, ge=0)
    """Number of evenly spaced accelerations, in addition to none (action 0)."""
    max_turn: float = setting(2.35)
    """Largest selectable turn [rad/step]."""
    min_turn: float = setting(-2.35)
    """Smallest selectable turn [rad/step]."""
    num_turn_levels: int = setting(10, ge=0)
    """Number of evenly spaced turns, in addition to none (action 0)."""
    max_speed: float = setting(1.0, ge=0.0)
    """Maximum speed [m/step], before the skill factor."""
    skill_level_tagger: float = setting(1.0, ge=0.0)
    """Factor of the maximum speed of taggers."""
    skill_level_runner: float = setting(1.0, ge=0.0)
    """Factor of the maximum speed of runners."""
    edge_hit_penalty: float = setting(0.0, le=0.0)
    """Reward of an agent that runs into the wall."""
    step_penalty_for_tagger: float = setting(0.0, le=0.0)
    """Reward of a tagger in every step."""
    step_reward_for_runner: float = setting(0.0, ge=0.0)
    """Reward of a runner in every step that it starts alive."""
    tag_reward_for_tagger: float = setting(10.0, ge=0.0)
    """Reward of a tagger per runner that it tags."""
    tag_penalty_for_runner: float = setting(-10.0, le=0.0)
    """Reward of a runner that is tagged."""
    end_of_game_reward_for_runner: float = setting(1.0, ge=0.0)
    """Reward at t = T of a runner that is still in the game."""
    use_full_observation: bool = setting(False)
    """Observe all other agents in row order, instead of the nearest."""
    num_other_agents_observed: int = setting(10, ge=1, le=256)
    """Number of nearest agents K in the partial observation; padded with zeros if fewer are alive."""
    neighbor_search: str = setting("auto", choices=("auto", "brute", "grid"))
    """Search for the nearest agents: over all agents, or in a grid of cells. "auto" uses the faster one."""
    tagging_distance: float = setting(0.02, ge=0.0, le=1.0)
    """Distance below which a runner is tagged, as a fraction of grid_length."""
    runner_exits_game_after_tagged: bool = setting(True)
    """A tagged runner leaves the game; if False, it continues to play."""
    time_limit: str = setting("termination", choices=("termination", "truncation"))
    """Kind of the end at t = T: a termination (as in WarpDrive) or a truncation."""
    fixed_start: bool = setting(False)
    """Start all worlds and episodes of a seed from one layout, as in WarpDrive."""
    starting_location_x: tuple[float, ...] | None = None
    """Initial x of every agent [m], taggers first; set it with the two fields below, for a fixed start."""
    starting_location_y: tuple[float, ...] | None = None
    """Initial y of every agent [m]."""
    starting_directions: tuple[float, ...] | None = None
    """Initial direction of every agent [rad]."""

    def __post_init__(self) -> None:
        """Check conditions that involve several fields."""
        count = self.num_taggers + self.num_runners
        for name in ("acceleration", "turn"):
            low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if low > high:
                raise ConfigError(f"min_{name}: expected a value <= max_{name}, got {low} > {high}")
        if self.use_full_observation and self.neighbor_search == "grid":
            raise ConfigError("neighbor_search='grid' needs use_full_observation=False")
        starts = [self.starting_location_x, self.starting_location_y, self.starting_directions]
        if any(values is not None for values in starts) and not all(
            values is not None and len(values) == count for values in starts
        ):
            raise ConfigError(
                "starting_location_x, starting_location_y and starting_directions need "
                f"{count} numbers each, or none of them"
            )
        for name in ("starting_location_x", "starting_location_y"):
            for row, value in enumerate(getattr(self, name) or ()):
                if not 0.0 <= value <= self.grid_length:
                    raise ConfigError(f"{name}[{row}]: expected a value in [0, {self.grid_length}], got {value}")


def choose_search(num_agents: int, num_nearest: int) -> str:
    """Return the search for the K nearest: "brute" force for few agents, else a "grid" of cells.

    On a CPU both took equal time at about 40 + 10 K agents, measured with a slower brute-force search than the present.
    """
    return "grid" if num_nearest > 0 and num_agents > 40 + 10 * num_nearest else "brute"


def build(config: Config) -> EnvDefinition:
    count = config.num_taggers + config.num_runners
    width = tag_observation.observation_width(count, config.num_other_agents_observed, config.use_full_observation)
    has_start = config.starting_location_x is not None
    nearest = 0 if config.use_full_observation else config.num_other_agents_observed
    search = config.neighbor_search if config.neighbor_search != "auto" else choose_search(count, nearest)
    grid = search == "grid"
    action = spaces.MultiDiscrete([config.num_acceleration_levels + 1, config.num_turn_levels + 1])
    columns = (config.starting_location_x, config.starting_location_y, config.starting_directions)
    start = np.array(columns, np.float32).T if has_start else None
    counts = {"tagger": config.num_taggers, "runner": config.num_runners}
    named = roster(counts, dict.fromkeys(counts, width), dict.fromkeys(counts, action))
    cell_shapes = cell_grid.shapes(count, nearest) if grid else dict.fromkeys(cell_grid.shapes(1, 1), (0,))
    return EnvDefinition(
        **named,
        rules=tag_continuous.rules(
            config.num_taggers,
            config.num_runners,
            config.num_acceleration_levels,
            config.num_turn_levels,
            nearest,
            config.use_full_observation,
            "given" if has_start else "fixed" if config.fixed_start else "random",
            grid,
        ),
        params=params_of(
            config,
            tag_continuous.Params,
            tagging_margin=config.tagging_distance * config.grid_length,
            exits=int(config.runner_exits_game_after_tagged),
        ),
        state=dict.fromkeys(("pos", "speed", "acceleration", "direction", "shown", "survived"), (count,))
        | {
            "caught_by": integers((count,), -1, config.num_taggers - 1),
            "tags": integers((config.num_taggers,), 0, config.num_runners),
            "left": integers((), 0, 1),
            "near": integers((count, nearest), -1, count - 1),
            "cells": integers(cell_shapes["cells"], 0, count),
            "slot": index(cell_shapes["slot"], count),
            "who": index(cell_shapes["who"], count),
            "spot": cell_shapes["spot"],
            "start": (count if has_start else 0,),
        },
        initial={} if start is None else {"start": start},
        scratch=(*cell_grid.shapes(1, 1), *(("near",) if grid else ())),
        roles={"tagger": ("tagger",), "runner": ("runner",)},
        info={"survived": "survived"},
        results=("survived",),
        max_episode_steps=config.episode_length,
        time_limit_terminates=config.time_limit == "termination",
        fixed_params=("episode_length",),
        draw=draw,
        render_fps=20,
        global_state_size=tag_continuous.global_state_width(count),
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Taggers red with a ring at the tagging distance, runners blue, directions as lines.
    Agents that have left are hidden, except at the end of an episode. Tagged runners that continue have a ring.
    """
    taggers, params = core.config.num_taggers, core.get_params(envs)
    size, reach = params["grid_length"][:, None], params["tagging_margin"][:, None]  # (W, 1), they differ by world
    state = {name: tensor[envs] for name, tensor in core.world_state.items() if name in ("pos", "direction")}
    alive = core.alive[envs]
    alive = alive | (core.valid[envs] & ~alive.any(1, keepdim=True))
    share = min(0.022, max(0.004, 0.09 / core.num_agents**0.5))  # smaller for many agents
    radius = share * size
    ahead = torch.stack([state["direction"].cos(), state["direction"].sin()], -1)
    hunters, prey = ([tensor[:, rows] for tensor in (state["pos"], ahead, alive)] for rows in _sides(taggers))
    bodies = circles(hunters[0], 1.3 * radius, RED, hunters[2]), circles(prey[0], radius, BLUE, prey[2])
    began = (core.elapsed_steps[envs] > 0)[:, None]  # caught_by holds the last step's values, also after a reset
    tagged = prey[2] & began & (core.world_state["caught_by"][envs, taggers:] >= 0)
    ring = torch.where((reach > 1.3 * radius)[..., None], torch.tensor(RED, device=size.device), 1.0)  # white on a body
    parts = [
        circles(hunters[0], reach, RED, 0.14 * hunters[2]),
        lines(prey[0], prey[0] + 2.1 * radius[..., None] * prey[1], 0.5 * radius, BLUE, prey[2]),
        bodies[1],
        rings(prey[0], 1.5 * radius, ORANGE, 0.6 * radius, tagged),
        lines(hunters[0], hunters[0] + 2.4 * radius[..., None] * hunters[1], 0.7 * radius, RED, hunters[2]),
        bodies[0],
        rings(hunters[0], 1.3 * radius, DARK, 0.002 * size, 0.5 * hunters[2]),
        rings(hunters[0], reach, ring, 0.004 * size, 0.8 * hunters[2]),
    ]
    bounds = torch.cat([0.0 * size, 0.0 * size, size, size], 1)
    margin = max(Scene.margin, 2.8 * share)  # contains agents at the walls with their directions
    return Scene(join(*parts), bounds, margin, agents=join(*bodies))


def _sides(taggers: int) -> tuple[slice, slice]:
    """Return the rows of taggers and of runners."""
    return slice(0, taggers), slice(taggers, None)


def action_names(config: Config, row: int) -> list[list[str]]:
    """Return the names of both action components: change of acceleration [m/step²] and change of direction [rad]."""
    accelerations = np.linspace(config.min_acceleration, config.max_acceleration, config.num_acceleration_levels)
    turns = np.linspace(config.min_turn, config.max_turn, config.num_turn_levels)
    return [[f"{value:+.2g}" for value in (0.0, *accelerations)], [f"{value:+.2f} rad" for value in (0.0, *turns)]]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row; every block lists the other agents in the same order."""
    peers = config.num_taggers + config.num_runners - 1
    slots = peers if config.use_full_observation else config.num_other_agents_observed
    skill = max(config.skill_level_tagger, config.skill_level_runner)
    neighbors = Entities("other agents", slots, by_feature=True)
    far, fast = "√2 `grid_length`", "`max_speed`"
    differences = (
        ("x of the other agent minus own x", far, 0.5**0.5),
        ("y of the other agent minus own y", far, 0.5**0.5),
        ("speed of the other agent minus own speed", fast, skill),
        ("acceleration of the other agent minus own acceleration", fast, 2 * skill),
        ("direction of the other agent minus own direction, not wrapped", "2π", 1),
    )
    return [
        *(
            ObservationBlock(meaning, unit, -limit, limit, slots, entities=neighbors)
            for meaning, unit, limit in differences
        ),
        ObservationBlock("1 for a tagger, 0 for a runner", width=slots, entities=neighbors),
        ObservationBlock("1 if alive before this step's tags", width=slots, entities=neighbors),
        ObservationBlock("time", "`episode_length`"),
    ]
