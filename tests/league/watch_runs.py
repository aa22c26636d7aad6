"""Small runs to watch, and how they are asked about."""

import base64
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from league.game import Game
from league.psro import PSRO, PSROConfig
from league.run import opened
from league.watch.api import Api
from league.watch.rollouts import Rollouts
from league.watch.source import Latest, open_run
from trainers.config import TrainConfig
from trainers.loop import Trainer
from trainers.ppo import PPOConfig

RPS = Game.of("RockPaperScissors-v0", {"num_steps": 2})


def trainer(out: Path, iterations: int = 4) -> Trainer:
    learner = PPOConfig(rollout_length=5, hidden=(4,), epochs=1, minibatches=1)
    settings = {"num_envs": 4, "checkpoint_every": 2, "eval_episodes": 4, "learner": learner}
    env = {"max_cycles": 7}
    return Trainer(TrainConfig("SimpleTag-v0", env, total_steps=iterations * 20, **settings), out)


def trained(path: Path) -> Path:
    trainer(path).run()
    return path


def psro(path: Path, iterations: int = 2) -> Path:
    config = PSROConfig(iterations=iterations, oracle="exact", meta_solver="nash", episodes=30)
    with opened(path, RPS, "psro", config) as store:
        PSRO(store, config).run()
    return path


@contextlib.contextmanager
def watching() -> Iterator:
    """Gives a function that gives the Api of a run."""
    with contextlib.ExitStack() as stack:

        def watch(path: Path) -> Api:
            latest = stack.enter_context(contextlib.closing(Latest(open_run(path))))
            return Api(latest, stack.enter_context(contextlib.closing(Rollouts())))

        yield watch


def ask(api: Api, name: str, query: str = ""):
    return json.loads(api.answer(name, query))


def array(packed) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def until(told) -> None:
    """Waits for another thread."""
    deadline = time.monotonic() + 20.0
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.01)
