"""Observations, actions and rewards of TagContinuous-v0."""

from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World
from gpu_envs.envs.tag.tag_continuous import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "level", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Nearest agents only (default)": ("tagger_0", {}),
    "All agents, with `use_full_observation=True`": ("tagger_0", {"use_full_observation": True}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("tagger", "every step", "step_penalty_for_tagger"),
    RewardTerm("runner", "every step that it starts alive", "step_reward_for_runner"),
    RewardTerm("both", "every step in which it runs into the wall", "edge_hit_penalty"),
    RewardTerm("tagger", "per runner it tags", "tag_reward_for_tagger"),
    RewardTerm("runner", "it is tagged", "tag_penalty_for_runner"),
    RewardTerm("runner", "at t = T, if it has not left the game", "end_of_game_reward_for_runner"),
)


def level(index: int, low: float, high: float, levels: int) -> float:
    """Return an entry of an action table: 0, then evenly spaced values from low to high."""
    return 0.0 if index == 0 else float(np.linspace(low, high, levels)[index - 1])


def action_tables() -> list[Table]:
    """Return the table of both action components for the default settings."""
    c = Config()
    count = max(c.num_acceleration_levels, c.num_turn_levels) + 1

    def cell(index: int, low: float, high: float, levels: int) -> str:
        return f"{level(index, low, high, levels):.4g}" if index <= levels else ""

    rows = tuple(
        (
            index,
            cell(index, c.min_acceleration, c.max_acceleration, c.num_acceleration_levels),
            cell(index, c.min_turn, c.max_turn, c.num_turn_levels),
        )
        for index in range(count)
    )
    head = ("index", "component 0: added to the acceleration [m/step²]", "component 1: added to the direction [rad]")
    title = "`MultiDiscrete([num_acceleration_levels + 1, num_turn_levels + 1])`; the values follow the settings"
    return [Table(title, head, rows)]


def action_names(config: Config, row: int) -> list[list[str]]:
    """Return the names of both action components: change of acceleration [m/step²] and change of direction [rad]."""
    c = config
    faster = (c.min_acceleration, c.max_acceleration, c.num_acceleration_levels)
    turned = (c.min_turn, c.max_turn, c.num_turn_levels)
    return [
        [f"{level(index, *faster):+.2g}" for index in range(c.num_acceleration_levels + 1)],
        [f"{level(index, *turned):+.2f} rad" for index in range(c.num_turn_levels + 1)],
    ]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row; every block lists the other agents in the same order."""
    count = config.num_taggers + config.num_runners
    slots = count - 1 if config.use_full_observation else config.num_other_agents_observed
    skill = max(config.skill_level_tagger, config.skill_level_runner)

    def seen(world: World, row: int) -> list[int]:
        others = [other for other in range(count) if other != row]
        if config.use_full_observation:
            return others
        delta = world.state["pos"] - world.state["pos"][row]
        distance = np.sqrt(delta[:, 0] * delta[:, 0] + delta[:, 1] * delta[:, 1])
        shown = [other for other in others if world.state["shown"][other]]
        return sorted(shown, key=lambda other: (distance[other], other))[:slots]

    def over(table, unit):
        """Read a value per observed agent, in this unit; zeros in unused slots."""

        def read(world: World, row: int) -> np.ndarray:
            others, column = seen(world, row), np.zeros(slots, np.float32)
            column[: len(others)] = table(world, row)[others] / unit
            return column

        return read

    def difference(name: str, axis: int | None = None):
        def table(world: World, row: int) -> np.ndarray:
            column = world.state[name] if axis is None else world.state[name][:, axis]
            return column - column[row]

        return table

    diagonal, half = 2**0.5 * config.grid_length, 0.5**0.5
    far, fast, length = "√2 `grid_length`", "`max_speed`", config.max_speed
    return [
        ObservationBlock(
            "x of the other agent minus own x", far, -half, half, over(difference("pos", 0), diagonal), slots
        ),
        ObservationBlock(
            "y of the other agent minus own y", far, -half, half, over(difference("pos", 1), diagonal), slots
        ),
        ObservationBlock(
            "speed of the other agent minus own speed", fast, -skill, skill, over(difference("speed"), length), slots
        ),
        ObservationBlock(
            "acceleration of the other agent minus own acceleration",
            fast,
            -2 * skill,
            2 * skill,
            over(difference("acceleration"), length),
            slots,
        ),
        ObservationBlock(
            "direction of the other agent minus own direction, not wrapped",
            "2π",
            -1,
            1,
            over(difference("direction"), 2 * np.pi),
            slots,
        ),
        ObservationBlock(
            "1 for a tagger, 0 for a runner",
            "",
            0,
            1,
            over(lambda w, _: np.arange(count) < config.num_taggers, 1),
            slots,
        ),
        ObservationBlock("1 if alive before this step's tags", "", 0, 1, over(lambda w, _: w.state["shown"], 1), slots),
        ObservationBlock("time", "`episode_length`", 0, 1, lambda world, _: world.time),
    ]
