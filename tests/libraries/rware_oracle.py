"""Transitions of rware 2.0.0, which replays compare with RobotWarehouse-v0.

The recorded traces of the quick tests are made by this module:

    .nox/rware/bin/python -m libraries.rware_oracle   # in the folder tests
"""

import itertools
import json
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import networkx
import numpy as np
from parity.grid.warehouse_replay import random_word
from parity.traces import write_arrays
from rware.warehouse import Action, Direction, ImageLayer, ObservationType, RewardType, Warehouse

TRACE = Path(__file__).parents[1] / "parity" / "grid" / "robot_warehouse.npz.xz"
CROWDED = """
xx.xx
.....
x...x
.....
.gxg.
"""
DEFAULTS = dict(
    shelf_columns=3, column_height=8, shelf_rows=1, n_agents=2, msg_bits=0, sensor_range=1, request_queue_size=2,
    max_inactivity_steps=None, max_steps=500, reward_type="individual",
)  # fmt: skip
# Settings of the recorded traces.
TRACED = (
    {},
    dict(layout=CROWDED, n_agents=5, request_queue_size=6, max_steps=60),
    dict(
        column_height=1, shelf_rows=2, n_agents=5, msg_bits=2, reward_type="two_stage", max_inactivity_steps=25,
        max_steps=90, normalised_coordinates=True,
    ),
    dict(
        layout=CROWDED, n_agents=5, request_queue_size=3, sensor_range=2, observation_type="image_dict",
        image_observation_layers=(
            "accessible", "agent_direction", "agent_load", "agents", "goals", "requests", "shelves",
        ), reward_type="global",
    ),
)  # fmt: skip
_LONGEST = networkx.algorithms.dag_longest_path
_CYCLE = networkx.algorithms.find_cycle


class Original(Warehouse):
    """The original, except for chance and ties, which follow the rules below, and two layers of images.

    - New requests are chosen by the random words of this library for a key, uniformly as in the original.
    - Of several longest queues to a free cell, the one whose robots have the lowest rows is taken. The original takes
      one by the order of a Python set; `longest_path` checks that this is one of them.
    - Version 2.0.0 writes the layers AGENT_DIRECTION and AGENT_LOAD to (x, y) instead of (y, x).
    """

    key = 0
    ties = rings = swaps = 0

    def step(self, actions):
        """Take a step with the patches above; count ties, rings and swaps."""
        self.ties = self.rings = self.swaps = 0
        generator, self._np_random = self._np_random, SimpleNamespace(choice=self._choose)
        self._goals_left = iter(range(len(self.goals)))
        networkx.algorithms.dag_longest_path = self.longest_path
        networkx.algorithms.find_cycle = self._find_cycle
        try:
            return super().step(actions)
        finally:
            self._np_random = generator
            networkx.algorithms.dag_longest_path = _LONGEST
            networkx.algorithms.find_cycle = _CYCLE

    def _choose(self, candidates):
        """Return the next request, among shelves in the order of their cells."""
        goal = next(
            index for index in self._goals_left
            if (shelf := self.grid[1, self.goals[index][1], self.goals[index][0]])
            and self.shelfs[shelf - 1] in self.request_queue
        )  # fmt: skip
        word = random_word(self.key, self._cur_steps + 1, goal)
        ordered = sorted(candidates, key=lambda shelf: (shelf.y, shelf.x))
        return ordered[word * len(ordered) >> 32]

    def longest_path(self, graph):
        """Return the longest path whose robots have the lowest rows, from its end backwards."""
        theirs = _LONGEST(graph)
        length = {}
        for node in networkx.topological_sort(graph):
            length[node] = max((length[predecessor] + 1 for predecessor in graph.pred[node]), default=0)
        path = [theirs[-1]]
        while graph.pred[path[0]]:
            rows = {node: self.grid[0, node[1], node[0]] for node in graph.pred[path[0]]}
            path.insert(0, min(rows, key=lambda node: (-length[node], rows[node])))
        assert len(path) == len(theirs)
        ordered = networkx.DiGraph()  # the original's function takes this path if the set has this order
        ordered.add_edges_from(itertools.pairwise(path))
        ordered.add_edges_from(graph.edges)
        assert len(path) < 2 or _LONGEST(ordered) == path
        self.ties += path != theirs
        return path

    def _find_cycle(self, graph):
        cycle = _CYCLE(graph)
        self.rings += len(cycle) > 2
        self.swaps += len(cycle) == 2
        return cycle

    def _make_img_obs(self, agent):
        names, robots = self.image_observation_layers, self.agents
        images = []
        for name in names:
            self.image_observation_layers = [name]
            if name in (ImageLayer.AGENT_DIRECTION, ImageLayer.AGENT_LOAD):
                self.agents = [
                    SimpleNamespace(x=robot.y, y=robot.x, dir=robot.dir, carrying_shelf=robot.carrying_shelf)
                    for robot in robots
                ]
            super()._make_img_obs(robots[0])  # the first robot renews the layers
            images.append(super()._make_img_obs(agent))
            self.agents = robots
        self.image_observation_layers = names
        return np.concatenate(images)


