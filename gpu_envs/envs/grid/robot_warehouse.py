"""RobotWarehouse-v0 (2 agents): Robots bring requested shelves to goals."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, roster
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.errors import ConfigError, shown
from gpu_envs.rendering.scene import DARK, ORANGE, Scene, boxes, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.grid.robot_warehouse import observations, robot_warehouse
from warp_kernels.grid.robot_warehouse.observations import LAYERS, View
from warp_kernels.grid.robot_warehouse.robot_warehouse import CORRIDOR, GOAL, PLACE

MAX_SIDE = 1000
"""Largest number of rows or columns of cells."""


def floor_from_sizes(
    shelf_columns: int, shelf_rows: int, column_height: int
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the kinds of cells (rows, columns) int8, and row and column of the two goals.

    Columns of shelves are two cells wide and corridors one. The goals are in the middle of the bottom row, and the
    corridor to them leads through the bottom column of shelves in the middle.

    Raises:
        ConfigError: The number of columns is even, or the floor is too large.
    """
    if shelf_columns % 2 == 0:
        raise ConfigError(f"shelf_columns: expected an odd number, got {shelf_columns}")
    rows, columns = (column_height + 1) * shelf_rows + 2, 3 * shelf_columns + 1
    if max(rows, columns) > MAX_SIDE:
        names = "shelf_rows and column_height" if rows > MAX_SIDE else "shelf_columns"
        raise ConfigError(f"{names}: expected at most {MAX_SIDE} rows and columns of cells, got {rows} x {columns}")
    floor = np.full((rows, columns), PLACE, np.int8)
    floor[:: column_height + 1] = CORRIDOR
    floor[-1] = CORRIDOR
    floor[:, ::3] = CORRIDOR
    middle = columns // 2
    floor[rows - column_height - 2 :, middle - 1 : middle + 1] = CORRIDOR
    goals = [(rows - 1, middle - 1), (rows - 1, middle)]
    for goal in goals:
        floor[goal] = GOAL
    return floor, goals


