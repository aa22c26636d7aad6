"""The disc game, which has no best policy: self-play cycles, PSRO finds a mixture that no policy beats.

A mixture of points can be beaten by the distance of its mean from the middle, so its exploitability needs no search.
"""

from __future__ import annotations

import math

import pytest
import torch
from always import Always
from torch import Tensor

from league.analysis.population_metrics import decompose_game
from league.game import Game
from league.leagues.league import League, LeagueConfig
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.matchups.matchups import simulate_matchups
from league.matchups.payoff_table import PayoffTable
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.solvers import solve
from league.storage.open_run import open_run

DISC = Game.of("DiscGame-v0")
TRAIN = {
    "num_envs": 256,
    "learner.rollout_length": 4,
    "learner.learning_rate": 0.005,
    "learner.learning_rate_final": 0.005,
    "learner.entropy_coef": 0.0,
    "learner.hidden_sizes": [32],
}


class Point(Always):
    """Always chooses one point, an angle of the edge."""

    def __init__(self, angle: float) -> None:
        self.point = torch.tensor([math.cos(angle), math.sin(angle)])

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        return self.point.expand(*obs.shape[:-1], 2)


def means(policies) -> Tensor:
    """(N, 2), where on the disc policies are on average."""
    core = DISC.core(10_000)
    obs, _ = core.reset()
    action = torch.stack([policy.act(obs[:, :1])[:, 0].double() for policy in policies])
    return (action / action.norm(dim=-1, keepdim=True).clamp(min=1)).mean(1)


def exploitability(weights: Tensor, points: Tensor) -> float:
    return float((weights @ points[: len(weights)]).norm())


def test_points_on_the_edge_form_a_cyclic_game():
    assert DISC.shared
    assert DISC.zero_sum
    angle = 2 * math.pi * torch.arange(6, dtype=torch.float64) / 6
    exact = torch.sin(angle - angle[:, None])
    populations = {DISC.roles[0]: [Point(float(value)) for value in angle]}
    table = PayoffTable(DISC, {DISC.roles[0]: 6})
    matchups, episodes = table.missing(4)
    table.add(matchups, simulate_matchups(populations, game=DISC, matchups=matchups, episodes=episodes, seed=0))
    payoffs = table.meta_game()
    torch.testing.assert_close(payoffs[0], exact, atol=1e-6, rtol=0)
    torch.testing.assert_close(payoffs[1], -payoffs[0])
    assert decompose_game(payoffs).cyclic_share == pytest.approx(1)
    even = solve("max_entropy_nash", torch.stack((exact, -exact))).marginals[0]
    torch.testing.assert_close(even, torch.full((6,), 1 / 6, dtype=torch.float64), atol=1e-4, rtol=0)
    assert exploitability(even, means(populations[DISC.roles[0]])) < 1e-4


@pytest.mark.learning
def test_self_play_cycles_around_the_disc(tmp_path):
    """Its copies beat those before them, again and again: turn after turn about the middle, always clockwise."""
    config = LeagueConfig(iterations=20, steps=4096, episodes_per_matchup=200, train_overrides=TRAIN)
    builder = SelfPlayBuilder(SelfPlayConfig("latest", freeze_every=config.steps))
    with open_run(tmp_path / "run", DISC, "self-play", config) as store:
        league = League(store, config, builder)
        league.run()
        points = means(store.populations[DISC.roles[0]])[5:]  # the first ones have hardly left the middle
        payoffs = league.evaluate().meta_game()[:, 5:, 5:]
    angle = torch.atan2(points[:, 1], points[:, 0])
    turns = (angle.diff() + math.pi) % (2 * math.pi) - math.pi
    assert (turns < 0).all()
    assert float(turns.sum()) < -3 * math.pi
    assert (payoffs[0].diagonal(-1) > 0).all()  # of each against the one before
    assert decompose_game(payoffs).cyclic_share > 0.95
    assert float(points[-1].norm()) > 0.7  # what the last one can be beaten by


@pytest.mark.learning
def test_psro_mixture_is_hardly_exploitable(tmp_path):
    """The members of the mixture are exploitable, the mixture is not."""
    config = PSROConfig(
        iterations=8,
        meta_solver="nash",
        response_init="scratch",
        episodes_per_matchup=500,
        train_overrides={**TRAIN, "total_steps": 8192},
    )
    with open_run(tmp_path / "run", DISC, "psro", config) as store:
        rows = PSRO(store, config).run()
        points = means(store.populations[DISC.roles[0]])
    assert float(points[1:].norm(dim=1).max()) > 0.4
    for row in rows[-3:]:
        assert exploitability(torch.tensor(row["meta_strategy"][0], dtype=torch.float64), points) < 0.15
