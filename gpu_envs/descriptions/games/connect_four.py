"""What the numbers of ConnectFour-v0 mean."""

from collections.abc import Sequence

from gpu_envs.games.connect_four import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (
    Reward("player", "its disc completes a line", "win_reward"),
    Reward("player", "the other's disc completes a line", "-win_reward"),
)


def actions() -> list[Table]:
    """The one table."""
    rows = tuple((column, f"column {column}" + (", the leftmost" if column == 0 else "")) for column in range(7))
    return [Table("`Discrete(columns)`: the mover's disc falls into a column", ("index", "where"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return [f"column {column}" for column in range(config.columns)]


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    high, wide = config.rows, config.columns

    def discs(player: int):
        def read(world, row):
            bits = int(world.state["marks"][player])
            return [bits >> (x * (high + 1) + y) & 1 for y in range(high) for x in range(wide)]

        return read

    cells = tuple(f"row {y}, column {x}" for y in range(high) for x in range(wide))
    order = "row by row from the bottom: 1 in its place, else 0"
    return [
        Block(f"own discs, {order}", "", 0, 1, discs(row), high * wide, cells),
        Block(f"the other's discs, {order}", "", 0, 1, discs(1 - row), high * wide, cells),
        Block("1 for who is on the move, else 0", "", 0, 1, lambda world, row: world.state["mover"] == row),
    ]
