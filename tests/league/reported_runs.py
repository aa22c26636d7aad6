"""Small runs of which tests make reports."""

import shutil
from pathlib import Path

import pytest

from league.game import Game
from league.leagues.league import League, LeagueConfig
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run

RPS, KUHN, TAG = (
    Game.of("RockPaperScissors-v0", {"num_repetitions": 1}),
    Game.of("KuhnPoker-v0"),
    Game.of("SimpleTag-v0"),
)


def psro(path: Path, game: Game, **settings) -> Path:
    config = PSROConfig(**{"oracle": "exact", "meta_solver": "nash", "episodes_per_matchup": 60, **settings})
    with open_run(path, game, "psro", config) as store:
        PSRO(store, config).run()
    return path


def league(path: Path, game: Game, iterations: int, **settings) -> Path:
    train = {"num_envs": 8, "learner.rollout_length": 4, "learner.hidden_sizes": (8,), **settings}
    config = LeagueConfig(iterations=iterations, steps=32, episodes_per_matchup=20, train_overrides=train)
    builder = SelfPlayBuilder(SelfPlayConfig("pfsp", freeze_every=32))
    with open_run(path, game, "pfsp", config) as store:
        League(store, config, builder).run()
    return path


RUNS = {
    "rps": lambda path: psro(path, RPS, iterations=4),
    "kuhn": lambda path: psro(path, KUHN, iterations=4, payoff_estimation="exact"),
    "sampled": lambda path: psro(path, KUHN, iterations=3),
    "league": lambda path: league(path, RPS, 2),
}


class Runs(dict):
    """Folders of runs by name, each made when a test needs it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Path:
        self[name] = RUNS[name](self.folder / name)
        return self[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(runs, tmp_path, request) -> Path:
    """Return a copy of one of the runs."""
    return Path(shutil.copytree(runs[request.param], tmp_path / request.param))
