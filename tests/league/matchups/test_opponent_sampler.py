"""Opponents are sampled at resets with the probabilities of the distribution, and stay for the episode.

Hidden states and episodes go on across a resumption. Matchups that are no longer sampled, played or counted leave the
tables.
"""

import itertools

import pytest
import torch
from always import PURE
from sampled_training import config, gru, rollouts, rps, uniform
from scipy.stats import chisquare

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.matchups import opponent_sampler
from league.matchups.best_response import BestResponseTraining
from league.matchups.episode_tally import EpisodeTally
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.matchups.opponent_sampler import OpponentSampler


def test_best_response_takes_every_seat_of_its_role_against_product_of_others():
    kuhn = Game.of("KuhnPoker-v0", {"num_players": 3})
    marginals = [torch.tensor([0.25, 0.75]), torch.tensor([1.0]), torch.tensor([0.5, 0.0, 0.5])]
    draw = MatchupDistribution.against(kuhn, "player_1", marginals)
    assert draw.matchups.tolist() == [[0, LEARNER, 0], [0, LEARNER, 2], [1, LEARNER, 0], [1, LEARNER, 2]]
    torch.testing.assert_close(draw.probability, torch.tensor([0.125, 0.125, 0.375, 0.375], dtype=torch.float64))
    assert draw.learns.tolist() == [[False, True, False]] * 4
    shared = MatchupDistribution.against(rps(), "player", [torch.tensor([0.4, 0.6])] * 2)
    assert shared.matchups.tolist() == [[LEARNER, 0], [LEARNER, 1], [0, LEARNER], [1, LEARNER]]
    torch.testing.assert_close(shared.probability, torch.tensor([0.2, 0.3, 0.2, 0.3], dtype=torch.float64))


def test_opponents_are_sampled_from_marginal_or_conditional_distribution():
    kuhn, joint = Game.of("KuhnPoker-v0"), torch.tensor([[0.1, 0.2], [0.0, 0.7]])
    draw = MatchupDistribution.against(kuhn, "player_0", joint=joint)
    torch.testing.assert_close(draw.probability, torch.tensor([0.1, 0.9], dtype=torch.float64))
    assert draw.matchups.tolist() == [[LEARNER, 0], [LEARNER, 1]]
    draw = MatchupDistribution.against(kuhn, "player_1", joint=joint, recommendation=1)
    torch.testing.assert_close(draw.probability, torch.tensor([2 / 9, 7 / 9], dtype=torch.float64))
    draw = MatchupDistribution.against(kuhn, "player_0", joint=joint, recommendation=1)
    assert draw.matchups.tolist() == [[LEARNER, 1]], "what is never drawn is no matchup"


def test_matchups_are_sampled_with_their_probabilities():
    game, worlds, steps = rps(1), 2000, 50  # every step ends all episodes
    draw = MatchupDistribution(
        torch.tensor([[LEARNER, 0], [LEARNER, 1], [2, LEARNER], [LEARNER, LEARNER], [0, 1], [1, 1]]),
        torch.tensor([0.4, 0.1, 0.25, 0.2, 0.05, 0.0]),
    )
    core = game.core(worlds)
    opponents = OpponentSampler(core, game, draw, {"player": PURE}, seed=1)
    info = core.reset(seed=0)[1]
    assignments = []
    for _ in range(steps):
        assignments.append(opponents.assigned.clone())
        action = torch.zeros_like(core.action_buffer)
        opponents.act(core, info, action)
        assert torch.equal(action, opponents.assigned.clamp(min=0))
        info = core.step(action)[4]
        opponents.observe(core, info, core.elapsed_steps == 0)
    pairs, counts = torch.cat(assignments).unique(dim=0, return_counts=True)
    possible = {tuple(row): p for row, p in zip(draw.matchups.tolist(), draw.probability.tolist(), strict=True) if p}
    assert {tuple(row) for row in pairs.tolist()} == set(possible)
    expected = [possible[tuple(row)] * worlds * steps for row in pairs.tolist()]
    assert chisquare(counts.tolist(), expected).pvalue > 0.001
    tally = opponents.read()
    actual = {tuple(row): count for row, count in zip(tally.matchups.tolist(), tally.count.tolist(), strict=True)}
    assert actual == {tuple(row): count for row, count in zip(pairs.tolist(), counts.tolist(), strict=True)}
    assert int(tally.started.sum()) == worlds * (steps + 1)
    assert int(opponents.read().started.sum()) == 0, "read once"