def floor_from_text(layout: str) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the kinds of cells (rows, columns) int8, and row and column of the goals, row by row.

    Raises:
        ConfigError: The text has other characters, lines of unequal lengths, no goal, or is too large.
    """
    lines = layout.strip().replace("|", "\n").replace(" ", "").split("\n")
    kinds = {"x": PLACE, ".": CORRIDOR, "g": GOAL}
    for number, line in enumerate(lines):
        wrong = sorted(set(line.lower()) - set(kinds))
        if wrong:
            raise ConfigError(f"layout: expected the characters x, g and a dot, got {wrong[0]!r} in line {number + 1}")
        if len(line) != len(lines[0]):
            raise ConfigError(
                f"layout: expected lines of equal lengths, got {len(line)} cells in line {number + 1} and "
                f"{len(lines[0])} in line 1"
            )
    if max(len(lines), len(lines[0])) > MAX_SIDE:
        size = f"{len(lines)} x {len(lines[0])}"
        raise ConfigError(f"layout: expected at most {MAX_SIDE} rows and columns, got {size}")
    floor = np.array([[kinds[cell] for cell in line.lower()] for line in lines], np.int8)
    goals = [(int(row), int(column)) for row, column in np.argwhere(floor == GOAL)]
    if not goals:
        raise ConfigError(f"layout: expected at least one goal, g, got {shown(layout)}")
    return floor, goals


REWARD_TYPES = ("global", "individual", "two_stage")
"""Values of ``reward_type``, in the order of the numbers of the rules."""
MAX_BITS = 31
"""Largest number of bits of a message."""


@dataclass(frozen=True)
class Config:
    """Settings of RobotWarehouse-v0, with the names of rware and the values of its rware-tiny-2ag-v2."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "observation_type='dict'": "unflatten observations with nested_space of gpu_envs.envs.grid.robot_warehouse"
    }
    """Values of rware."""

    shelf_columns: int = setting(3, ge=1, le=MAX_SIDE)
    """Number of columns of shelves, each two shelves wide; odd."""
    column_height: int = setting(8, ge=1, le=MAX_SIDE)
    """Number of rows of shelves in a column."""
    shelf_rows: int = setting(1, ge=1, le=MAX_SIDE)
    """Number of columns of shelves above each other."""
    n_agents: int = setting(2, ge=1)
    """Number of robots."""
    msg_bits: int = setting(0, ge=0, le=MAX_BITS)
    """Number of bits that robots send with every action; others see them with the robot."""
    sensor_range: int = setting(1, ge=0, le=MAX_SIDE)
    """Distance along an axis at which cells are observed."""
    request_queue_size: int = setting(2, ge=0)
    """Number of shelves that are requested at a time."""
    max_inactivity_steps: int | None = setting(None, ge=0, le=MAX_INT)
    """Steps without a delivery after which the episode terminates; None or 0: no such end."""
    max_steps: int | None = setting(500, ge=0, le=MAX_INT)
    """Time limit [steps]; None or 0: no limit. An argument max_episode_steps instead of it truncates."""
    reward_type: str = setting("individual", choices=REWARD_TYPES)
    """Reward of a delivery: 1 to every robot, 1 to the robot that delivers, or 0.5 to that robot and 0.5 when it puts
    the shelf down."""
    layout: str | None = None
    """Rows of text with a character per cell, separated by newlines or "|", instead of the sizes: x is a place of a
    shelf, g a goal, and a dot a corridor. Spaces are ignored."""
    observation_type: str = setting("flattened", choices=("flattened", "image", "image_dict"))
    """Kind of observations: numbers, layers of the cells in sight, or layers after features of the robot.
    Function nested_space has the dictionaries of rware."""
    image_observation_layers: tuple[str, ...] = ("shelves", "requests", "agents", "goals", "accessible")
    """Layers of images, of shelves, requests, agents, agent_direction, agent_load, goals and accessible."""
    image_observation_directional: bool = setting(True)
    """Turn images so that the direction of the robot is up."""
    normalised_coordinates: bool = setting(False)
    """Divide the own cell in flattened observations by that in the lower right corner."""
    time_limit: str = setting("termination", choices=("termination", "truncation"))
    """Kind of the end at max_steps: a termination (as in rware) or a truncation."""

    def __post_init__(self) -> None:
        """Check conditions that involve several fields."""
        names = self.image_observation_layers
        if not names or len(set(names)) < len(names) or not set(names) <= set(LAYERS):
            expected = f"different layers of {', '.join(LAYERS)}"
            raise ConfigError(f"image_observation_layers: expected {expected}, got {shown(names)}")
        floor, _ = self.floor_and_goals()
        shelves = int((floor == robot_warehouse.PLACE).sum())
        if not shelves and self.layout is not None:
            raise ConfigError(f"layout: expected at least one shelf, x, got {shown(self.layout)}")
        if not shelves:
            raise ConfigError(
                "shelf_columns: expected at least 3 with shelf_rows=1, as the corridor to the goals takes the place of "
                f"the middle column, got {self.shelf_columns}"
            )
        if self.request_queue_size >= shelves:
            raise ConfigError(
                f"request_queue_size: expected less than the number of shelves, {shelves}, as every delivery requests "
                f"another one, got {self.request_queue_size}"
            )
        if self.n_agents > floor.size:
            raise ConfigError(f"n_agents: expected at most one per cell, {floor.size}, got {self.n_agents}")
        if self.normalised_coordinates and min(floor.shape) == 1:
            raise ConfigError(
                f"normalised_coordinates: expected False with {floor.shape[0]} x {floor.shape[1]} cells, as cells are "
                "divided by the last row and column, got True"
            )

    def floor_and_goals(self) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Return the kinds of cells (rows, columns) int8, and row and column of the goals, in the order of deliveries.

        Raises:
            ConfigError: The layout or the sizes are invalid.
        """
        if self.layout is not None:
            return floor_from_text(self.layout)
        return floor_from_sizes(self.shelf_columns, self.shelf_rows, self.column_height)

    @property
    def view(self) -> View:
        """Content of observations."""
        if self.observation_type == "flattened":
            return View("flattened", self.sensor_range, self.normalised_coordinates)
        layers, directional = self.image_observation_layers, self.image_observation_directional
        return View(self.observation_type, self.sensor_range, layers=layers, directional=directional)


def original_settings(name: str) -> dict[str, int | str | bool]:
    """Return the settings of an environment id of rware, such as "rware-tiny-2ag-easy-v2".

    The ids have the forms ``rware-SIZE-2ag-v2`` and ``rware-SIZE-8h-2ag-v2`` with the sizes tiny, small, medium and
    large, ``-easy`` or ``-hard`` behind the number of robots, and ``rware-1x3-8h-2ag-2req-indiv-v2`` with the rewards
    indiv, global and twostage. Behind ``rware`` may be ``-img`` or ``-imgdict``, ``-Nd`` (images are not turned) and
    ``-2s`` (the range of sensors).

    Raises:
        ConfigError: The id does not have the form of rware's ids.
    """
    import re

    view = r"rware(-img|-imgdict)?(-Nd)?(?:-(\d+)s)?"
    sizes = r"-(tiny|small|medium|large)(?:-(\d+)h)?-(\d+)ag(-easy|-hard)?"
    numbers = r"-(\d+)x(\d+)-(\d+)h-(\d+)ag-(\d+)req-(indiv|global|twostage)"
    match = re.fullmatch(f"{view}(?:{sizes}|{numbers})-v2", str(name))
    if match is None:
        raise ConfigError(f"name: expected an id of rware such as 'rware-tiny-2ag-easy-v2', got {name!r}")
    image, undirected, sight, size, height, robots, difficulty, *layout = match.groups()
    settings: dict[str, int | str | bool] = {"sensor_range": int(sight or 1)}
    if size is not None:
        rows, columns = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}[size]
        factor = {"-easy": 2.0, None: 1.0, "-hard": 0.5}[difficulty]
        requests, reward = int(int(robots) * factor), "individual"
    else:
        rows, columns, height, robots, requests, kind = layout
        reward = {"indiv": "individual", "global": "global", "twostage": "two_stage"}[kind]
    settings |= {
        "shelf_rows": int(rows),
        "shelf_columns": int(columns),
        "column_height": int(height or 8),
        "n_agents": int(robots),
        "request_queue_size": int(requests),
        "reward_type": reward,
    }
    if image is not None:
        settings["observation_type"] = "image" if image == "-img" else "image_dict"
        settings["image_observation_directional"] = undirected is None
    return settings


def build(config: Config) -> EnvDefinition:
    floor, goals = config.floor_and_goals()
    places = np.argwhere(floor == robot_warehouse.PLACE)
    robots, bits, (rows, columns) = config.n_agents, config.msg_bits, floor.shape
    width = observations.width(config.view, bits)
    actions = robot_warehouse.NUM_ACTIONS
    action = spaces.MultiDiscrete([actions] + [2] * bits) if bits else spaces.Discrete(actions)
    named = roster({"robot": robots}, {"robot": width}, {"robot": action})
    named["observation_spaces"] = dict.fromkeys(named["agents"], _declared_space(config))
    side = max(rows, columns)
    return EnvDefinition(
        **named,
        rules=robot_warehouse.rules(robots, bits, config.view),
        params={
            "rows": rows,
            "columns": columns,
            "unrequested": len(places) - config.request_queue_size,
            "max_inactivity_steps": config.max_inactivity_steps or 0,
            "reward_type": REWARD_TYPES.index(config.reward_type),
        },
        state={
            "row": index((robots,), rows),
            "column": index((robots,), columns),
            "direction": index((robots,), 4),
            "load": integers((robots,), 0, 2),
            "deliveries": integers((robots,), 0, MAX_INT),
            "message": integers((robots,), 0, MAX_INT),
            "shelf": integers((rows, columns), 0, 2),
            "inactive": integers((), 0, MAX_INT),
            "key": any_bits(()),
            "target": integers((robots,), -1, max(side, robots)),
            "rank": integers((robots,), 0, robots + 2),
            "first": integers((robots,), 0, 1),
            "floor": integers((rows, columns), 0, 2),
            "goal": index((len(goals),), side),
            "shelf_position": index((len(places),), side),
        },
        initial={
            "floor": floor,
            "goal": np.array(goals, np.int32),
            "shelf_position": places.astype(np.int32),
        },
        scratch=("target", "rank", "first"),
        info={"deliveries": "deliveries"},
        results=("deliveries",),
        global_state_size=observations.global_state_size(robots, bits, floor.size),
        max_episode_steps=config.max_steps or 0,
        time_limit_terminates=config.time_limit == "termination",
        bounds={"reward_type": (0, 2)},
        fixed_params=("rows", "columns", "unrequested"),
        channels_first=True,
        draw=draw,
        render_fps=8,
    )


def observation_space(config: Config) -> spaces.Box:
    """Return the flat observation space of a robot."""
    view = config.view
    if view.kind == "flattened":
        wide = observations.width(view, config.msg_bits)
        return spaces.Box(-np.inf, np.inf, (wide,), np.float32)
    highest = np.array([4.0 if layer == "agent_direction" else 1.0 for layer in view.layers], np.float32)
    high = np.repeat(highest, view.across**2)
    low = np.zeros_like(high)
    if view.kind == "image_dict":
        free = np.full(observations.FEATURES, np.inf, np.float32)
        low, high = np.concatenate([-free, low]), np.concatenate([free, high])
    return spaces.Box(low, high, dtype=np.float32)


def _declared_space(config: Config) -> spaces.Box | spaces.Dict:
    """Return the observation space that views show: rware's, except that flattened observations are flat."""
    return observation_space(config) if config.view.kind == "flattened" else nested_space(config)


