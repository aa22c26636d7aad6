"""Matchups that are no longer sampled, played or counted are removed from the tables of an opponent sampler."""

import pytest
import torch
from always import PURE

from league.game import Game
from league.rollout import opponent_sampler
from league.rollout.matchup_distribution import LEARNER, MatchupDistribution
from league.rollout.opponent_sampler import OpponentSampler

GAME = Game.of("RockPaperScissors-v0", {"num_repetitions": 3})
DRAWS = [
    [[LEARNER, 0], [LEARNER, 1]],
    [[0, LEARNER], [LEARNER, 2], [1, LEARNER]],
    [[LEARNER, LEARNER]],
    [[2, LEARNER], [0, 1]],
    [[0, 2]],
]
"""Distributions without common matchups, so that the order of those that are sampled is the same in any table."""


def play(rounds: int, reads: bool) -> tuple[list[torch.Tensor], dict[tuple[int, ...], list[float]], list[int]]:
    """Return what was played, the sums by matchup, and the number of rows before each change of the distribution."""
    core = GAME.core(8)
    opponents = OpponentSampler(core, GAME, MatchupDistribution(torch.tensor(DRAWS[0])), {"player": PURE}, seed=3)
    info, assignments, rows, totals = core.reset(seed=0)[1], [], [], {}

    def read():
        tally = opponents.read()
        for index, matchup in enumerate(map(tuple, tally.matchups.tolist())):
            counts = [tally.started[index], tally.count[index], *tally.total[index], *tally.square[index]]
            totals[matchup] = [
                old + float(new) for old, new in zip(totals.get(matchup, [0.0] * 6), counts, strict=True)
            ]

    for draw in DRAWS[:rounds]:
        opponents.replace(MatchupDistribution(torch.tensor(draw)))
        rows.append(len(opponents.rows))
        for _ in range(4):
            action = torch.zeros_like(core.action_buffer)
            opponents.act(core, info, action)
            info = core.step(action)[4]
            opponents.observe(core, info, core.elapsed_steps == 0)
            assignments.append(opponents.assigned.clone())
        if reads:
            read()
        opponents.load_state_dict(opponents.state_dict())
    read()
    return assignments, totals, rows


@pytest.mark.parametrize("reads", [False, True])
def test_removed_rows_change_neither_play_nor_counts(reads, monkeypatch):
    assignments, counts, rows = play(5, reads)
    monkeypatch.setattr(opponent_sampler, "MAX_UNUSED_ROWS", 0)
    seen_too, counts_too, fewer = play(5, reads)
    assert all(map(torch.equal, assignments, seen_too))
    assert counts == counts_too
    assert rows == [2, 5, 6, 8, 9]
    assert fewer == ([2, 5, 4, 3, 3] if reads else rows)  # rows with sums stay