def make(**settings):
    """Return an original with settings of RobotWarehouse-v0."""
    options = DEFAULTS | settings
    options["reward_type"] = RewardType[options["reward_type"].upper()]
    if "observation_type" in options:
        options["observation_type"] = ObservationType[options["observation_type"].upper()]
    if "image_observation_layers" in options:
        options["image_observation_layers"] = [ImageLayer[name.upper()] for name in options["image_observation_layers"]]
    return Original(**options)


# Number of robots, bits of messages, range of sensors and kind of observations: each compiles its own kernels.
KINDS = (
    (1, 0, 1, "flattened"), (2, 0, 1, "flattened"), (3, 3, 2, "flattened"), (4, 1, 0, "flattened"),
    (8, 0, 1, "flattened"), (5, 0, 3, "image"), (7, 2, 1, "image_dict"), (6, 0, 2, "image_dict"),
)  # fmt: skip


def random_settings(rng, kind):
    """Return settings drawn at random, of one of the `KINDS`."""
    robots, bits, sight, view = KINDS[kind]
    names = [layer.name.lower() for layer in ImageLayer]
    settings = dict(
        n_agents=robots, msg_bits=bits, sensor_range=sight, observation_type=view,
        max_steps=int(rng.integers(30, 200)), reward_type=str(rng.choice(["global", "individual", "two_stage"])),
        max_inactivity_steps=None if rng.random() < 0.5 else int(rng.integers(5, 60)),
    )  # fmt: skip
    if view == "flattened":
        settings["normalised_coordinates"] = kind == 2
    else:
        settings["image_observation_layers"] = tuple(names if kind == 5 else names[kind - 6 :: 2])
        settings["image_observation_directional"] = kind != 7
    if rng.random() < 0.5:
        rows, columns = (int(number) for number in rng.integers(4, 9, 2))
        cells = rng.choice(list("xx....g"), (rows, columns))
        cells[0, :3], cells[1, 0] = list("xxx"), "g"
        settings["layout"] = "\n".join("".join(row) for row in cells)
        shelves = int((cells == "x").sum())
    else:
        columns, height, rows = int(rng.choice([3, 5])), int(rng.integers(1, 9)), int(rng.integers(1, 4))
        settings |= dict(shelf_columns=columns, column_height=height, shelf_rows=rows)
        shelves = 2 * height * (columns * rows - 1)
    requests = shelves - 1 if rng.random() < 0.2 else int(rng.integers(0, 8))
    return settings | {"request_queue_size": min(requests, shelves - 1)}


def state_of(env):
    """Return the state by the names of RobotWarehouse-v0, and the clock."""
    robots = env.agents
    shelf = np.zeros(env.grid_size, np.int8)
    for entry in env.shelfs:
        shelf[entry.y, entry.x] = 1 + (entry in env.request_queue)
    load = [int(bool(robot.carrying_shelf)) * (1 + robot.has_delivered) for robot in robots]
    message = [sum(int(bit) << index for index, bit in enumerate(robot.message)) for robot in robots]
    return dict(
        row=[robot.y for robot in robots], column=[robot.x for robot in robots],
        direction=[robot.dir.value for robot in robots], load=load, message=message, shelf=shelf,
        inactive=env._cur_inactive_steps,
    )  # fmt: skip


def distances(env, goals, loaded):
    """Return the number of cells to the nearest goal, (rows, columns); loaded robots do not enter cells of shelves."""
    far = np.full(env.grid_size, 10_000)
    queue = deque(goals)
    for row, column in goals:
        far[row, column] = 0
    while queue:
        row, column = queue.popleft()
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            neighbor = row + down, column + right
            inside = 0 <= neighbor[0] < far.shape[0] and 0 <= neighbor[1] < far.shape[1]
            if inside and far[neighbor] == 10_000 and not (loaded and env.grid[1][neighbor]):
                far[neighbor] = far[row, column] + 1
                queue.append(neighbor)
    return far


