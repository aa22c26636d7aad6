"""Transitions of lbforaging 2.0.0, which replays compare with LevelBasedForaging-v0.

The recorded traces of the quick tests are made by this module:

    .nox/lbforaging/bin/python -m libraries.lbforaging_oracle   # in the folder tests
"""

import inspect
import json
from pathlib import Path

import gymnasium
import numpy as np
from lbforaging.foraging.environment import Action, ForagingEnv
from parity.traces import write_arrays

TRACE = Path(__file__).parents[1] / "parity" / "grid" / "level_based_foraging.npz.xz"
DEFAULTS = dict(
    players=2, min_player_level=1, max_player_level=2, field_size=(8, 8), min_food_level=1, max_food_level=None,
    max_num_food=2, sight=8, max_episode_steps=50, force_coop=False,
)  # fmt: skip
# Settings of the recorded traces.
TRACED = (
    dict(max_episode_steps=15),
    dict(field_size=(5, 5), sight=2, max_episode_steps=30, force_coop=True, penalty=0.1),
    dict(players=4, field_size=(5, 7), sight=7, max_player_level=(1, 2, 3, 4), min_player_level=(1, 2, 3, 4)),
    dict(players=3, field_size=(5, 5), sight=2, grid_observation=True, normalize_reward=False, max_episode_steps=20),
    dict(field_size=(5, 5), sight=1, observe_agent_levels=False, min_food_level=(1, 3), max_food_level=(2, 3)),
)


class Original(ForagingEnv):
    """The original, with spaces where its own cannot be built or do not contain its observations.

    Version 2.0.0 builds a Box of a wrong shape for grids, and bounds rows by the number of columns.
    """

    def _get_observation_space(self):
        if self._grid_observation:
            across = 2 * self.sight + 1
            return gymnasium.spaces.Box(-np.inf, np.inf, (3, across, across), np.float32)
        space = super()._get_observation_space()
        return space if self.rows == self.cols else gymnasium.spaces.Box(-np.inf, np.inf, space.shape, np.float32)


def random_settings(rng):
    """Return settings drawn at random."""
    players, foods = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    rows = int(rng.integers(3, 12))
    columns = rows if rng.random() < 0.6 else int(rng.integers(3, 12))
    low, spread = (int(number) for number in rng.integers([1, 0], [3, 3]))
    settings = dict(
        players=players, max_num_food=foods, field_size=(rows, columns),
        sight=int(rng.integers(0, max(rows, columns) + 2)),
        max_episode_steps=int(rng.integers(10, 60)), force_coop=bool(rng.random() < 0.5),
        normalize_reward=bool(rng.random() < 0.7), grid_observation=bool(rng.random() < 0.3),
        observe_agent_levels=bool(rng.random() < 0.7), penalty=float(rng.choice([0.0, 0.1, 0.5])),
        min_player_level=low, max_player_level=low + spread, min_food_level=1, max_food_level=None,
    )  # fmt: skip
    if settings["grid_observation"]:
        settings["sight"] = int(rng.integers(1, 4))  # every sight compiles its own kernels
    if rng.random() < 0.4:
        settings["min_player_level"] = tuple(int(level) for level in rng.integers(1, 3, players))
        settings["max_player_level"] = tuple(level + 2 for level in settings["min_player_level"])
    if rng.random() < 0.5:
        settings["min_food_level"] = tuple(int(level) for level in rng.integers(1, 4, foods))
        settings["max_food_level"] = tuple(level + int(rng.integers(0, 4)) for level in settings["min_food_level"])
    return settings


def make(**settings):
    """Return an original."""
    env = Original(**DEFAULTS | settings)
    assert set(settings) <= set(inspect.signature(ForagingEnv).parameters), settings
    return env


def state_of(env):
    """Return players (A, 3), foods (F, 3) in row order, the sum of levels at the start, and the clock."""
    players = np.array([(*player.position, player.level) for player in env.players], np.int16)
    foods = np.zeros((env.max_num_food, 3), np.int16)
    for index, (row, column) in enumerate(zip(*env.field.nonzero(), strict=True)):
        foods[index] = row, column, env.field[row, column]
    return players, foods, int(env._food_spawned), env.current_step


def put(env, trace, index):
    """Put an original into the state before a transition of a trace."""
    if env.players[0].position is None:
        env.reset(seed=0)
    env.field[:] = 0
    for row, column, level in trace["food"][index]:
        env.field[row, column] += level
    for player, (row, column, level) in zip(env.players, trace["player"][index], strict=True):
        player.setup((int(row), int(column)), int(level), env.field_size)
    env._food_spawned, env.current_step = int(trace["spawned"][index]), int(trace["step"][index])
    env._gen_valid_moves()


def mask_of(env):
    """Return the valid actions of all players, (A, 6)."""
    return np.array([[action in env._valid_actions[player] for action in Action] for player in env.players])


def choose(env, rng):
    """Return actions: at random, or to the nearest food and loading it."""
    actions = rng.integers(0, 6, len(env.players))
    foods = np.argwhere(env.field > 0)
    for index, player in enumerate(env.players):
        if rng.random() < 0.35 or not len(foods):
            continue
        ways = foods - np.array(player.position)
        row, column = ways[np.abs(ways).sum(1).argmin()]
        if abs(row) + abs(column) == 1:
            actions[index] = Action.LOAD.value
        elif abs(row) > abs(column):
            actions[index] = Action.SOUTH.value if row > 0 else Action.NORTH.value
        else:
            actions[index] = Action.EAST.value if column > 0 else Action.WEST.value
    return actions


def record(settings, steps, seed):
    """Play an original; return the arrays of its transitions, with a leading number of steps, by name."""
    env, rng = make(**settings), np.random.default_rng(seed)
    trace = {}
    env.reset(seed=seed)
    start = True
    for _ in range(steps):
        player, food, spawned, step = state_of(env)
        action = choose(env, rng)
        obs, reward, done, truncated, _ = env.step(action)
        assert not truncated
        after_player, after_food, *_ = state_of(env)
        values = dict(
            player=player, food=food, spawned=spawned, step=step, action=action, reward=reward, done=done,
            obs=np.stack([observation.ravel() for observation in obs]), mask=mask_of(env), after_player=after_player,
            after_food=after_food, start=start,
        )  # fmt: skip
        for name, value in values.items():
            trace.setdefault(name, []).append(value)
        start = done
        if done:
            env.reset()
    small = dict(action=np.int8, obs=np.float32, reward=np.float64)
    return {name: np.array(values).astype(small.get(name, np.array(values).dtype)) for name, values in trace.items()}


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
