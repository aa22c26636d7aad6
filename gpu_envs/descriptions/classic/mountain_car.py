"""What the numbers of MountainCar-v0 mean."""

from collections.abc import Sequence

from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (Reward("agent", "every step, the last one too", "-1"),)


def actions() -> list[Table]:
    """A push either way, or none."""
    return [Table("`Discrete(3)`", ("index", "push"), ((0, "left, -x"), (1, "none"), (2, "right, +x")))]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return ("left", "none", "right")


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""
    return [
        Block("place", "m", config.min_position, config.max_position, lambda world, row: world.state["motion"][0]),
        Block("velocity", "m/step", -config.max_speed, config.max_speed, lambda world, row: world.state["motion"][1]),
    ]
