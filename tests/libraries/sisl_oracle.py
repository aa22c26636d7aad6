"""Transitions of PettingZoo's pursuit_v4, which replays compare with Pursuit-v0.

The recorded trace of the quick tests is made by this module:

    .nox/sisl/bin/python -m libraries.sisl_oracle   # in the folder tests
"""

import importlib
import json
from pathlib import Path

import numpy as np
import pettingzoo
from parity.grid.pursuit_replay import digests
from parity.grid.warehouse_replay import random_word
from parity.traces import write_arrays

RELEASE = tuple(int(part) for part in pettingzoo.__version__.split(".")[:2])
NAME = "pursuit_v5" if RELEASE >= (1, 27) else "pursuit_v4"
"""Module of the original: version 5 adds the global state."""
parallel_env = importlib.import_module(f"pettingzoo.sisl.{NAME}").parallel_env

TRACE = Path(__file__).parents[1] / "parity" / "grid" / "pursuit.npz.xz"
SMALL = dict(x_size=5, y_size=6, n_evaders=5, n_pursuers=6, max_cycles=30)
# Settings of the recorded traces, and their numbers of transitions.
TRACED = (
    ({}, 100),
    (SMALL, 400),
    (SMALL | dict(shared_reward=False, surround=False, tag_reward=0.25, urgency_reward=-0.5, obs_range=4), 250),
    (
        dict(
            x_size=8, y_size=4, n_evaders=6, n_pursuers=5, max_cycles=25, shared_reward=False, freeze_evaders=True,
            catch_reward=2.0, urgency_reward=-0.3, obs_range=3,
        ),
        250,
    ),
)  # fmt: skip
REWARDS = dict(tag_reward=0.01, catch_reward=5.0, urgency_reward=-0.1)
"""Default rewards."""


class Evaders:
    """Controller of evaders whose moves are those of Pursuit-v0 for a key."""

    def __init__(self, env):
        self.env, self.key, self.turn = env, 0, 0

    def act(self, _):
        """Return the move of the next evader that is free."""
        index = np.flatnonzero(~self.env.evaders_gone)[self.turn]
        self.turn += 1
        return random_word(self.key, self.env.frames + 1, int(index)) * 5 >> 32


def make(**settings):
    """Return an original, its inner environment, and the controller of its evaders."""
    rewards = {name: float(np.float32(settings.get(name, value))) for name, value in REWARDS.items()}
    env = parallel_env(**settings | rewards)  # kernels calculate with settings in float32
    inner = env.unwrapped.env
    evaders = Evaders(inner)
    if not settings.get("freeze_evaders"):
        inner.evader_controller = evaders
    return env, inner, evaders


# Columns, rows, pursuers, evaders and range of observations: each compiles its own kernels. There is room for every
# start: where there is none, the original searches for a cell forever.
KINDS = ((6, 6, 5, 4, 5), (7, 3, 3, 3, 4), (4, 4, 2, 3, 7), (2, 5, 2, 2, 3), (5, 7, 1, 2, 1), (8, 8, 7, 9, 9))


def random_settings(rng, kind):
    """Return settings drawn at random, of one of the `KINDS`: small maps, on which evaders are caught."""
    names = ("x_size", "y_size", "n_pursuers", "n_evaders", "obs_range")
    return dict(zip(names, KINDS[kind], strict=True)) | dict(
        max_cycles=int(rng.integers(5, 60)), n_catch=int(rng.integers(1, 4)), shared_reward=bool(rng.random() < 0.5),
        freeze_evaders=bool(rng.random() < 0.3), surround=bool(rng.random() < 0.6),
        **{name: float(rng.normal()) for name in REWARDS},
    )  # fmt: skip


def scatter(inner, rng):
    """Put pursuers and evaders into random open cells; many share a cell, which starts do not have."""
    cells = np.argwhere(inner.map_matrix != -1)
    for agent in (*inner.pursuers, *inner.evaders):
        agent.set_position(*cells[rng.integers(len(cells))])
    inner.model_state[1] = inner.pursuer_layer.get_state_matrix()
    inner.model_state[2] = inner.evader_layer.get_state_matrix()


