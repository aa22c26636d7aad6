"""Pursuit-v0 (8 agents): Pursuers surround evaders on a grid."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, ORANGE, RED, Color, Scene, boxes, circles, join, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.grid import pursuit

MAX_SIDE = 1000
"""Largest number of columns or rows."""


@dataclass(frozen=True)
class Config:
    """Settings of Pursuit-v0, with the names and defaults of PettingZoo's pursuit_v4."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "num_agents": "n_pursuers",
        "num_pursuers": "n_pursuers",
        "num_evaders": "n_evaders",
        "term_pursuit": "catch_reward",
        "evader_controller": "evaders walk at random; freeze_evaders=True lets them stay",
    }
    """Names of PettingZoo and of other environments."""

    x_size: int = setting(16, ge=1, le=MAX_SIDE)
    """Number of columns."""
    y_size: int = setting(16, ge=1, le=MAX_SIDE)
    """Number of rows."""
    max_cycles: int = setting(500, ge=1, le=MAX_INT)
    """Time limit [steps]; it truncates."""
    shared_reward: bool = setting(True)
    """Every pursuer gets the mean of the rewards of all."""
    n_evaders: int = setting(30, ge=1)
    """Number of evaders."""
    n_pursuers: int = setting(8, ge=1)
    """Number of pursuers."""
    obs_range: int = setting(7, ge=1, le=2 * MAX_SIDE)
    """Number of columns and rows of an observation. The last ones of an even number are always walls."""
    n_catch: int = setting(2, ge=1)
    """Pursuers on the cell of an evader that catch it with surround=False."""
    freeze_evaders: bool = setting(False)
    """Evaders stay."""
    tag_reward: float = 0.01
    """Reward for each evader beside the pursuer."""
    catch_reward: float = 5.0
    """Reward for helping to catch one or more evaders."""
    urgency_reward: float = -0.1
    """Reward of every step."""
    surround: bool = setting(True)
    """Catch an evader by standing on all open cells beside it, instead of on its cell."""
    constraint_window: float = setting(1.0, gt=0.0, le=1.0)
    """Side of the random window in which all start, as a share of the map."""
    cnn: bool = setting(False)
    """Observe an image (obs_range, obs_range, 3) as in PettingZoo, for `--learner.network cnn`, instead of a vector."""

    def __post_init__(self) -> None:
        is_empty, is_inside = False, True  # a window lies inside the building if its columns and its rows do
        for size, margin in ((self.x_size, pursuit.MARGIN_X), (self.y_size, pursuit.MARGIN_Y)):
            (first, end), windows = pursuit.building(size, margin), _windows(size, self.constraint_window)
            is_empty |= any(low == high for low, high in windows)
            is_inside &= any(first <= low and high <= end for low, high in windows)
        if is_empty or is_inside:
            raise ConfigError(
                "constraint_window: expected a window that always has a cell beside the building on a map of "
                f"{self.x_size} x {self.y_size} cells, got {self.constraint_window}; use a larger window"
            )


def _windows(size: int, share: float) -> list[tuple[int, int]]:
    """Return the possible windows along an axis: their first column or row, and the one after their end."""
    share = float(np.float32(share))
    cells = np.arange(size + 1) / size
    bounds = np.unique(np.clip(np.concatenate([[0.0, 1.0 - share], cells, cells - share]), 0.0, 1.0 - share))
    # Windows between bounds that differ by rounding only are as good as impossible.
    gaps = [(low, high) for low, high in itertools.pairwise(bounds) if high - low > 1e-6] or [(0.0, 0.0)]
    starts = [(low + high) / 2 for low, high in gaps]
    return sorted({(int(size * start), int(size * (start + share))) for start in starts})


