"""What the numbers of TicTacToe-v0 mean."""

from collections.abc import Sequence

from gpu_envs.games.tic_tac_toe import Config
from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"Everyone": ("player_0", {})}
# Causes of reward.
REWARDS = (
    Reward("player", "its mark completes a line", "win_reward"),
    Reward("player", "the other's mark completes a line", "-win_reward"),
)
# Rows and columns of the board.
DOWN, ACROSS = ("top", "middle", "bottom"), ("left", "middle", "right")


def actions() -> list[Table]:
    """The one table."""
    rows = tuple((3 * y + x, f"{DOWN[y]} row, {ACROSS[x]} column") for y in range(3) for x in range(3))
    return [Table("`Discrete(9)`: the mover marks a cell", ("index", "where"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return actions()[0].column(1)


def blocks(config: Config, row: int) -> list[Block]:
    """Observation of the agent in a row."""

    def marks(player: int):
        def read(world, row):
            bits = int(world.state["marks"][player])
            return [bits >> (4 * x + y) & 1 for y in range(3) for x in range(3)]

        return read

    cells = actions()[0].column(1)
    order = "row by row from the top: 1 in its place, else 0"
    return [
        Block(f"own marks, {order}", "", 0, 1, marks(row), 9, cells),
        Block(f"the other's marks, {order}", "", 0, 1, marks(1 - row), 9, cells),
        Block("1 for who is on the move, else 0", "", 0, 1, lambda world, row: world.state["mover"] == row),
    ]