def choose(env, rng):
    """Return actions: at random, or by the shortest way to a requested shelf, a goal or a free place."""
    actions = rng.integers(0, 5, env.n_agents)
    queue, carried_shelves = env.request_queue, [robot.carrying_shelf for robot in env.agents]
    for index, robot in enumerate(env.agents):
        if rng.random() < 0.15:
            continue
        carried = robot.carrying_shelf
        if carried is None:
            goals = [(shelf.y, shelf.x) for shelf in queue if shelf not in carried_shelves]
        elif carried in queue:
            goals = [(y, x) for x, y in env.goals]
        else:
            goals = [tuple(cell) for cell in np.argwhere((env.highways == 0) & (env.grid[1] == 0))]
        far = np.pad(distances(env, goals, carried is not None), 1, constant_values=10_000)
        row, column = robot.y + 1, robot.x + 1
        if far[row, column] == 0:
            actions[index] = Action.TOGGLE_LOAD.value
            continue
        around = [far[row - 1, column], far[row, column + 1], far[row + 1, column], far[row, column - 1]]
        way = (Direction.UP, Direction.RIGHT, Direction.DOWN, Direction.LEFT).index(robot.dir)
        turn = (int(np.argmin(around)) - way) % 4
        if around[way] == min(around):
            actions[index] = Action.FORWARD.value
        else:
            actions[index] = Action.LEFT.value if turn == 3 else Action.RIGHT.value
    return actions


def arrange_ring(env, rng):
    """Put four robots on four cells around a corner, each ahead of the next; return whether there was room."""
    chosen = rng.permutation(env.n_agents)[:4]
    row, column = (int(rng.integers(0, size - 1)) for size in env.grid_size)
    cells = [(row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column)]
    ways = [Direction.RIGHT, Direction.DOWN, Direction.LEFT, Direction.UP]
    if rng.random() < 0.5:  # the other way around
        ways = [Direction.DOWN, Direction.LEFT, Direction.UP, Direction.RIGHT]
    ours = [env.agents[index] for index in chosen]
    for robot, cell in zip(ours, cells, strict=False):
        occupant, shelf = env.grid[0][cell], env.grid[1][cell]
        carried_by_ours = any(other.carrying_shelf is not None and other.carrying_shelf.id == shelf for other in ours)
        if (occupant and env.agents[occupant - 1] not in ours) or (
            robot.carrying_shelf and shelf and not carried_by_ours
        ):
            return False
    for robot, cell, way in zip(ours, cells, ways, strict=True):
        robot.y, robot.x, robot.dir = *cell, way
        if robot.carrying_shelf:
            robot.carrying_shelf.y, robot.carrying_shelf.x = cell
    env._recalc_grid()
    return True


def record(settings, steps, seed):
    """Play an original; return the arrays of its transitions, with a leading number of steps, by name."""
    env, rng = make(**settings), np.random.default_rng(seed)
    bits, trace = env.msg_bits, {}
    env.reset(seed=seed)
    for index in range(steps):
        env.key = index
        ring = env.n_agents >= 4 and rng.random() < 0.05 and arrange_ring(env, rng)
        previous, step = state_of(env), env._cur_steps
        action = np.ones(env.n_agents, int) if ring else choose(env, rng)
        if bits:
            action = np.column_stack([action, rng.integers(0, 2, (env.n_agents, bits))])
        obs, reward, done, truncated, _ = env.step(list(action))
        assert not truncated
        if isinstance(obs[0], dict):
            obs = [np.concatenate([view["features"], view["image"].ravel()]) for view in obs]
        values = previous | {f"after_{name}": value for name, value in state_of(env).items()}
        values |= dict(
            step=step, action=action, obs=np.stack([view.ravel() for view in obs]), reward=reward, done=done,
            ties=env.ties, rings=env.rings, swaps=env.swaps,
        )  # fmt: skip
        for name, value in values.items():
            trace.setdefault(name, []).append(value)
        if done:
            env.reset()
    small = dict(action=np.int8, obs=np.float32, reward=np.float64)
    return {
        name: np.array(values).astype(small.get(name, bool if name == "done" else np.int16))
        for name, values in trace.items()
    }


def record_all(path=TRACE, steps=300):
    """Write the traces of the quick tests."""
    arrays = {"settings": np.array(json.dumps(TRACED))}
    for index, settings in enumerate(TRACED):
        for name, values in record(settings, steps, seed=index).items():
            arrays[f"{index}.{name}"] = values
    write_arrays(path, arrays)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
