"""Tests of cyclic games: self-play cycles forever, and best-response oracles converge to the equilibrium."""

import itertools

import pytest
import torch
from small_league import RPS, league

from league.analysis.population_metrics import decompose_game
from league.evaluation.tabular_game import TabularGame
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run

BEATS = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], dtype=torch.float64)
LEARN = {
    "num_envs": 64,
    "learner.rollout_length": 4,
    "learner.hidden_sizes": [8],
}


@pytest.mark.learning
def test_self_play_of_rock_paper_scissors_cycles_while_psro_does_not(tmp_path):
    rates = {
        "learner.learning_rate": 0.01,
        "learner.entropy_coef": 0.2,
    }  # with less entropy, cycles get longer and longer
    slow = {"learner.num_epochs": 2, **rates, **{f"{name}_final": value for name, value in rates.items()}}
    running = league(tmp_path / "self-play", "latest", iterations=40, steps=2048, episodes=300, **LEARN, **slow)
    running.run()
    copies = len(running.state.roster.frozen())
    strategies = (
        torch.stack(TabularGame.of(RPS, required=True).tabulate_all(running.populations)[0][1:])
        .double()
        .reshape(copies, 3)
    )
    exploitability = (strategies @ BEATS.T).amax(1)  # by the move that beats it
    assert float(exploitability[-24:].median()) > 0.4  # no improvement over time
    turns = [(int(a), int(b)) for a, b in itertools.pairwise(strategies[4:].argmax(1)) if a != b]
    assert len(turns) >= 12
    assert turns == [(a, (a + 1) % 3) for a, _ in turns]  # always to the move that beats it
    assert decompose_game(running.evaluate().meta_game()[:, 9:, 9:]).cyclic_share > 0.9
    running.store.close()

    fast = {"learner.learning_rate": 0.02, "learner.entropy_coef": 0.0, "learner.entropy_coef_final": 0.0}
    train = {**LEARN, **fast, "total_steps": 4096}
    config = PSROConfig(iterations=6, meta_solver="nash", response_init="scratch", train_overrides=train)
    with open_run(tmp_path / "psro", RPS, "psro", config) as store:
        rows = PSRO(store, config).run()
        assert rows[-1]["exploitability"] < 0.1
