"""Games that go round in circles: self-play runs after itself for ever, response oracles end at the equilibrium."""

import itertools
import math

import pytest
import torch
from small_league import RPS, league

from league.measures import shape
from league.psro import PSRO, PSROConfig
from league.run import opened
from league.small import Small
from league.solvers import solve

BEATS = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], dtype=torch.float64)
LEARN = {
    "num_envs": 64,
    "learner.rollout_length": 4,
    "learner.hidden": [8],
}


@pytest.mark.learning
def test_self_play_of_rock_paper_scissors_cycles_while_psro_does_not(tmp_path):
    rates = {"learner.learning_rate": 0.01, "learner.entropy": 0.2}  # less entropy, and turns get longer and longer
    slow = {"learner.epochs": 2, **rates, **{f"{name}_end": value for name, value in rates.items()}}
    running = league(tmp_path / "self-play", "latest", iterations=40, steps=2048, episodes=300, **LEARN, **slow)
    running.run()
    copies = len(running.standing.roster.frozen())
    strategies = torch.stack(Small.of(RPS, required=True).know(running.populations)[0][1:]).double().reshape(copies, 3)
    exploitability = (strategies @ BEATS.T).amax(1)  # each by the one that beats it
    assert float(exploitability[-24:].median()) > 0.4  # the last ones are no better than the ones before
    turns = [(int(a), int(b)) for a, b in itertools.pairwise(strategies[4:].argmax(1)) if a != b]
    assert len(turns) >= 12
    assert turns == [(a, (a + 1) % 3) for a, _ in turns]  # always to what beats it
    assert shape(running.evaluate().meta_game()[:, 9:, 9:]).cyclic_share > 0.9
    running.store.close()

    fast = {"learner.learning_rate": 0.02, "learner.entropy": 0.0, "learner.entropy_end": 0.0}
    train = {**LEARN, **fast, "total_steps": 4096}
    config = PSROConfig(iterations=6, meta_solver="nash", start="scratch", train=train)
    with opened(tmp_path / "psro", RPS, "psro", config) as store:
        rows = PSRO(store, config).run()
        assert rows[-1]["exploitability"] < 0.1


def test_self_play_of_a_disc_game_cycles_while_its_oracle_ends_at_the_centre():
    """Balduzzi et al. 2019: strategies are points of the unit disc, who is a right angle ahead wins by 1.

    Payoffs only: the best response to a point is the one a right angle ahead of it, to a mixture to its mean.
    """

    def payoffs(points):
        table = points[:, :1] * points[:, 1:].T - points[:, 1:] * points[:, :1].T
        return torch.stack([table, -table])

    def response(mean):
        angle = math.atan2(float(mean[1]), float(mean[0])) - math.pi / 2
        return torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)

    points = [torch.tensor([1.0, 0.0], dtype=torch.float64)]
    for _ in range(15):
        points.append(response(points[-1]))  # self-play
    latest = torch.stack(points)
    assert torch.allclose(payoffs(torch.stack([response(points[-1]), points[-1]]))[0, 0, 1], torch.ones(()).double())
    found = shape(payoffs(latest))
    assert found.cyclic_share == pytest.approx(1.0)
    assert found.transitive_share == pytest.approx(0.0, abs=1e-9)

    points = points[:1]
    for _ in range(4):
        weights = solve("nash", payoffs(torch.stack(points))).marginals[0]
        points.append(response(weights @ torch.stack(points)))  # double oracle
    population = torch.stack(points[:4])
    weights = solve("max_entropy_nash", payoffs(population)).marginals[0]
    assert float((weights @ population).norm()) < 1e-6  # nothing earns anything against it
    assert weights == pytest.approx([0.25] * 4, abs=1e-6)
    assert shape(payoffs(population)).cyclic_share == pytest.approx(1.0)
