"""Tag with many agents, for tests of the grid of cells."""

import math

# As SMALL in small_environments.py, with so many taggers that runners look for them in cells too.
SMALL = {
    "num_taggers": 4,
    "num_runners": 9,
    "grid_length": 2.5,
    "episode_length": 9,
    "num_other_agents_observed": 3,
    "tagging_distance": 0.1,
    "neighbor_search": "grid",
}


def many_agents(agents, observed, taggers=None, spacing=2.0, reach=0.4, **more):
    """Return settings for many agents: numbers, mean distance and tagging distance [m]."""
    taggers = max(1, agents // 20) if taggers is None else taggers
    length = spacing * math.sqrt(agents)
    numbers = {"num_taggers": taggers, "num_runners": agents - taggers, "num_other_agents_observed": observed}
    return numbers | {"grid_length": length, "tagging_distance": min(1.0, reach / length)} | more