def choose(inner, rng):
    """Return actions: at random, or towards an evader or one of the cells beside it."""
    actions = rng.integers(0, 5, inner.n_pursuers)
    targets = [agent.current_position().copy() for agent in inner.evaders]
    for index, pursuer in enumerate(inner.pursuers):
        if rng.random() < 0.3:
            continue
        x, y = pursuer.current_position()
        goals = np.array([cell + offset for cell in targets for offset in inner.surround_mask])
        goals = goals if inner.surround else np.array(targets)
        offsets = goals - (x, y)
        right, up = offsets[rng.permutation(len(offsets))[: 1 + len(offsets) // 2]][0]
        if right == up == 0:
            actions[index] = 4
        elif abs(right) > abs(up):
            actions[index] = 1 if right > 0 else 0
        else:
            actions[index] = 2 if up > 0 else 3
    return actions


def state_of(inner, cells, catch_step):
    """Return the cells of all pursuers and evaders; evaders that are gone stay in their last cell, as ``cells``."""
    cells = cells.copy()
    cells[~inner.evaders_gone] = [agent.current_position() for agent in inner.evaders] or np.zeros((0, 2))
    catch_step = np.where(inner.evaders_gone & (catch_step == 0), inner.frames, catch_step)
    pursuer = np.array([agent.current_position() for agent in inner.pursuers])
    return {"pursuer": pursuer, "evader": cells, "catch_step": catch_step}


def record(settings, steps, seed, in_full=True):
    """Play an original; return the arrays of its transitions, with a leading number of steps, by name.

    Observations and global states are digests unless they are recorded in full.
    """
    env, inner, evaders = make(**settings)
    rng, trace, has_ended = np.random.default_rng(seed), {}, True
    for index in range(steps):
        if has_ended:
            env.reset(seed=seed + index)
            if rng.random() < 0.5:
                scatter(inner, rng)
            previous = state_of(inner, np.zeros((inner.n_evaders, 2), int), np.zeros(inner.n_evaders, int))
        step, action = inner.frames, choose(inner, rng)
        evaders.key, evaders.turn = index, 0
        names = list(env.agents)
        obs, reward, terminated, truncated, _ = env.step(dict(zip(names, action, strict=True)))
        after = state_of(inner, previous["evader"], previous["catch_step"])
        views = np.stack([obs[name].ravel() for name in names])
        rewards = np.array([reward[name] for name in names])
        global_state = np.abs(inner.model_state[:3]).swapaxes(0, 2).ravel()  # state() of version 5
        values = previous | {f"after_{name}": value for name, value in after.items()}
        values |= dict(
            step=step, action=action, obs=views, state=global_state, terminated=all(terminated.values()),
            truncated=all(truncated.values()), reward=rewards[:1] if settings.get("shared_reward", True) else rewards,
        )  # fmt: skip
        if settings.get("shared_reward", True):
            np.testing.assert_array_equal(rewards, rewards[0])
        if hasattr(inner, "state"):
            np.testing.assert_array_equal(env.state().ravel(), global_state)
        for name, value in values.items():
            trace.setdefault(name, []).append(value)
        previous, has_ended = after, not env.agents
    kinds = {"reward": np.float64, "obs": np.float32, "state": np.float32, "terminated": bool, "truncated": bool}
    arrays = {name: np.array(values).astype(kinds.get(name, np.int16)) for name, values in trace.items()}
    if not in_full:
        arrays |= {name: digests(arrays[name]) for name in ("obs", "state")}
    return arrays


def record_all(path=TRACE):
    """Write the traces of the quick tests."""
    arrays = {"settings": np.array(json.dumps([settings for settings, _ in TRACED]))}
    for index, (settings, steps) in enumerate(TRACED):
        for name, values in record(settings, steps, index, in_full=False).items():
            small = values.astype(np.int8) if values.dtype == np.int16 and name != "step" else values
            np.testing.assert_array_equal(small, values)
            arrays[f"{index}.{name}"] = small
    write_arrays(path, arrays)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