def test_opponents_change_at_resets_only_and_act_by_their_policy(monkeypatch):
    """With episodes of 2 or 3 steps in rollouts of 4, worlds restart at different times."""
    game = Game.of("KuhnPoker-v0", shared=True)
    draw = MatchupDistribution.against(game, "player", [torch.ones(2) / 2] * 2)
    training = BestResponseTraining(game, draw, {"player": PURE[:2]}, config(env_id="KuhnPoker-v0"))
    opponents, steps = training.opponents, []
    act = opponents.act

    def watch(core, info, into):
        act(core, info, into)
        now = (core.elapsed_steps, opponents.assigned, opponents.learns, core.to_move, into)
        steps.append([tensor.clone() for tensor in now])

    monkeypatch.setattr(opponents, "act", watch)
    for iteration in range(9):
        training.collector.collect()
        rollout = training.learner("player").rollout
        played = torch.stack([learns for _, _, learns, *_ in steps[-4:]])
        assert torch.equal(rollout.valid, played), "training data: the learner's seat before the next sample"
        training.learners.update(iteration, str)
    changed, mixed = 0, 0
    for (_, previous, *_), (clock, assigned, learns, to_move, action) in itertools.pairwise(steps):
        assert torch.equal(assigned[clock > 0], previous[clock > 0])
        changed += int((assigned != previous).any(1).sum())
        mixed += int((clock > 0).any() and (clock == 0).any())
        assert torch.equal(learns, assigned == LEARNER)
        assert bool((action == assigned)[(assigned >= 0) & to_move].all())
        assert bool(((assigned == LEARNER).sum(1) == 1).all())
    assert changed > 30
    assert mixed > 20, "some worlds go on while others restart"


def test_returns_and_scores_are_added_up_by_matchup():
    game, draw = rps(1), MatchupDistribution(torch.tensor([[0, 1], [2, 1], [1, 1]]), torch.tensor([0.5, 0.3, 0.2]))
    core = game.core(100)
    opponents, info = OpponentSampler(core, game, draw, {"player": PURE}), core.reset(seed=0)[1]
    tallies = []
    for _ in range(4):
        action = torch.zeros_like(core.action_buffer)
        opponents.act(core, info, action)
        info = core.step(action)[4]
        opponents.observe(core, info, core.elapsed_steps == 0)
        tallies.append(opponents.read())
    tally = EpisodeTally.sum(tallies)
    assert int(tally.count.sum()) == 400
    rows = {tuple(row): index for index, row in enumerate(tally.matchups.tolist())}
    assert len(rows) == 3
    for pair, gain in {(0, 1): -1.0, (2, 1): 1.0, (1, 1): 0.0}.items():
        index = rows[pair]
        count = float(tally.count[index])
        assert count > 40
        assert tally.total[index].tolist() == [gain * count, -gain * count]
        assert tally.square[index].tolist() == [abs(gain) * count] * 2
        assert tally.score[index].tolist() == [(1 + gain) / 2 * count, (1 - gain) / 2 * count]


def test_new_distribution_applies_from_the_next_reset():
    game = rps(6)
    only = [MatchupDistribution.against(game, "player", [torch.eye(3)[action]] * 2) for action in range(3)]
    training = BestResponseTraining(game, only[0], {"player": PURE[:1]}, config())
    opponents = training.opponents
    training.iterate()
    assert int(training.core.elapsed_steps.min()) == 4
    with pytest.raises(ConfigError, match="expected policies below 1, the size of its pool, got 2"):
        opponents.replace(only[2])
    opponents.replace(only[2], {"player": PURE})
    assert int(opponents.assigned.max()) == 0
    training.iterate()
    version = opponents.version
    assert opponents.assigned.amax(1).unique().tolist() == [2]
    everyone = MatchupDistribution(
        torch.tensor([[LEARNER, 0]] * 3 + [[LEARNER, 1]] * 2).repeat(40, 1), torch.arange(200) + 1.0
    )
    opponents.replace(everyone)
    assert opponents.version == version, "nothing moved"
    training.iterate()
    tally = training.tally()
    assert sum(tally.count.tolist()) == 32
    assert {tuple(row) for row in tally.matchups[tally.count > 0].tolist()} == {
        (LEARNER, 0), (0, LEARNER), (LEARNER, 2), (2, LEARNER),
    }  # fmt: skip


