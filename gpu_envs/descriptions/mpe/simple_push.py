"""What the numbers of SimplePush-v0 mean."""

import numpy as np

from gpu_envs.meanings import Block, Reward, World
from gpu_envs.meanings.mpe import actions, choices, own_velocity, seen, the_goal

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks", "choices"]

# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {"The adversary": ("adversary_0", {}), "The good agent": ("agent_0", {})}
# Causes of reward.
REWARDS = (
    Reward("agent", "every step", "-(its distance to the goal [m])"),
    Reward("adversary", "every step", "-(its distance to the goal [m])"),
    Reward("adversary", "every step", "+(the good agent's distance to the goal [m])"),
)


def _own_colour(world: World, row: int) -> np.ndarray:
    return np.where(np.arange(3) == int(world.state["goal"]) + 1, 0.75, 0.25)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    landmarks, other = seen("landmarks", row, (2, 3), None), seen("the other agent", row, (0, 1), None)
    if row == 0:
        return [own_velocity(), landmarks, other]
    return [
        own_velocity(),
        the_goal(2),
        Block(
            "own colour (r, g, b): 0.25, but 0.75 in the goal's: green or blue",
            "",
            0.25,
            0.75,
            _own_colour,
            3,
            ("r", "g", "b"),
        ),
        landmarks,
        Block(
            "colours of the landmarks (r, g, b of each): green, blue",
            "",
            0.1,
            0.9,
            lambda world, row: [0.1, 0.9, 0.1, 0.1, 0.1, 0.9],
            6,
            ("r", "g", "b"),
        ),
        other,
    ]
