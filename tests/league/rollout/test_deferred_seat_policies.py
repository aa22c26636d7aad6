"""Weights of opponents are copied when they first act between steps, with the results of earlier copies."""

import pytest
import torch

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.rollout import deferred_seat_policies
from league.rollout.best_response import BestResponseTraining
from league.rollout.deferred_seat_policies import DeferredSeatPolicies
from league.rollout.matchup_distribution import LEARNER, MatchupDistribution
from league.rollout.seat_policies import SeatPolicies
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.agent_group import make_agent_group
from trainers.base.learner_spec import LearnerSpec
from trainers.config.train_config import TrainConfig

KUHN = Game.of("KuhnPoker-v0")
SEAT = KUHN.seats[0]


def network(seed, **settings):
    """Return a network with other weights for every seed."""
    agents = make_agent_group(KUHN.core(1), SEAT.members)
    config = PPOConfig(hidden_sizes=(8,), **settings)
    learner = PPO(config, LearnerSpec(agents.obs_width, agents.space, 1, 1, 100, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.net.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator)
    return learner.policy()


def pool_of(*more):
    return [RandomPolicy.of(KUHN, SEAT.role), network(0), network(1), *more]


def make_training(engine, pool, seed=5):
    ppo = PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=1, hidden_sizes=(8,))
    settings = {"num_envs": 32, "total_steps": 100_000, "learner": ppo, "engine": engine, "device": "cpu"}
    draw = MatchupDistribution(torch.tensor([[index, LEARNER] for index in range(3)]))
    pools = {"player_0": pool, "player_1": []}
    return BestResponseTraining(KUHN, draw, pools, TrainConfig(env_id=KUHN.env_id, seed=seed, **settings))


@pytest.fixture
def builds(monkeypatch):
    """Pools whose weights were copied."""
    pools = []

    def make(pool, *arguments):
        pools.append(list(pool))
        return SeatPolicies(pool, *arguments)

    monkeypatch.setattr(deferred_seat_policies, "SeatPolicies", make)
    return pools


@pytest.mark.parametrize(("engine", "copies"), [("kernel", 0), ("torch", 2)])
def test_weights_are_copied_only_for_policies_that_act_between_steps(engine, copies, builds):
    pool = pool_of()
    run = make_training(engine, pool)
    assert not builds
    for _ in range(2):
        run.iterate()
    run.opponents.replace(MatchupDistribution(torch.tensor([[3, LEARNER]])), {"player_0": [*pool, network(2)]})
    run.iterate()
    run.load_state_dict(run.state_dict())
    run.iterate()
    assert len(builds) == copies


def test_policies_act_between_steps_as_soon_as_a_pool_needs_it(builds):
    pool = pool_of()
    run = make_training("kernel", pool)
    run.iterate()
    mixed = [*pool, MixturePolicy(pool[1:])]
    run.opponents.replace(MatchupDistribution(torch.tensor([[3, LEARNER]])), {"player_0": mixed})
    version = run.opponents.version
    run.iterate()
    assert builds == [mixed]
    assert run.opponents.version > version, "a captured rollout is invalid"


def actions(policies, steps=3):
    """Return the actions of a seat's policies over some resets of the same environments."""
    core, outputs = policies.core, []
    _, info = core.reset(seed=3)
    policies.assign(torch.arange(core.num_envs) % policies.size)
    for _ in range(steps):
        outputs.append(policies.act(core.obs, info, into=torch.zeros_like(core.action_buffer)))
    return torch.stack(outputs)


def eager(pool, core, *seeds):
    policies = SeatPolicies(pool, core, SEAT)
    for seed in seeds:
        policies.seed(seed)
    return policies


@pytest.mark.parametrize("seeds", [(7,), (7, 8)])
def test_late_copies_act_as_early_ones(seeds):
    core = KUHN.core(64)
    expected = actions(eager(pool_of(), core, *seeds))
    late = DeferredSeatPolicies(pool_of(), core, SEAT, seeds[0])
    for seed in seeds[1:]:
        late.seed(seed)
    assert torch.equal(actions(late.build()), expected)
    assert not torch.equal(actions(eager(pool_of(), core, 9)), expected)


@pytest.mark.parametrize("built", [True, False], ids=["copied", "not copied"])
@pytest.mark.parametrize("into_built", [True, False], ids=["into copies", "before copies"])
def test_state_restores_random_streams(built, into_built):
    core, pool = KUHN.core(64), pool_of()
    policies = DeferredSeatPolicies(pool, core, SEAT, 7)
    if built:
        actions(policies.build())  # moves the streams
    else:
        policies.seed(8)
    state = policies.state_dict()
    expected = actions(policies.build())
    other = DeferredSeatPolicies(pool, core, SEAT, 99)
    if into_built:
        other.build()
    other.load_state_dict(state)
    assert {*other.state_dict()} - {"seed"} == {*state} - {"seed"} or into_built
    assert torch.equal(actions(other.build()), expected)


def test_new_seed_replaces_restored_streams():
    core, pool = KUHN.core(64), pool_of()
    expected = actions(eager(pool, core, 8))
    first = eager(pool, core, 7)
    actions(first)
    late = DeferredSeatPolicies(pool, core, SEAT, 1)
    late.load_state_dict(first.state_dict())
    late.seed(8)
    assert torch.equal(actions(late.build()), expected)


def test_streams_go_on_when_a_pool_grows():
    core, pool = KUHN.core(64), [network(0), network(1)]
    reference = eager(pool, core, 7)
    first, second = actions(reference), actions(reference)
    late = DeferredSeatPolicies(pool, core, SEAT, 7)
    assert torch.equal(actions(late.build()), first)
    late.replace([*pool, network(2)])
    grown = late.build()
    assert grown.size == 3
    grown.size = 2  # the same policies play
    assert torch.equal(actions(grown), second)


def test_state_of_a_training_with_copies_is_kept_by_one_in_kernels():
    """Training states from before weights were copied late hold the streams of all seats."""
    pool = pool_of()
    state = make_training("torch", pool)
    state.iterate()
    state = state.state_dict()
    streams = {name for name in state if name.startswith("opponents.ensemble.0.stream.")}
    assert streams
    run = make_training("kernel", pool, seed=6)
    run.load_state_dict(state)
    run.iterate()
    saved = run.state_dict()
    assert all(torch.equal(saved[name], state[name]) for name in streams)
    restored = make_training("torch", pool, seed=7)
    restored.load_state_dict(saved)
    restored.iterate()


def test_bad_policies_and_seeds_are_errors():
    core, pool = KUHN.core(4), pool_of()
    other = Game.of("LeducPoker-v0")
    agents = make_agent_group(other.core(1), other.seats[0].members)
    stranger = PPO(PPOConfig(hidden_sizes=(8,)), LearnerSpec(agents.obs_width, agents.space, 1, 1, 100)).policy()
    late = DeferredSeatPolicies(pool, core, SEAT, 7)
    with pytest.raises(ConfigError, match="policy 3: obs_width: expected"):
        late.replace([*pool, stranger])
    assert late.pool == pool
    for seed in (-1, 2**63, True, 0.5, torch.tensor(1)):
        with pytest.raises(CheckpointError, match="seat player_0: seed: expected an int from 0"):
            late.load_state_dict({"seed": seed})
