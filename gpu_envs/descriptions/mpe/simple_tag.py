"""What the numbers of SimpleTag-v0 mean."""

import numpy as np

from gpu_envs.meanings import Block, Reward, World
from gpu_envs.meanings.mpe import actions, choices, nearest, own_position, own_velocity, seen, wide

__all__ = ["OBSERVATIONS", "REWARDS", "actions", "blocks", "choices"]

# Settings in which only the nearest are seen.
FEW = {"num_good": 2, "num_agent_neighbors": 2, "num_landmark_neighbors": 1}
# Who is shown on the page, by title: agent, settings.
OBSERVATIONS = {
    "An adversary": ("adversary_0", {}),
    "A good agent": ("agent_0", {}),
    "Anyone with `num_agent_neighbors=2, num_landmark_neighbors=1`": ("adversary_0", FEW),
}
# Causes of reward.
REWARDS = (
    Reward("adversary", "every step, per touch of any adversary and any good agent", "tag_reward"),
    Reward("agent", "every step, per adversary that touches it", "-tag_reward"),
    Reward("agent", "every step", "-outside(x) - outside(y), see the rules"),
)


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    adversaries, count = config.num_adversaries, config.num_adversaries + config.num_good
    entities, most = count + config.num_obstacles, config.num_agent_neighbors
    good = [other for other in range(adversaries, count) if other != row]
    others = [other for other in range(count) if other != row]

    def all_velocities(world: World, row: int) -> np.ndarray:
        return world.state["vel"][good].ravel()

    def nearest_velocities(world: World, row: int) -> np.ndarray:
        shown = np.zeros((most, 2))
        for slot, other in enumerate(nearest(world, row, others, most)):
            shown[slot] = world.state["vel"][other] if other in good else 0.0
        return shown.ravel()

    if most is None:
        name, read, width = "velocities of the other good agents (x, y of each)", all_velocities, 2 * len(good)
    else:
        name, read, width = "their velocities (x, y of each; zeros for adversaries)", nearest_velocities, 2 * most
    return wide(
        [
            own_velocity(1.0 if row < adversaries else 1.3),
            own_position(),
            seen("obstacles", row, range(count, entities), config.num_landmark_neighbors),
            seen("other agents", row, range(count), most),
            Block(name, "m/s", -1.3, 1.3, read, width, ("x", "y")),
        ]
    )