def test_many_policies_fit_into_one_sampler():
    game = Game.of("KuhnPoker-v0")
    core, pool = game.core(4), [PURE[0]] * 300
    opponents = OpponentSampler(
        core,
        game,
        MatchupDistribution.against(game, "player_0", [torch.ones(1), torch.eye(300)[0]]),
        {"player_1": pool},
    )
    opponents.replace(MatchupDistribution.against(game, "player_0", [torch.ones(1), torch.ones(300)]))
    assert opponents.assigned.tolist() == [[LEARNER, 0]] * 4
    opponents.observe(core, core.reset(seed=0)[1], torch.ones(4, dtype=torch.bool))
    assert int(opponents.assigned[:, 1].max()) > 0
    assert int(opponents.read().started.sum()) == 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MatchupDistribution(torch.tensor([[-2, 0]])), "expected .K, S. indices or -1"),
        (lambda: MatchupDistribution(torch.tensor([[0, 0]]), torch.tensor([torch.nan])), "expected 1 finite numbers"),
        (lambda: MatchupDistribution(torch.tensor([[0, 0]]), torch.tensor([0.0])), "some number above 0, got none"),
        (
            lambda: MatchupDistribution(torch.tensor([[-1, 0]]), learns=torch.tensor([[True, True]])),
            "True only in seats of a learner",
        ),
        (
            lambda: MatchupDistribution.against(rps(), "unknown", [torch.ones(1)] * 2),
            "expected a role among player, got 'unknown'",
        ),
        (
            lambda: MatchupDistribution.against(rps(), "player", [torch.ones(1)]),
            "meta-strategy of 2 seats, got one of 1",
        ),
        (lambda: MatchupDistribution.against(rps(), "player"), "expected either marginals or joint"),
        (
            lambda: MatchupDistribution.against(rps(), "player", [torch.tensor([torch.nan])] * 2),
            "expected probabilities",
        ),
        (lambda: MatchupDistribution.mix([]), "got none"),
        (
            lambda: BestResponseTraining(rps(), MatchupDistribution(torch.tensor([[-1]])), {}, config()),
            "matchups of 2 seats, got 1",
        ),
        (
            lambda: BestResponseTraining(rps(), MatchupDistribution(torch.tensor([[-1, 0]])), {}, config()),
            "expected policies below 0, the size of its pool, got 0",
        ),
        (
            lambda: BestResponseTraining(
                rps(), MatchupDistribution(torch.tensor([[0, 0]])), {"player": PURE}, config()
            ),
            "the learner. in some matchup, got none",
        ),
    ],
)
def test_invalid_distributions_raise_config_error(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_role_without_learner_rejects_learner_matchups():
    kuhn = Game.of("KuhnPoker-v0")
    opponents = OpponentSampler(kuhn.core(2), kuhn, MatchupDistribution(torch.tensor([[-1, 0]])), {"player_1": PURE})
    assert opponents.learners == ("player_0",)
    with pytest.raises(ConfigError, match="role player_1: expected policies only, as it has no learner"):
        opponents.replace(MatchupDistribution.self_play(kuhn))
    with pytest.raises(ConfigError, match="role player_1: expected a pool of at least 3 policies, got 2"):
        opponents.replace(MatchupDistribution(torch.tensor([[-1, 0]])), {"player_1": PURE[:2]})


@pytest.mark.parametrize("waits", [False, True])
def test_rollout_with_host_sync_is_not_captured(waits, monkeypatch):
    if waits:
        monkeypatch.setattr(OpponentSampler, "prepare", lambda self: True)
    training = BestResponseTraining(rps(6), uniform(rps(6)), {"player": [gru(1), gru(2), gru(3)]}, config())
    recorded = []

    def capture(play, generators):
        recorded.append(play)
        return play

    training.collector.uses_cuda_graph, training.core.capture = True, capture
    training.iterate()
    assert bool(recorded) != waits


# ---------------------------------------------------------------- states


def test_policies_keep_hidden_states_when_pools_grow():
    game, policies, results = rps(6), [gru(1), gru(2)], []
    for more in ([], [PURE[1]]):
        training = BestResponseTraining(
            game, MatchupDistribution.against(game, "player", [torch.ones(2) / 2] * 2), {"player": policies}, config()
        )
        tensors = rollouts(training, 2)  # 8 steps: the second episode is under way
        only = torch.tensor([0.5, 0.5, *[0.0] * len(more)])
        training.opponents.replace(
            MatchupDistribution.against(game, "player", [only] * 2), {"player": [*policies, *more]}
        )
        tensors += rollouts(training, 3)
        results.append(tensors)
    assert all(torch.equal(first, other) for first, other in zip(*results, strict=True))


def test_updated_pools_act_with_their_new_policies():
    game, pool = rps(100), [PURE[0], PURE[1]]
    training = BestResponseTraining(
        game, MatchupDistribution.against(game, "player", [torch.eye(2)[1]] * 2), {"player": pool}, config()
    )
    training.iterate()
    for opponents, plays in ((pool, 1), ([PURE[0], PURE[2]], 2)):
        training.opponents.replace(
            MatchupDistribution.against(game, "player", [torch.eye(2)[1]] * 2), {"player": opponents}
        )
        training.iterate()
        sits = training.opponents.assigned == 1
        assert training.collector.action[sits].unique().tolist() == [plays]


def test_return_difference_of_a_draw_scores_one_half():
    game, draw = rps(1), MatchupDistribution(torch.tensor([[0, 1], [1, 1]]))
    core = game.core(100)
    opponents, info = OpponentSampler(core, game, draw, {"player": PURE}, draw_margin=-2.0), core.reset(seed=0)[1]
    action = torch.zeros_like(core.action_buffer)
    opponents.act(core, info, action)
    info = core.step(action)[4]
    opponents.observe(core, info, core.elapsed_steps == 0)
    tally = opponents.read()
    assert (tally.score / tally.count.unsqueeze(1)).tolist() == [[0.5, 0.5], [1.0, 0.0]]
    margin = opponents.draw_margin
    opponents.replace(draw, draw_margin=0.0)
    assert opponents.draw_margin is margin, "a graph that was captured reads where it stood"
    assert margin == 0.0


def test_training_resumes_within_episodes():
    game, policies = rps(6), [gru(1), gru(2), PURE[1]]
    uninterrupted = BestResponseTraining(game, uniform(game), {"player": policies}, config())
    rollouts(uninterrupted, 2)
    uninterrupted.opponents.replace(MatchupDistribution.against(game, "player", [torch.tensor([0.5, 0.5, 0.0])] * 2))
    state = {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in uninterrupted.state_dict().items()
    }
    expected, counted = rollouts(uninterrupted, 4), uninterrupted.opponents.read()
    part = BestResponseTraining(
        game, MatchupDistribution.self_play(game), {"player": [*policies, PURE[2]]}, config(seed=77)
    )
    part.load_state_dict(state)
    assert (part.iteration, part.steps) == (0, 0), "of whole iterations only"
    for first, other in zip(expected, rollouts(part, 4), strict=True):
        assert torch.equal(first, other)
    actual = part.opponents.read()
    for name in ("matchups", "started", "count", "total", "score"):
        assert torch.equal(getattr(counted, name), getattr(actual, name)), name
    for name, value, line in (
        ("drawn", state["opponents.drawn"] + 1000, r"drawn in \[0, "),
        ("matchups", state["opponents.matchups"] - 5, "expected matchups >= -1"),
        ("kept", state["opponents.kept"][:1], "opponents: kept: expected shape"),
        ("generator", torch.full_like(state["opponents.generator"], 255), "opponents generator: expected a state"),
    ):
        with pytest.raises(CheckpointError, match=line):
            part.collector.load_state_dict({**state, f"opponents.{name}": value})
    del state["opponents.drawn"]
    with pytest.raises(CheckpointError, match="opponents: drawn: expected shape"):
        part.collector.load_state_dict(state)


def test_recording_a_rollout_leaves_no_trace():
    """As a GPU does it: two plays to warm up, then replays; and again when there are others to seat."""
    game, results = rps(6), []
    for recording in (False, True):
        training = BestResponseTraining(game, uniform(game), {"player": [gru(1), gru(2), gru(3)]}, config())
        core, recordings = training.core, []
        if recording:

            def capture(play, generators, core=core, recordings=recordings):
                recordings.append(len(generators))
                saved, drawn = core.get_state(), [generator.get_state() for generator in generators]
                play()
                play()
                core.set_state(saved)
                for generator, state in zip(generators, drawn, strict=True):
                    generator.set_state(state)
                return play

            training.collector.uses_cuda_graph, core.capture = True, capture
        tensors = rollouts(training, 3)
        training.opponents.replace(uniform(game), {"player": [gru(1), gru(2), gru(3), PURE[0]]})
        tensors += rollouts(training, 3)
        assert len(recordings) == 2 * recording
        results.append(tensors)
    assert all(torch.equal(first, other) for first, other in zip(*results, strict=True))


# ---------------------------------------------------------------- removed matchups


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
