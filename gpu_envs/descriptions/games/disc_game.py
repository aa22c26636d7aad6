"""What the numbers of DiscGame-v0 mean."""

from gpu_envs.games.disc_game import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (
    Reward("`player_0`", "every step", "x0 y1 - y0 x1, of its point (x0, y0) and the other's (x1, y1)"),
    Reward("`player_1`", "every step", "the opposite"),
)


def actions() -> list[Table]:
    """The point."""
    rows = ((0, "x", "[-1, 1]"), (1, "y", "[-1, 1]"))
    return [Table("`Box(-1, 1, (2,))`", ("component", "of the point", "range"), rows)]


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def last_of(player: int):
        return lambda world, row: world.state["last"][player]

    return [
        Block("own last point, x and y; zeros at the start", "", -1, 1, last_of(row), 2, ("x", "y")),
        Block("the other's last point, likewise", "", -1, 1, last_of(1 - row), 2, ("x", "y")),
        Block("time", "`num_steps`", 0, 1, lambda world, row: world.time),
    ]
