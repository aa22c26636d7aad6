"""Matchups in one batched rollout give what each gives alone, without length bias, near the exact values."""

import numpy as np
import pytest
import torch
from always import Stateless
from random_networks import network
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.game import Game
from league.matchups.matchups import scores, simulate_matchups
from league.matchups.payoff_table import PayoffTable

KUHN = Game.of("KuhnPoker-v0")
RPS = Game.of("RockPaperScissors-v0")


class Weighted(Stateless):
    """One choice, drawn with these chances."""

    def __init__(self, *chances: float) -> None:
        self.chances = torch.tensor(chances, dtype=torch.float32)
        self.generator = torch.Generator()

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        count = int(np.prod(obs.shape[:-1]))
        drawn = torch.multinomial(self.chances, count, replacement=True, generator=self.generator)
        drawn = drawn.view(obs.shape[:-1])
        if mask is None:
            return drawn
        return torch.where(mask.gather(-1, drawn[..., None])[..., 0], drawn, mask.int().argmax(-1))

    def seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)


def kuhn_value(first: float, second: float) -> float:
    """Return OpenSpiel's value for player 0 if the players bet with these probabilities."""
    pyspiel = pytest.importorskip("pyspiel")
    game = pyspiel.load_game("kuhn_poker")

    def value(state) -> float:
        if state.is_terminal():
            return state.returns()[0]
        if state.is_chance_node():
            return sum(chance * value(state.child(action)) for action, chance in state.chance_outcomes())
        bets = (first, second)[state.current_player()]
        return (1 - bets) * value(state.child(0)) + bets * value(state.child(1))

    return value(game.new_initial_state())


def test_intervals_cover_the_exact_values_of_kuhn_poker():
    chances = (0.5, 0.2, 0.9)
    policies = [Weighted(1 - bets, bets) for bets in chances]
    matchups = [(i, j) for i in range(3) for j in range(3)]
    table = PayoffTable(KUHN)
    result = simulate_matchups(
        {"player_0": policies, "player_1": policies}, game=KUHN, matchups=matchups, episodes=3000, seed=1, max_envs=4096
    )
    table.add(matchups, result)
    assert kuhn_value(0.5, 0.5) == pytest.approx(0.125)
    off = [
        abs(table.mean[0, i, j].item() - kuhn_value(chances[i], chances[j])) / table.half_width[0, i, j].item()
        for i, j in matchups
    ]
    assert sum(ratio <= 1 for ratio in off) >= 7
    assert max(off) < 2
    assert result.count.tolist() == [3000] * 9
    torch.testing.assert_close(result.total[:, 0], -result.total[:, 1])


def test_intervals_have_their_nominal_coverage():
    policies, exact = [Weighted(0.5, 0.5)], kuhn_value(0.5, 0.5)
    matchups = [(0, 0)] * 400  # each counted by itself
    result = simulate_matchups(
        {"player_0": policies, "player_1": policies}, game=KUHN, matchups=matchups, episodes=40, seed=2
    )
    inside = 0
    for row in range(400):
        table = PayoffTable(KUHN)
        table.add([(0, 0)], type(result)(*(getattr(result, name)[row : row + 1] for name in result.__annotations__)))
        inside += bool((table.mean[0] - exact).abs() <= table.half_width[0])
    assert 0.92 <= inside / 400 <= 0.98


def test_rock_beats_scissors_in_every_order_of_the_seats():
    policies = [Weighted(1, 0, 0), Weighted(0, 1, 0), Weighted(0, 0, 1)]
    matchups = [(0, 1), (1, 0), (0, 2), (1, 2), (0, 0)]
    result = simulate_matchups({"player": policies}, game=RPS, matchups=matchups, episodes=5, seed=0)
    mean = (result.total / result.count[:, None]).tolist()
    paper, rock = mean[0][1], mean[0][0]
    assert mean == [[rock, paper], [paper, rock], [paper, rock], [rock, paper], [0.0, 0.0]]
    assert paper > 0 > rock
    assert result.score.tolist() == [[0, 5], [5, 0], [5, 0], [0, 5], [2.5, 2.5]]


def test_policies_of_a_shared_population_play_both_seats_equally_often():
    game = Game.of("KuhnPoker-v0", shared=True)
    bold, shy = Weighted(0.1, 0.9), Weighted(0.8, 0.2)
    result = simulate_matchups({"player": [bold, shy]}, game=game, matchups=[(0, 1), (1, 0)], episodes=8000, seed=4)
    exact = (kuhn_value(0.9, 0.2) - kuhn_value(0.2, 0.9)) / 2
    half = 1.96 * (result.square / 8000).sqrt()[:, 0] / 8000**0.5
    assert abs(result.mean[0, 0] - exact) < 1.5 * half[0]
    assert abs(result.mean[1, 1] - exact) < 1.5 * half[1]
    single = simulate_matchups({"player": [bold, shy]}, game=game, matchups=[(0, 1)], episodes=1, seed=0)
    assert single.count.tolist() == [1]