def nested_space(config: Config) -> spaces.Dict | spaces.Box:
    """Return the space of rware whose flat form is the observation of a robot.

    ``gymnasium.spaces.unflatten(nested_space(env.core.config), row)`` turns an observation, a NumPy array, into rware's
    dictionary of the robot and its sensors (``ObservationType.DICT``), image or dictionary of an image and features.
    """
    view, floor = config.view, config.floor_and_goals()[0]
    if view.kind != "flattened":
        flat = observation_space(config)
        first = len(flat.low) - len(view.layers) * view.across**2
        shape = (len(view.layers), view.across, view.across)
        image = spaces.Box(flat.low[first:].reshape(shape), flat.high[first:].reshape(shape), dtype=np.float32)
        if view.kind == "image":
            return image
        features = spaces.Box(-np.inf, np.inf, (first,), np.float32)
        return spaces.Dict([("features", features), ("image", image)])
    scaled = config.normalised_coordinates
    highest, kind = (1, np.float32) if scaled else (max(floor.shape), np.int32)
    robot = spaces.Dict(
        [
            ("location", spaces.Box(0, highest, (2,), kind)),
            ("carrying_shelf", spaces.MultiBinary(1)),
            ("direction", spaces.Discrete(4)),
            ("on_highway", spaces.MultiBinary(1)),
        ]
    )
    message = [("local_message", spaces.MultiBinary(config.msg_bits))] if config.msg_bits else []
    shelf = [("has_shelf", spaces.MultiBinary(1)), ("shelf_requested", spaces.MultiBinary(1))]
    cell = spaces.Dict([("has_agent", spaces.MultiBinary(1)), ("direction", spaces.Discrete(4)), *message, *shelf])
    return spaces.Dict([("self", robot), ("sensors", spaces.Tuple((cell,) * view.across**2))])


