"""What the numbers of Pendulum-v1 mean."""

import numpy as np

from gpu_envs.meanings import Block, Reward, Table

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (Reward("agent", "every step", "-(angle² + 0.1 velocity² + 0.001 torque²)"),)


def actions() -> list[Table]:
    """The motor."""
    table = Table("`Box(-2, 2, (1,))`", ("component", "torque [N m]", "range"), ((0, "counter-clockwise", "[-2, 2]"),))
    return [table]


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent."""
    fastest = config.max_speed
    return [
        Block("cosine of the angle: height of the free end", "`l`", -1, 1, lambda w, row: np.cos(w.state["motion"][0])),
        Block("sine of the angle: its place to the left", "`l`", -1, 1, lambda w, row: np.sin(w.state["motion"][0])),
        Block("angular velocity", "rad/s", -fastest, fastest, lambda w, row: w.state["motion"][1]),
    ]