def build(config: Config) -> EnvDefinition:
    pursuers, evaders, side = config.n_pursuers, config.n_evaders, config.obs_range
    width = side * side * pursuit.LAYERS
    named = roster({"pursuer": pursuers}, {"pursuer": width}, {"pursuer": spaces.Discrete(pursuit.NUM_ACTIONS)})
    shape = (side, side, pursuit.LAYERS) if config.cnn else (width,)
    space = spaces.Box(0.0, float(max(pursuers, evaders)), shape, np.float32)
    named["observation_spaces"] = dict.fromkeys(named["agents"], space)
    sides = max(config.x_size, config.y_size)
    return EnvDefinition(
        **named,
        rules=pursuit.rules(config.x_size, config.y_size, pursuers, evaders, side),
        params=params_of(config, pursuit.Params),
        state={
            "pursuer": index((pursuers,), sides),
            "evader": index((evaders,), sides),
            "catch_step": integers((evaders,), 0, MAX_INT),
            "tags": integers((pursuers,), 0, MAX_INT),
            "catches": integers((pursuers,), 0, evaders),
            "key": any_bits(()),
        },
        scratch=("tags",),
        info={"catches": "catches"},
        results=("catches",),
        global_state_size=config.x_size * config.y_size * pursuit.LAYERS,
        max_episode_steps=config.max_cycles,
        time_limit_terminates=False,
        bounds=dict.fromkeys(("shared_reward", "freeze_evaders", "surround"), (0, 1)),
        fixed_params=("constraint_window",),
        draw=draw,
        render_fps=5,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The building is dark, evaders are blue and pursuers red, with an orange square around the cells that they observe.
    Several evaders or pursuers in a cell are one disc with their number.
    """
    config, state, device = core.config, core.world_state, core.device
    columns, rows = config.x_size, config.y_size
    pursuers, evaders = state["pursuer"][envs].long(), state["evader"][envs].long()
    free = state["catch_step"][envs] == 0

    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    cells = (torch.stack([x.flatten(), y.flatten()], -1)[None] + 0.5).to(device).expand(len(envs), -1, -1)
    edges = torch.tensor([pursuit.building(columns, pursuit.MARGIN_X), pursuit.building(rows, pursuit.MARGIN_Y)])
    center = edges.float().mean(1).to(device).expand(len(envs), 1, -1)
    building = boxes(center, (edges[:, 1] - edges[:, 0]) / 2, DARK)
    ground = join(boxes(cells, 0.5, GRAY, alpha=0.3, line_width=0.03), building)

    def discs(agents: torch.Tensor, present: torch.Tensor, radius: float, color: Color) -> torch.Tensor:
        """Return discs of agents at the centers of their cells, with their number where there are several."""
        is_shared = (agents[:, :, None] == agents[:, None]).all(-1) & present[:, None]
        count, is_first = is_shared.sum(-1), present & (is_shared.tril(-1).sum(-1) == 0)
        return join(
            circles(agents + 0.5, radius, color, is_first),
            rings(agents + 0.5, radius, DARK, 0.04, is_first),
            numbers(agents + 0.5, count, 0.5, 0.4, PAPER, is_first & (count > 1), largest=agents.shape[1]),
        )

    everyone = torch.ones_like(pursuers[..., 0], dtype=torch.bool)
    reach = (config.obs_range - 1) // 2 + 0.5
    windows = boxes(pursuers + 0.5, reach, ORANGE, alpha=0.6, line_width=0.05)
    return Scene(
        join(ground, windows, discs(evaders, free, 0.3, BLUE), discs(pursuers, everyone, 0.36, RED)),
        (0.0, 0.0, float(columns), float(rows)),
        agents=circles(pursuers + 0.5, 0.36, RED),
        ground=ground.shape[1],
    )


def action_names(config: Config, row: int) -> list[str]:
    return ["left", "right", "up", "down", "stay"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    reach, limit = (config.obs_range - 1) // 2, max(config.n_pursuers, config.n_evaders)
    offsets = range(-reach, config.obs_range - reach)
    meaning = "1 with a wall, numbers of pursuers and of evaders"
    parts = ("wall", "pursuers", "evaders")
    return [
        ObservationBlock(f"cell at x {x:+d}, y {y:+d}: {meaning}", "", 0, limit, len(parts), parts)
        for y in offsets
        for x in offsets
    ]
