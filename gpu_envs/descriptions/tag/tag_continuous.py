"""What the numbers of TagContinuous-v0 mean."""

import numpy as np

from gpu_envs.meanings import Block, Reward, Table, World
from gpu_envs.tag.tag_continuous import Config

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {
    "The nearest (default)": ("tagger_0", {}),
    "Everyone, with `use_full_observation=True`": ("tagger_0", {"use_full_observation": True}),
}
# Causes of reward.
REWARDS = (
    Reward("tagger", "every step", "step_penalty_for_tagger"),
    Reward("runner", "every step it starts alive", "step_reward_for_runner"),
    Reward("both", "every step it runs into the wall", "edge_hit_penalty"),
    Reward("tagger", "per runner it tags", "tag_reward_for_tagger"),
    Reward("runner", "it is tagged", "tag_penalty_for_runner"),
    Reward("runner", "at t = T, if it has not left the game", "end_of_game_reward_for_runner"),
)


def level(index: int, low: float, high: float, levels: int) -> float:
    """Entry of an action table: none, then evenly from low to high."""
    return 0.0 if index == 0 else float(np.linspace(low, high, levels)[index - 1])


def actions() -> list[Table]:
    """The two tables, by index, for the default settings."""
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


def choices(config: Config, row: int) -> list[list[str]]:
    """Names of the actions of any agent: what is added to the acceleration [m/step²], and to the direction."""
    c = config
    faster = (c.min_acceleration, c.max_acceleration, c.num_acceleration_levels)
    turned = (c.min_turn, c.max_turn, c.num_turn_levels)
    return [
        [f"{level(index, *faster):+.2g}" for index in range(c.num_acceleration_levels + 1)],
        [f"{level(index, *turned):+.2f} rad" for index in range(c.num_turn_levels + 1)],
    ]


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row; others are told from each other by their place in every block."""
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
        """Values of the others, or their difference to one's own, in that unit; zeros where nobody is."""

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
        Block("x of the other minus one's own", far, -half, half, over(difference("pos", 0), diagonal), slots),
        Block("y, likewise", far, -half, half, over(difference("pos", 1), diagonal), slots),
        Block("speed, likewise", fast, -skill, skill, over(difference("speed"), length), slots),
        Block("acceleration, likewise", fast, -2 * skill, 2 * skill, over(difference("acceleration"), length), slots),
        Block("direction, likewise, not wrapped", "2π", -1, 1, over(difference("direction"), 2 * np.pi), slots),
        Block(
            "1 for a tagger, 0 for a runner",
            "",
            0,
            1,
            over(lambda w, _: np.arange(count) < config.num_taggers, 1),
            slots,
        ),
        Block("1 for alive before this step's tags", "", 0, 1, over(lambda w, _: w.state["shown"], 1), slots),
        Block("time", "`episode_length`", 0, 1, lambda world, _: world.time),
    ]
