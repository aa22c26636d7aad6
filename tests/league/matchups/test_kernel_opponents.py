"""Opponents inside kernels are drawn once per episode, counted, and kept out of the training data."""

import pytest
import torch
from random_networks import network
from scipy.stats import chisquare

from league.game import Game
from league.matchups.best_response import BestResponseTraining
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.matchups.matchups import simulate_matchups
from league.matchups.opponent_sampler import OpponentSampler
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy
from league.storage.run_config import training
from trainers.algorithms.off_policy.dqn import DQNConfig
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.algorithms.on_policy.torch_engine import TorchEngine
from trainers.config.train_config import TrainConfig
from trainers.models.kernel_networks import kernel_policies

KUHN = Game.of("KuhnPoker-v0")
SHARED = Game.of("KuhnPoker-v0", shared=True)
RPS = Game.of("RockPaperScissors-v0", {"num_repetitions": 3})
WITH_REPLAY = {"algorithm": "dqn", "learner": DQNConfig(hidden_sizes=(8,), learning_starts=99_000)}
"""Settings of a learner that only collects."""
CHANCES = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def config(game, **changes):
    ppo = PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=1, hidden_sizes=(8,), learning_rate=1e-9)
    settings = {"env_id": game.env_id, "env": dict(game.env), "num_envs": 64, "total_steps": 100_000, "seed": 5}
    return TrainConfig(**{**settings, "learner": ppo, "engine": "kernel", "device": "cpu", **changes})


def make_training(game, role, **changes):
    """Return a training with so small a learning rate that the policy stays the same, and its pools."""
    pools = {name: [RandomPolicy.of(game, name)] for name in game.roles}
    for name in game.roles:
        pools[name] += [network(game, game.seats_of(name)[0], seed) for seed in range(2)]
    draw = MatchupDistribution.against(game, role, [CHANCES] * 2)
    return BestResponseTraining(game, draw, pools, config(game, **changes)), pools


@pytest.mark.parametrize(
    ("game", "role", "changes"),
    [
        pytest.param(KUHN, "player_1", {}, id="kuhn"),
        pytest.param(SHARED, "player", {}, id="shared population"),
        pytest.param(RPS, "player", {}, marks=pytest.mark.slow, id="moves at the same time"),
        pytest.param(KUHN, "player_0", WITH_REPLAY, marks=pytest.mark.slow, id="dqn"),
    ],
)
def test_matchup_stays_for_the_episode_and_is_drawn_with_its_probability(game, role, changes):
    run, _ = make_training(game, role, **changes)
    opponents, kernels = run.opponents, run.collector.kernels
    previous, counts = opponents.drawn.clone(), torch.zeros(len(opponents.rows), dtype=torch.int64)
    for _ in range(40):
        run.iterate()
        trace = kernels.trace
        played = trace.matchup.long()
        assert torch.equal(played[0], previous)
        after = torch.cat([played[1:], opponents.drawn.unsqueeze(0)])
        assert torch.equal(after[~trace.restarted], played[~trace.restarted])
        counts += torch.bincount(after[trace.restarted], minlength=len(counts))
        learner = next(iter(run.learners.assignments.values())).learner
        seats = opponents.matchups[played][:, :, opponents.side] == LEARNER
        rows = run.learners.assignments[role].agents.rows
        assert torch.equal(learner.rollout.valid, (trace.valid & seats)[:, :, rows])
        previous = opponents.drawn.clone()
    chances = opponents.cumulative[: len(counts)].diff(prepend=torch.zeros(1, dtype=torch.float64))
    assert int(counts.sum()) > 2000
    assert chisquare(counts.numpy(), (chances * counts.sum()).numpy()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("game", "role"),
    [
        pytest.param(KUHN, "player_0", id="kuhn"),
        pytest.param(RPS, "player", marks=pytest.mark.slow, id="shared population"),
    ],
)
def test_tally_agrees_with_simulated_matchups(game, role):
    run, pools = make_training(game, role)
    for _ in range(60):
        run.iterate()
    tally, learned = run.tally(), run.learner(role).policy()
    assert int(tally.started.sum()) == int(tally.count.sum()) + run.core.num_envs  # one runs in every world
    pools = {name: [*pool, learned] for name, pool in pools.items()}
    places = torch.where(tally.matchups == LEARNER, 3, tally.matchups)
    exact = simulate_matchups(pools, game=game, matchups=places, episodes=4000, seed=1, engine="torch")
    if game.shared:  # a simulation credits policies, which take both seats
        seat = (tally.matchups == LEARNER).int().argmax(1, keepdim=True)
        earned, of = tally.total.gather(1, seat), exact.mean.gather(1, seat)
    else:
        earned, of = tally.total, exact.mean
    count = tally.count.unsqueeze(1)
    spread = (tally.square.amax(1, keepdim=True) / count / count + exact.square.amax(1, keepdim=True) / 4000**2).sqrt()
    assert ((earned / count - of).abs() < 4.5 * spread + 1e-9).all()


