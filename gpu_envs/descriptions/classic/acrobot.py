"""What the numbers of Acrobot-v1 mean."""

from collections.abc import Sequence

import numpy as np

from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (
    Reward("agent", "every step but the one that reaches the height", "-1"),
    Reward("agent", "the step that reaches the height", "0"),
)


def actions() -> list[Table]:
    """The motor between the links."""
    rows = ((0, "-1"), (1, "0"), (2, "1"))
    return [Table("`Discrete(3)`", ("index", "torque on the lower link, counter-clockwise [N m]"), rows)]


def choices(config, row: int) -> Sequence[str]:
    """Names of the actions of the agent in a row."""
    return [f"{torque} N m" for torque in actions()[0].column(1)]


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""
    parts = []
    for index, angle in enumerate(("angle of the upper link, 0 hanging down", "angle of the lower link to the upper")):
        for name, of in (("cosine", np.cos), ("sine", np.sin)):
            read = lambda w, row, of=of, index=index: of(w.state["motion"][index])  # noqa: E731
            parts.append(Block(f"{name} of the {angle}", "", -1, 1, read))
    for index, (link, fastest) in enumerate((("upper", config.max_vel_1), ("lower", config.max_vel_2))):
        read = lambda w, row, index=index: w.state["motion"][2 + index]  # noqa: E731
        parts.append(Block(f"angular velocity of the {link} link", "rad/s", -fastest, fastest, read))
    return parts