_DIRECTIONS = ("up", "down", "left", "right")
_MEANINGS = {
    "shelves": "1 with a shelf",
    "requests": "1 with a requested shelf",
    "agents": "1 with a robot",
    "agent_direction": "direction of the robot: 1 up, 2 down, 3 left, 4 right",
    "agent_load": "1 with a robot that carries a shelf",
    "goals": "1 on a goal",
    "accessible": "1 inside the warehouse without a robot",
}
"""Meanings of the layers of an image."""


def action_names(config: Config, row: int) -> list[Any]:
    names = ["none", "forward", "turn left", "turn right", "toggle load"]
    bits = [[f"bit {bit} off", f"bit {bit} on"] for bit in range(config.msg_bits)]
    return [names, *bits] if bits else names


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    load, direction = ObservationBlock("1 with a shelf"), flags("own direction, one-hot", _DIRECTIONS)
    corridor = ObservationBlock("1 in a corridor or on a goal, where no shelf is put down")
    offsets = range(-config.sensor_range, config.sensor_range + 1)
    if config.observation_type != "flattened":
        around = "by cell in sight, row by row" + (", ahead is up" if config.image_observation_directional else "")
        layers = [
            ObservationBlock(
                f"{_MEANINGS[layer]}, {around}", "", 0, 4 if layer == "agent_direction" else 1, len(offsets) ** 2
            )
            for layer in config.image_observation_layers
        ]
        return [direction, corridor, load, *layers] if config.observation_type == "image_dict" else layers
    unit, longest = ("", 1) if config.normalised_coordinates else ("cells", max(config.floor_and_goals()[0].shape) - 1)
    parts = ["robot", *(f"robot {name}" for name in _DIRECTIONS), *(f"bit {bit}" for bit in range(config.msg_bits))]
    contents = (
        f"1 with a robot, its direction one-hot (up without one){', its message' if config.msg_bits else ''}, "
        "1 with a shelf, 1 if it is requested"
    )
    return [
        *(ObservationBlock("own cell", unit, 0, longest, 2, ("column", "row")), load, direction, corridor),
        *(
            flags(f"cell at row {down:+d}, column {right:+d}: {contents}", [*parts, "shelf", "requested"])
            for down in offsets
            for right in offsets
        ),
    ]