@pytest.mark.slow
def test_one_batch_agrees_with_separate_runs():
    populations = {
        seat.role: [network(KUHN, index, 2 * seed + index) for seed in range(3)]
        for index, seat in enumerate(KUHN.seats)
    }
    matchups = [(i, j) for i in range(3) for j in range(3)]
    together = simulate_matchups(populations, game=KUHN, matchups=matchups, episodes=4000, seed=5, max_envs=10_000)
    for row, matchup in enumerate(matchups):
        alone = simulate_matchups(populations, game=KUHN, matchups=[matchup], episodes=4000, seed=6)
        spread = ((together.square[row, 0] + alone.square[0, 0]) / 4000 / 4000).sqrt()
        assert abs(together.mean[row, 0] - alone.mean[0, 0]) < 4 * spread
    repeated = simulate_matchups(populations, game=KUHN, matchups=matchups, episodes=4000, seed=5, max_envs=10_000)
    assert torch.equal(repeated.total, together.total)
    other = simulate_matchups(populations, game=KUHN, matchups=matchups, episodes=4000, seed=7, max_envs=10_000)
    assert not torch.equal(other.total, together.total)


def test_long_episodes_count_as_often_as_short_ones():
    # Where player_1 always bets, player_0's own bet ends it after 2 steps with 0 on average, a check only after
    # 3 with -1/2; to count the first to finish, or a number of steps, would count too few of the long ones.
    policies = {"player_0": [Weighted(0.5, 0.5)], "player_1": [Weighted(0.5, 0.5), Weighted(1, 0), Weighted(0, 1)]}
    episodes = np.array([301, 20_000, 7])
    result = simulate_matchups(
        policies, game=KUHN, matchups=[(0, 0), (0, 2), (0, 1)], episodes=episodes, seed=3, max_envs=997
    )
    assert result.count.tolist() == episodes.tolist()
    exact = kuhn_value(0.5, 1.0)
    assert exact == pytest.approx(-0.25)
    assert abs(result.mean[1, 0] - exact) < 3 * (result.square[1, 0] / 20_000 / 20_000).sqrt()


class Lazy(list):
    """A population that notes who was asked for."""

    def __init__(self, policies: list) -> None:
        super().__init__(policies)
        self.loaded: set[int] = set()

    def __getitem__(self, index):
        self.loaded.add(index)
        return super().__getitem__(index)


def test_only_policies_of_the_matchups_are_loaded():
    policies = Lazy([Weighted(1, 0, 0), Weighted(0, 1, 0), Weighted(0, 0, 1), Weighted(1, 1, 1)])
    result = simulate_matchups({"player": policies}, game=RPS, matchups=[(1, 3), (3, 2), (2, 1)], episodes=6, seed=0)
    assert policies.loaded == {1, 2, 3}
    assert (
        result.total[2].tolist()
        == simulate_matchups({"player": list(policies)}, game=RPS, matchups=[(2, 1)], episodes=6, seed=1)
        .total[0]
        .tolist()
    )


def test_unequal_episode_counts_and_empty_matchups():
    policies = {"player": [Weighted(1, 0, 0), Weighted(0, 1, 0)]}
    result = simulate_matchups(
        policies, game=RPS, matchups=torch.tensor([[0, 1], [1, 0], [0, 0]]), episodes=[3, 0, 2], seed=0, max_envs=2
    )
    assert result.count.tolist() == [3, 0, 2]
    assert simulate_matchups(policies, game=RPS, matchups=np.zeros((0, 2), int), episodes=5, seed=0).total.shape == (
        0,
        2,
    )


def test_team_returns_are_summed_and_draw_margin_sets_scores():
    game = Game.of("SimpleTag-v0", {"max_cycles": 5})
    populations = {seat.role: [Weighted(1, 0, 0, 0, 0), Weighted(0, 1, 0, 0, 0)] for seat in game.seats}
    result = simulate_matchups(populations, game=game, matchups=[(0, 0), (1, 0)], episodes=50, seed=1, draw_margin=-1e9)
    assert result.score.tolist() == [[50, 0], [50, 0]]
    assert (result.total[:, 1] < 0).all()


def test_score_of_several_seats_is_the_share_of_beaten_seats():
    earned = torch.tensor([[3.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0.0, 0.0, 5.0]])
    assert scores(earned).tolist() == [[1.0, 0.0, 0.5], [0.5, 0.5, 0.5], [0.25, 0.25, 1.0]]
    assert scores(torch.tensor([[2.0, 1.0], [3.0, 1.0]]), draw_margin=1.0).tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert scores(torch.tensor([[2.0]])).tolist() == [[0.5]]


def test_bad_matchups_and_endless_episodes_are_errors():
    policies = {"player_0": [Weighted(1, 0)], "player_1": [Weighted(1, 0)]}
    with pytest.raises(ConfigError, match=r"matchup \(0, 1\): player_1: expected a policy of 0 to 0"):
        simulate_matchups(policies, game=KUHN, matchups=[(0, 0), (0, 1)], episodes=5, seed=0)
    with pytest.raises(ConfigError, match="episodes: expected an int"):
        simulate_matchups(policies, game=KUHN, matchups=[(0, 0)], episodes=-1, seed=0)
    with pytest.raises(GpuEnvsError, match="4 of 4 episodes lasted over 1 steps"):
        simulate_matchups(policies, game=KUHN, matchups=[(0, 0)], episodes=4, seed=0, max_steps=1)
