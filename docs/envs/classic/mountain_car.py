"""What the page of MountainCar-v0 says about numbers."""

from docs.claims import Block, Reward, Table

OBSERVATIONS = {"The agent": ("agent_0", {})}
REWARDS = (Reward("agent", "every step, the last one too", "-1"),)


def actions() -> list[Table]:
    """A push either way, or none."""
    return [Table("`Discrete(3)`", ("index", "push"), ((0, "left, -x"), (1, "none"), (2, "right, +x")))]


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""
    return [
        Block("place", "m", config.min_position, config.max_position, lambda world, row: world.state["motion"][0]),
        Block("velocity", "m/step", -config.max_speed, config.max_speed, lambda world, row: world.state["motion"][1]),
    ]