_WOOD, _EDGE = (0.72, 0.53, 0.34), (0.42, 0.28, 0.16)
_CARTON, _TAPE = (0.88, 0.73, 0.50), (0.62, 0.46, 0.27)
_WANTED, _WANTED_EDGE = (0.16, 0.70, 0.58), (0.04, 0.38, 0.32)
_FLOOR, _LINE = (0.90, 0.91, 0.92), (0.80, 0.81, 0.83)
_TRUCK = (0.99, 0.85, 0.30)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Shelves are wooden racks with cartons, green if they are requested. Goals are striped in yellow and black. Robots
    are orange with wheels and an arrow in their direction; a robot that carries a shelf is around it.
    """
    state = core.world_state
    floor, shelf = state["floor"][envs].long(), state["shelf"][envs].long()
    worlds, rows, columns = shelf.shape
    device = core.device

    def shift(centers: torch.Tensor, right: float, up: float) -> torch.Tensor:
        return centers + torch.tensor([right, up], device=device)

    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    cells = torch.stack([x.flatten() + 0.5, rows - 0.5 - y.flatten()], -1)[None].to(device).expand(worlds, -1, -1)
    kind, shelves = floor.flatten(1), shelf.flatten(1)
    is_goal = (kind == 2).float()
    ground = [boxes(cells, 0.48, _FLOOR), boxes(cells, 0.42, _LINE, (kind == 0).float(), 0.04)]
    ground.append(boxes(cells, 0.48, _TRUCK, is_goal))
    for offset in (-0.28, 0.0, 0.28):  # stripes of a loading zone
        ground.append(lines(shift(cells, offset - 0.12, -0.38), shift(cells, offset + 0.12, 0.38), 0.1, DARK, is_goal))

    column, row = state["column"][envs], state["row"][envs]
    position = torch.stack([column + 0.5, rows - 0.5 - row], -1).to(device)
    ways = torch.tensor([[0.0, 1.0], [0.0, -1.0], [-1.0, 0.0], [1.0, 0.0]], device=device)
    ahead = ways[state["direction"][envs].long()]
    side = ahead.flip(-1) * torch.tensor([1.0, -1.0], device=device)
    loaded = (state["load"][envs] > 0).float()
    bodies = circles(position, 0.4 + 0.08 * loaded, ORANGE)
    robots = [
        *(lines(position + 0.36 * turn * side - 0.2 * ahead, position + 0.36 * turn * side + 0.2 * ahead, 0.16, DARK)
          for turn in (-1, 1)),
        bodies,
        rings(position, 0.4 + 0.08 * loaded, DARK, 0.05),
    ]  # fmt: skip

    present, requested = (shelves > 0).float(), (shelves > 1)[..., None]
    color = torch.where(requested, *(torch.tensor(paint, device=device) for paint in (_WANTED, _WOOD)))
    edge = torch.where(requested, *(torch.tensor(paint, device=device) for paint in (_WANTED_EDGE, _EDGE)))
    on_robot = torch.zeros((worlds, rows * columns), device=device)
    on_robot.scatter_(1, (row * columns + column).long(), loaded)
    half = 0.36 - 0.08 * on_robot  # the robot around a shelf that it carries stays visible
    racks = [boxes(cells, half[..., None], color, present), boxes(cells, half[..., None], edge, present, 0.07)]
    for right, up, size in ((-0.15, -0.14, 0.11), (0.13, -0.14, 0.12), (-0.1, 0.14, 0.13), (0.17, 0.12, 0.09)):
        scale = (half / 0.36)[..., None]
        center = cells + scale * torch.tensor([right, up], device=device)
        racks.append(boxes(center, size * scale, _CARTON, present))
        racks.append(boxes(center, size * scale * torch.tensor([0.2, 1.0], device=device), _TAPE, present))
    tip = position + 0.43 * ahead
    arrows = [
        lines(position + 0.27 * turn * side + 0.2 * ahead, tip, 0.1, color_of, 1.0)
        for color_of in (DARK,)
        for turn in (-1, 1)
    ]
    below = join(*ground)
    return Scene(
        join(below, *robots, *racks, *arrows),
        (0.0, 0.0, float(columns), float(rows)),
        agents=bodies,
        ground=below.shape[1],
    )
