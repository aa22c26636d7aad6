"""What the numbers of CartPole-v1 mean."""

from collections.abc import Sequence

from gpu_envs.meanings import ANY, Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (
    Reward("agent", "every step that leaves pole and cart in their bounds", "step_reward"),
    Reward("agent", "the step that does not", "fall_reward"),
)


def actions() -> list[Table]:
    """Two pushes."""
    return [Table("`Discrete(2)`", ("index", "push"), ((0, "left, -x"), (1, "right, +x")))]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return ("left", "right")


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""

    def part(index):
        return lambda world, row: world.state["motion"][index]

    x, angle = 2 * config.x_threshold, 2 * config.theta_threshold_radians
    return [
        Block("place of the cart, 0 in the middle", "m", -x, x, part(0)),
        Block("velocity of the cart", "m/s", -ANY, ANY, part(1)),
        Block("angle of the pole, 0 upright, to the right positive", "rad", -angle, angle, part(2)),
        Block("angular velocity of the pole", "rad/s", -ANY, ANY, part(3)),
    ]
