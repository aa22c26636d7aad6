"""What the page of Acrobot-v1 says about numbers."""

import numpy as np

from docs.claims import Block, Reward, Table

OBSERVATIONS = {"The agent": ("agent_0", {})}
REWARDS = (
    Reward("agent", "every step but the one that reaches the height", "-1"),
    Reward("agent", "the step that reaches the height", "0"),
)


def actions() -> list[Table]:
    """The motor between the links."""
    rows = ((0, "-1"), (1, "0"), (2, "1"))
    return [Table("`Discrete(3)`", ("index", "torque on the lower link, counter-clockwise [N m]"), rows)]


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