def test_equal_seeds_give_equal_trainings_and_a_restored_one_continues():
    (first, _), (two, _), (other, _) = (make_training(KUHN, "player_0", seed=seed) for seed in (5, 5, 6))
    for run in (first, two, other):
        for _ in range(3):
            run.iterate()
    state = first.state_dict()
    assert torch.equal(first.collector.kernels.trace.matchup, two.collector.kernels.trace.matchup)
    assert not torch.equal(first.collector.kernels.trace.matchup, other.collector.kernels.trace.matchup)
    rows = [run.iterate() for run in (first, two)]
    assert rows[0]["return"] == rows[1]["return"]
    restored, _ = make_training(KUHN, "player_0")
    restored.load_state_dict(state)
    row = restored.iterate()
    assert row["return"] == rows[0]["return"]
    assert torch.equal(restored.collector.kernels.trace.obs, first.collector.kernels.trace.obs)


def test_pool_with_a_policy_without_kernels_acts_between_steps_until_it_has_left():
    run, pools = make_training(KUHN, "player_0")
    run.iterate()
    assert run.collector.kernels.plan is not None
    mixed = {**pools, "player_1": [*pools["player_1"], MixturePolicy(pools["player_1"][1:])]}
    run.opponents.replace(MatchupDistribution(torch.tensor([[LEARNER, 3]])), mixed)
    for _ in range(3):
        row = run.iterate()
    assert run.collector.kernels.plan is None
    assert row["return"] == row["return"]
    tally = run.tally()
    assert int(tally.count[tally.matchups[:, 1] == 3].sum()) > 64


def test_members_of_a_team_act_for_their_agents_where_all_have_one_action_space():
    game = Game.of("SimpleTag-v0")
    members = [network(game, 0, seed) for seed in range(2)]
    pools = {"adversary": [TeamPolicy(members, [[1], [0, 2]])]}
    draw = MatchupDistribution(torch.tensor([[0, LEARNER]]))
    policies, index = OpponentSampler(game.core(2), game, draw, pools).kernel_table(["agent"])
    assert index[0].tolist() == [2, 1, 2, 0]
    for policy, member in zip(policies, members, strict=True):
        assert torch.equal(policy.weights, kernel_policies([member], torch.device("cpu"))[0].weights)


@pytest.mark.parametrize(("engine", "expected"), [("kernel", 1), ("torch", 2)])
def test_threads_of_pytorch_do_not_wait_beside_kernels(engine, expected, monkeypatch):
    run, _ = make_training(KUHN, "player_0", engine=engine)
    threads, counts = torch.get_num_threads(), []
    for part, name in ((run.collector, "collect"), (run.learners, "update")):
        inner = getattr(part, name)

        def recorded(*arguments, inner=inner):
            counts.append(torch.get_num_threads())
            return inner(*arguments)

        monkeypatch.setattr(part, name, recorded)
    try:
        torch.set_num_threads(2)
        run.iterate()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert counts == [expected] * 2


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({}, KernelEngine), ({"total_steps": 2000}, TorchEngine), ({"engine": "torch"}, TorchEngine)],
)
def test_league_trainings_use_kernels_although_one_alone_is_short(settings, kind):
    pools = {role: [RandomPolicy.of(KUHN, role)] for role in KUHN.roles}
    draw = MatchupDistribution.against(KUHN, "player_0", [torch.ones(1, dtype=torch.float64)] * 2)
    run = BestResponseTraining(KUHN, draw, pools, training(KUHN, "cpu", settings))
    assert isinstance(next(iter(run.learners.assignments.values())).learner.engine, kind)
