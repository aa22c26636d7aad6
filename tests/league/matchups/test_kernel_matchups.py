"""Matchups inside the kernels estimate what policies that act between steps, and exact trees, give."""

import pytest
import torch
from always import Stateless
from exact_games import tree_of
from random_networks import network

from gpu_envs.errors import ConfigError
from league.exact.tabulation import tabulate
from league.game import Game
from league.matchups import matchups as matchups_module
from league.matchups.matchups import simulate_matchups
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy

KUHN = Game.of("KuhnPoker-v0")
RPS = Game.of("RockPaperScissors-v0")


def populations_of(game, count):
    populations = {role: [RandomPolicy.of(game, role)] for role in game.roles}
    for role in game.roles:
        seat = game.seats_of(role)[0]
        populations[role] += [network(game, seat, 10 * seat + seed) for seed in range(count)]
    return populations


@pytest.mark.parametrize(
    ("game", "episodes"),
    [
        (KUHN, 3000),
        pytest.param(Game.of("LeducPoker-v0"), 2000, marks=pytest.mark.slow),
        pytest.param(Game.of("SimpleTag-v0"), 300, marks=pytest.mark.slow),
        pytest.param(RPS, 1000, marks=pytest.mark.slow),
        pytest.param(Game.of("KuhnPoker-v0", shared=True), 3000, marks=pytest.mark.slow),
    ],
    ids=lambda value: f"{value.env_id}{' shared' * value.shared}" if isinstance(value, Game) else None,
)
def test_estimates_agree_with_policies_that_act_between_steps(game, episodes):
    populations = populations_of(game, 2)
    matchups = [(0, 1), (1, 0), (1, 1), (1, 2), (2, 2)]
    result, other = (
        simulate_matchups(populations, game=game, matchups=matchups, episodes=episodes, seed=3, engine=engine)
        for engine in ("kernel", "torch")
    )
    assert torch.equal(result.count, other.count)
    spread = (
        ((result.square + other.square) / episodes - result.mean**2 - other.mean**2).clamp(min=0).div(episodes).sqrt()
    )
    assert ((result.mean - other.mean).abs() <= 4.5 * spread + 1e-9).all()
    assert not torch.equal(result.total, other.total)


def test_intervals_cover_exact_payoffs_of_networks():
    tree = tree_of("kuhn")
    policies = {
        seat.role: [network(KUHN, index, 7 * index + n) for n in range(3)] for index, seat in enumerate(KUHN.seats)
    }
    matchups = [(i, j) for i in range(3) for j in range(3)]
    result = simulate_matchups(policies, game=KUHN, matchups=matchups, episodes=4000, seed=1, engine="kernel")
    tables = [torch.stack([tabulate(policy, tree, seat) for policy in policies[f"player_{seat}"]]) for seat in range(2)]
    exact = tree.payoffs(tables)[0].flatten()
    half = 1.96 * ((result.square / 4000 - result.mean**2) / 4000).sqrt()[:, 0]
    off = (result.mean[:, 0] - exact).abs() / half
    assert int((off <= 1).sum()) >= 7
    assert off.max() < 2.2


def test_equal_seeds_give_equal_results_over_several_batches():
    policies = populations_of(KUHN, 2)
    arguments = {"game": KUHN, "matchups": [(1, 1), (2, 1), (0, 2)], "episodes": [900, 300, 1100], "engine": "kernel"}
    first, repeated, other = (simulate_matchups(policies, seed=seed, max_envs=1024, **arguments) for seed in (4, 4, 5))
    assert torch.equal(first.total, repeated.total)
    assert not torch.equal(first.total, other.total)
    assert first.count.tolist() == [900, 300, 1100]
    torch.testing.assert_close(first.total[:, 0], -first.total[:, 1])


def test_batches_of_one_call_have_different_random_streams():
    policies = {seat.role: [network(KUHN, index, index)] for index, seat in enumerate(KUHN.seats)}
    arguments = {"game": KUHN, "matchups": [(0, 0)], "seed": 2, "engine": "kernel", "max_envs": 512}
    first = simulate_matchups(policies, episodes=512, **arguments)
    two = simulate_matchups(policies, episodes=1024, **arguments)
    assert two.total[0, 0] != 2 * first.total[0, 0]


def constant(choice):
    """Return a network that plays one choice of rock, paper, scissors."""
    policy = network(RPS, 0, 0)
    weight, bias = list(policy.actor.parameters())[-2:]
    weight.data.zero_()
    bias.data.copy_(50.0 * torch.eye(3)[choice])
    return policy


def test_mixture_plays_one_member_for_a_whole_episode():
    rock, paper, scissors = (constant(choice) for choice in range(3))
    arguments = {"game": RPS, "matchups": [(0, 1)], "seed": 3, "engine": "kernel"}
    best = simulate_matchups({"player": [paper, rock]}, episodes=10, **arguments)
    reward = float(best.mean[0, 0])
    assert reward > 1  # the sum of several rounds
    assert float(best.square[0, 0]) == pytest.approx(10 * reward**2)
    mixture = MixturePolicy([paper, scissors], torch.tensor([0.25, 0.75]))
    result = simulate_matchups({"player": [mixture, rock]}, episodes=4000, **arguments)
    assert float(result.square[0, 0]) == pytest.approx(4000 * reward**2)  # no episode with both members
    assert float(result.mean[0, 0]) / reward == pytest.approx(0.25 - 0.75, abs=0.04)


class Table(Stateless):
    """Take the first legal action, and count the queries."""

    queries = 0

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        self.queries += 1
        return mask.int().argmax(-1)


def test_matchups_with_other_policies_are_played_between_steps():
    policies, table = populations_of(KUHN, 1), Table()
    policies["player_0"].append(table)
    result = simulate_matchups(policies, game=KUHN, matchups=[(1, 1), (0, 1)], episodes=900, seed=0, engine="kernel")
    assert not table.queries
    together = simulate_matchups(
        policies, game=KUHN, matchups=[(1, 1), (2, 1), (0, 1)], episodes=900, seed=0, engine="kernel"
    )
    assert table.queries
    assert together.count.tolist() == [900] * 3
    assert torch.equal(together.total[[0, 2]], result.total)


def test_few_episodes_do_not_compile_kernels_by_themselves(monkeypatch):
    policies, played = populations_of(KUHN, 1), []
    monkeypatch.setattr(matchups_module.KernelMatchups, "simulate", lambda *_: played.append(1))
    result = simulate_matchups(policies, game=KUHN, matchups=[(1, 1)], episodes=50, seed=0)
    assert result.count.tolist() == [50]
    assert not played


def test_bad_engine_and_policies_of_another_game_are_errors():
    policies = populations_of(KUHN, 1)
    arguments = {"game": KUHN, "matchups": [(1, 1)], "episodes": 5, "seed": 0}
    with pytest.raises(ConfigError, match="engine: expected one of auto, torch, kernel, got 'warp'"):
        simulate_matchups(policies, engine="warp", **arguments)
    wrong = {**policies, "player_1": [policies["player_1"][0], network(RPS, 0, 0)]}
    with pytest.raises(ConfigError, match="seat player_1: policy 1: obs_width: expected"):
        simulate_matchups(wrong, engine="kernel", **arguments)
