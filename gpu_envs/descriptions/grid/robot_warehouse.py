"""Observations, actions and rewards of RobotWarehouse-v0."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.grid.robot_warehouse import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Flattened (default)": ("robot_0", {}),
    "Flattened, with `msg_bits=2` and `normalised_coordinates=True`": (
        "robot_0",
        {"msg_bits": 2, "normalised_coordinates": True},
    ),
    'Images, with `observation_type="image"`': ("robot_0", {"observation_type": "image"}),
    'Features and images, with `observation_type="image_dict"` and all layers': (
        "robot_0",
        {
            "observation_type": "image_dict",
            "image_observation_layers": (
                "shelves",
                "requests",
                "agents",
                "agent_direction",
                "agent_load",
                "goals",
                "accessible",
            ),
        },
    ),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("the robot that carries it", "a requested shelf is on a goal", "1"),
    RewardTerm('with `reward_type="global"`, every robot', "a requested shelf is on a goal", "1"),
    RewardTerm('with `reward_type="two_stage"`, the robot that carries it', "a requested shelf is on a goal", "0.5"),
    RewardTerm(
        'with `reward_type="two_stage"`, the robot that carried it', "it puts down a shelf that it has delivered", "0.5"
    ),
)
_ACTIONS = ("none", "forward", "turn left", "turn right", "toggle load")
_WAYS = ("up", "down", "left", "right")


def action_tables() -> list[Table]:
    """Return the action table."""
    meanings = (
        "none: stay",
        "forward: to the cell ahead",
        "left: turn left on the spot",
        "right: turn right on the spot",
        "toggle load: pick up the shelf of the cell, or put down the own one",
    )
    head = ("index", "meaning")
    return [Table("`Discrete(5)`; with messages the first component", head, tuple(enumerate(meanings)))]


def action_names(config: Config, row: int) -> Sequence[Any]:
    """Return the names of the actions of the agent in this row."""
    if not config.msg_bits:
        return list(_ACTIONS)
    return [list(_ACTIONS), *([f"bit {bit} off", f"bit {bit} on"] for bit in range(config.msg_bits))]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    if config.observation_type == "flattened":
        return _flattened_blocks(config)
    features = _features(config)
    order = ("direction", "corridor", "load")
    first = [features[name] for name in order] if config.observation_type == "image_dict" else []
    return [*first, *_image_blocks(config)]


def _features(config: Config) -> dict[str, ObservationBlock]:
    """Return the blocks about the robot itself."""

    def place(world: World, row: int) -> list[float]:
        x, y = float(world.state["column"][row]), float(world.state["row"][row])
        rows, columns = world.state["floor"].shape
        return [x / (columns - 1), y / (rows - 1)] if config.normalised_coordinates else [x, y]

    def on_corridor(world: World, row: int) -> float:
        return float(world.state["floor"][world.state["row"][row], world.state["column"][row]] > 0)

    scaled = config.normalised_coordinates
    longest = max(config.floor_and_goals()[0].shape) - 1
    unit = "" if scaled else "cells"
    return {
        "place": ObservationBlock("own cell", unit, 0, 1 if scaled else longest, place, 2, ("column", "row")),
        "load": ObservationBlock("1 with a shelf", "", 0, 1, lambda world, row: float(world.state["load"][row] > 0)),
        "direction": ObservationBlock(
            "own direction, one-hot", "", 0, 1, lambda world, row: np.eye(4)[world.state["direction"][row]], 4, _WAYS
        ),
        "corridor": ObservationBlock("1 in a corridor or on a goal, where no shelf is put down", "", 0, 1, on_corridor),
    }


def _flattened_blocks(config: Config) -> list[ObservationBlock]:
    features, sight, bits = _features(config), config.sensor_range, config.msg_bits

    def cell(down: int, right: int) -> Callable[[World, int], list[float]]:
        """Return the reader of robot, message, shelf and request of a cell near the robot."""

        def read(world: World, row: int) -> list[float]:
            state = world.state
            y, x = state["row"][row] + down, state["column"][row] + right
            rows, columns = state["floor"].shape
            shelf = state["shelf"][y, x] if 0 <= y < rows and 0 <= x < columns else 0
            found = [
                index for index in range(config.n_agents) if (state["row"][index], state["column"][index]) == (y, x)
            ]
            way = state["direction"][found[0]] if found else 0
            message = [float(state["message"][found[0]] >> bit & 1) if found else 0.0 for bit in range(bits)]
            return [float(bool(found)), *np.eye(4)[way], *message, float(shelf > 0), float(shelf == 2)]

        return read

    blocks = [features[name] for name in ("place", "load", "direction", "corridor")]
    parts = ("robot", *(f"robot {way}" for way in _WAYS), *(f"bit {bit}" for bit in range(bits)), "shelf", "requested")
    for down in range(-sight, sight + 1):
        for right in range(-sight, sight + 1):
            message = ", its message" if bits else ""
            meaning = (
                f"cell at row {down:+d}, column {right:+d}: 1 with a robot, its direction one-hot (up without one)"
                f"{message}, 1 with a shelf, 1 if it is requested"
            )
            blocks.append(ObservationBlock(meaning, "", 0, 1, cell(down, right), 7 + bits, parts))
    return blocks


def _image_blocks(config: Config) -> list[ObservationBlock]:
    sight, across = config.sensor_range, 2 * config.sensor_range + 1

    def layer(name: str) -> Callable[[World, int], np.ndarray]:
        """Return the reader of a layer."""

        def read(world: World, row: int) -> np.ndarray:
            state = world.state
            whole = np.zeros(state["floor"].shape)
            robots = list(zip(state["row"], state["column"], strict=True))
            if name in ("shelves", "requests"):
                whole = state["shelf"] > (0 if name == "shelves" else 1)
            elif name == "goals":
                whole = state["floor"] == 2
            elif name == "accessible":
                whole[:] = 1
                for place in robots:
                    whole[place] = 0
            else:
                values = {"agents": [1] * len(robots), "agent_direction": state["direction"] + 1}
                values["agent_load"] = state["load"] > 0
                for place, value in zip(robots, values[name], strict=True):
                    whole[place] = value
            top, left = robots[row]
            seen = np.pad(whole, sight)[top : top + across, left : left + across]
            turns = (0, 2, 3, 1)[state["direction"][row]] if config.image_observation_directional else 0
            return np.rot90(seen, turns).ravel()

        return read

    meanings = {
        "shelves": "1 with a shelf",
        "requests": "1 with a requested shelf",
        "agents": "1 with a robot",
        "agent_direction": "direction of the robot: 1 up, 2 down, 3 left, 4 right",
        "agent_load": "1 with a robot that carries a shelf",
        "goals": "1 on a goal",
        "accessible": "1 inside the warehouse without a robot",
    }
    around = "by cell in sight, row by row" + (", ahead is up" if config.image_observation_directional else "")
    return [
        ObservationBlock(
            f"{meanings[name]}, {around}", "", 0, 4 if name == "agent_direction" else 1, layer(name), across**2
        )
        for name in config.image_observation_layers
    ]
