"""Cross-play counts every world once and knows who survived."""

import math

import pytest
import torch
from toy_core import Corridor, Identity

from gpu_envs.errors import GpuEnvsError
from trainers.evaluate import crossplay, estimate, play, table


class Fixed:
    """Stands in for a policy: the same action for everybody."""

    def __init__(self, action: int) -> None:
        self.action = action

    def act(self, obs, mask=None, greedy=False):
        return torch.full(obs.shape[:-1], self.action)

    def seed(self, seed: int) -> None:
        pass


class Uneven(Corridor):
    """World i starts at cell 5 - i % 5 (both walkers), so that going right it takes 1 + i % 5 steps."""

    def _start(self, mask):
        start = 5 - torch.arange(self.num_envs) % 5
        cells = start.unsqueeze(1).expand(-1, 2)
        self.worlds["cell"].copy_(torch.where(mask.unsqueeze(1), cells, self.worlds["cell"]))


def test_each_world_counts_exactly_once():
    # Always right: lengths 1..5 equally often, mean 3. Counting the first 25 episodes that end would favour short ones.
    outcome = play(Uneven(25), {"walker": Fixed(1)}, seed=0)
    assert outcome.episodes == 25
    assert outcome.length.mean == 3.0
    # two walkers, each 1 - 0.05 * length: 2 * (1 - 0.05 * 3) = 1.7
    assert outcome.returns["walker"].mean == pytest.approx(1.7)
    # standard deviation of 5 x (1, 2, 3, 4, 5) is sqrt(50 / 24)
    assert outcome.length.half == pytest.approx(1.96 * math.sqrt(50 / 24) / 5)


def test_survivors_are_those_that_no_rule_ended():
    class OneStays(Fixed):
        def act(self, obs, mask=None, greedy=False):
            return torch.tensor([1, 0]).expand(obs.shape[:-1])  # walker 0 goes, walker 1 stays until truncated

    outcome = play(Corridor(20, limit=8), {"walker": OneStays(1)}, seed=0)
    assert outcome.survivors["walker"].mean == 1.0
    assert outcome.leaves["walker"]
    assert outcome.length.mean == 8.0
    both = play(Uneven(5), {"walker": Fixed(1)}, seed=0)
    assert both.survivors["walker"].mean == 0.0
    assert not both.leaves["walker"]  # they arrive together, with the end of the world


def test_random_players_and_seeds():
    core = Identity(200)
    one, again, other = (play(core, {"even": None, "odd": None}, seed=s) for s in (1, 1, 2))
    assert one == again
    assert one != other
    # 4 steps, a third of the answers right
    assert one.returns["odd"].mean == pytest.approx(4 / 3, abs=0.3)
    assert one.returns["even"].mean == pytest.approx(8 / 3, abs=0.4)


def test_endless_episodes_are_an_error():
    with pytest.raises(GpuEnvsError, match="3 of 3 episodes lasted over 10 steps"):
        play(Corridor(3, limit=50), {"walker": Fixed(0)}, seed=0, max_steps=10)


def test_crossplay_pits_each_side_against_random_and_another():
    core, sides = Identity(6), {"even": ["even"], "odd": ["odd"]}
    trained, other = {"even": Fixed(0), "odd": Fixed(1)}, {"even": Fixed(2), "odd": Fixed(2)}
    played = [matchup for matchup, _ in crossplay(core, sides, trained, other, seed=0)]
    assert [(m["even"], m["odd"]) for m in played] == [
        ("random", "random"), ("trained", "random"), ("random", "trained"), ("trained", "trained"),
        ("other", "other"), ("trained", "other"), ("other", "trained"),
    ]  # fmt: skip
    results = crossplay(core, {"all": ["even", "odd"]}, {"all": Fixed(0)}, None, seed=0)
    assert [m["all"] for m, _ in results] == ["random", "trained"]
    lines = table(results).splitlines()
    assert lines[0].split() == ["all", "even", "return", "odd", "return", "episode", "length"]
    assert "survivors" not in lines[0]  # nobody leaves early in Identity
    assert lines[-1] == "6 episodes each, mean ± half of the 95 % interval"


def test_interval_by_hand():
    # samples 1, 2, 3, 4: mean 2.5, variance 5/3, standard error sqrt(5/12)
    got = estimate(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert got.mean == 2.5
    assert got.half == pytest.approx(1.96 * math.sqrt(5 / 12))
