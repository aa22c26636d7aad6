"""EnvPool: worlds in C++ threads, with the batch size and number of threads that are fastest in a short trial."""

import re
import time

import envpool
import numpy as np

from benchmarks.peers.inside.child import BATCHES, serve

TRIAL, TRIALS = 0.05, 5
"""Length of a trial [s], and how many; the best one counts."""
PARTS = (1, 2, 4)
"""Worlds over batch size: 1 steps all worlds together, the others receive the worlds that are ready first."""


class Pool:
    """A pool of worlds with random actions."""

    def __init__(self, task_id, worlds, part, threads, settings):
        self.part, self.batch, self.threads = part, worlds // part, threads
        how = {"num_envs": worlds, "batch_size": self.batch, "num_threads": threads, "seed": 1}
        self.env = envpool.make(task_id, env_type="gymnasium", **how, **settings)
        self.env.async_reset()
        *_, self.info = self.env.recv()
        self.players = "players.env_id" in self.env.spec.action_array_spec and "players" in self.info
        rows = len(self.info["players"]["env_id"]) if self.players else self.batch
        self.agents = rows // self.batch
        self.name = self.env.spec._action_keys[-1]
        self.actions = _actions(self.env.spec.action_array_spec[self.name], rows)
        self.done = 0

    def play(self, count):
        """Run a number of steps of all worlds; a step takes several calls if a batch is smaller."""
        for index in range(self.done, self.done + count * self.part):
            self._send(self.actions[index % BATCHES])
            *_, self.info = self.env.recv()
        self.done += count * self.part
        return count

    def _send(self, action):
        ids = self.info["env_id"]
        if self.players:  # with the world of each action, which it would search for in Python
            self.env.send({"env_id": ids, "players.env_id": self.info["players"]["env_id"], self.name: action})
        else:
            self.env.send(action, ids)

    def rate(self):
        """Return the steps per second of a short trial."""
        self.play(1)
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < TRIAL:
            steps += self.play(1)
        return steps / (time.perf_counter() - begin)


def _actions(spec, rows):
    """Return batches of uniform actions for a number of rows."""
    shape = (BATCHES, rows, *(size for size in spec.shape if size != -1))
    draw = np.random.default_rng(0)
    if np.issubdtype(spec.dtype, np.integer):
        return draw.integers(spec.minimum, spec.maximum, shape, dtype=spec.dtype, endpoint=True)
    return draw.uniform(spec.minimum, spec.maximum, shape).astype(spec.dtype)


def task_id(game):
    """Return EnvPool's name of a game: the same one, or the newest version of an MPE scenario.

    Raises:
        ValueError: It does not have the game.
    """
    ids = envpool.list_all_envs()
    if game in ids:
        return game
    plain = {name: re.sub(r"[^a-z]", "", re.sub(r"[-_]v\d+$", "", name.lower())).removeprefix("mpe") for name in ids}
    same = sorted(name for name in ids if plain[name] == game.replace("_", ""))
    if not same:
        raise ValueError(f"EnvPool {envpool.__version__} does not have {game}")
    return same[-1]


def build(task):
    """``game``: an id, such as "CartPole-v1", or a scenario of MPE, such as "simple_tag"; ``options``: settings.

    The trial takes place in the first turn, when no other library starts at the same time.
    """
    name, worlds, limit = task_id(task["game"]), task["worlds"], task["threads"]
    pools = [
        Pool(name, worlds, part, threads, task["options"])
        for part in PARTS
        for threads in dict.fromkeys((0, 1, -(-limit // 2), limit))  # 0: its own choice
        if worlds % part == 0
    ]
    started = False

    def play(count):
        nonlocal started
        if started and len(pools) > 1:
            pools[:] = [fastest(pools)]  # ends the threads of the others
        for pool in pools:
            pool.play(count)
        started = True
        return count

    def note():
        return f"fastest with batch_size={pools[0].batch}, num_threads={pools[0].threads}" if len(pools) == 1 else ""

    return pools[0].agents, play, note


def fastest(pools):
    """Return the pool that is fastest in trials by turns."""
    rates = [0.0] * len(pools)
    for _ in range(TRIALS):
        rates = [max(rate, pool.rate()) for rate, pool in zip(rates, pools, strict=True)]
    return pools[rates.index(max(rates))]


if __name__ == "__main__":
    serve(build, ("envpool", "gymnasium", "numpy"))
