"""Small runs for tests of the viewer, and requests about them."""

import base64
import json
import time
from pathlib import Path

import numpy as np

from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.watch.api import ViewerApi
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 2})


def trainer(out: Path, iterations: int = 4, **changes) -> Trainer:
    learner = PPOConfig(rollout_length=5, hidden_sizes=(4,), num_epochs=1, num_minibatches=1)
    settings = {"num_envs": 4, "checkpoint_interval": 2, "eval_episodes": 4, "learner": learner, **changes}
    env = {"max_cycles": 7}
    return Trainer(TrainConfig("SimpleTag-v0", env, total_steps=iterations * 20, **settings), out)


def trained(path: Path) -> Path:
    trainer(path).run()
    return path


def psro(path: Path, iterations: int = 2) -> Path:
    config = PSROConfig(iterations=iterations, oracle="exact", meta_solver="nash", episodes_per_matchup=30)
    with open_run(path, RPS, "psro", config) as store:
        PSRO(store, config).run()
    return path


def ask(api: ViewerApi, name: str, query: str = ""):
    return json.loads(api.answer(name, query))


def array(packed) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def until(condition) -> None:
    """Wait for another thread."""
    deadline = time.monotonic() + 300.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
