"""Runs of asynchronous pipeline PSRO on rock-paper-scissors.

`python async_pipeline_runs.py FOLDER POINTS` runs one undisturbed in FOLDER/whole, then POINTS times in FOLDER/0, 1,
..., each killed at a random point and resumed. Tasks finish in random order.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import toy_league
from psro_runs import QUICK
from shuffled import Shuffled

from league.executors.tasks import Executor
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run

RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})
DEPTH, SEGMENTS = 3, 2
SETTINGS = {**QUICK, "variant": "pipeline", "pipeline_depth": DEPTH, "num_segments": SEGMENTS, "asynchronous": True}


def opened(path: Path, game: Game = RPS, executor: Executor | None = None, **settings) -> PSRO:
    """Create or resume a run; its store is open."""
    config = PSROConfig(**{**SETTINGS, **settings})
    return PSRO(open_run(path, game, "psro", config), config, executor=executor)


def work(path: Path, iterations: int = 2) -> None:
    """Run with tasks that finish in random order."""
    with (running := opened(path, executor=Shuffled(seed=time.monotonic_ns()), iterations=iterations)).store:
        running.run()


if __name__ == "__main__":
    torch.set_num_threads(1)
    toy_league.kill(Path(sys.argv[1]), int(sys.argv[2]), work)
