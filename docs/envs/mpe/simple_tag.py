"""What the page of SimpleTag-v0 says about numbers."""

import numpy as np

from docs.claims import ANY, Block, Reward, Table, World

PICTURE = {"seed": 1, "steps": 6, "size": 384}
OBSERVATIONS = {"An adversary": ("adversary_0", {}), "A good agent": ("agent_0", {})}
STEER = ("nothing", "left, -x", "right, +x", "down, -y", "up, +y")
REWARDS = (
    Reward("adversary", "every step, per touch of any adversary and any good agent", "tag_reward"),
    Reward("agent", "every step, per adversary that touches it", "-tag_reward"),
    Reward("agent", "every step", "-outside(x) - outside(y), see the rules"),
)


def actions() -> list[Table]:
    """Both kinds of action."""
    return [
        Table("`Discrete(5)`, the default: full throttle in one direction", ("index", "push"), tuple(enumerate(STEER))),
        Table(
            "`Box(0, 1, (5,))`, with `continuous_actions=True`: a throttle per direction; opposite ones subtract",
            ("component", "push", "range"),
            tuple((index, word if index else "nothing, ignored", "[0, 1]") for index, word in enumerate(STEER)),
        ),
    ]


def blocks(config, row: int) -> list[Block]:
    """Observation of the agent in a row."""
    adversaries, count = config.num_adversaries, config.num_adversaries + config.num_good
    entities = count + config.num_obstacles
    good = [other for other in range(adversaries, count) if other != row]

    def velocities(rows):
        return lambda world, row: world.state["vel"][rows].ravel()

    def offsets(rows):
        return lambda world, row: (world.state["pos"][rows] - world.state["pos"][row]).ravel()

    def own_place(world: World, row: int) -> np.ndarray:
        return world.state["pos"][row]

    cap = 1.0 if row < adversaries else 1.3
    others = [other for other in range(count) if other != row]
    named = [
        Block("own velocity (x, y)", "m/s", -cap, cap, velocities([row]), 2),
        Block("own position (x, y)", "m", -ANY, ANY, own_place, 2),
        Block(
            "obstacles relative to oneself (x, y of each)",
            "m",
            -ANY,
            ANY,
            offsets(range(count, entities)),
            2 * config.num_obstacles,
        ),
        Block(
            "other agents relative to oneself (x, y of each, row order)",
            "m",
            -ANY,
            ANY,
            offsets(others),
            2 * len(others),
        ),
        Block("velocities of the other good agents (x, y of each)", "m/s", -1.3, 1.3, velocities(good), 2 * len(good)),
    ]
    return [block for block in named if block.width]
