"""An opponent sampler keeps hidden states, pools that grow, and episodes across a resumption."""

import pytest
import torch
from always import PURE
from sampled_training import config, gru, rollouts, rps, uniform

from gpu_envs.errors import CheckpointError
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import MatchupDistribution
from league.rollout.opponent_sampler import OpponentSampler


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
        ("kept", state["opponents.kept"][:1], "opponents kept: expected shape"),
        ("generator", torch.full_like(state["opponents.generator"], 255), "opponents generator: expected a state"),
    ):
        with pytest.raises(CheckpointError, match=line):
            part.collector.load_state_dict({**state, f"opponents.{name}": value})
    del state["opponents.drawn"]
    with pytest.raises(CheckpointError, match="opponents drawn: expected a tensor"):
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
