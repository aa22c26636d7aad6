"""Policies of a subclass that acts otherwise play as they act, in sampled and in exact matchups."""

import pytest
import torch
from random_networks import network

from gpu_envs.errors import ConfigError
from league.evaluation.tabular_game import TabularGame
from league.game import Game, SeatPart
from league.matchups.kernel_matchups import plays_in_kernels
from league.matchups.matchups import simulate_matchups
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy, part_policy
from trainers.models.policy import Policy

GAME = Game.of("RockPaperScissors-v0", {"num_repetitions": 1})


MAKE = {
    Policy: lambda: network(GAME, 0, 0),
    RandomPolicy: lambda: RandomPolicy.of(GAME, GAME.roles[0]),
    MixturePolicy: lambda: MixturePolicy([network(GAME, 0, 0), network(GAME, 0, 0)]),
    TeamPolicy: lambda: TeamPolicy([network(GAME, 0, 0)], [[0]]),
}


def second_choice(kind):
    """Return a policy of a subclass that always takes the choice 1, and otherwise is one of `kind`."""
    policy = MAKE[kind]()
    methods = {"act": lambda self, obs, mask=None, greedy=False, hidden_state=None: torch.ones(obs.shape[:-1]).long()}
    policy.__class__ = type("Mine", (kind,), methods)
    return policy


@pytest.mark.parametrize("kind", MAKE)
def test_policy_plays_by_its_own_act(kind):
    """Paper against itself in a batch, against random play: 0 with the first policy of the same network, 1/3 each."""
    replaced = second_choice(kind)
    assert plays_in_kernels(MAKE[kind](), torch.device("cpu"))
    assert not plays_in_kernels(replaced, torch.device("cpu"))
    pools = {role: [replaced, second_choice(kind), MAKE[Policy]()] for role in GAME.roles}
    results = simulate_matchups(pools, game=GAME, matchups=[[0, 0], [0, 1]], episodes=32, seed=0, engine="kernel")
    assert torch.equal(results.total, torch.zeros(2, 2, dtype=torch.float64))
    assert torch.equal(results.square, torch.zeros(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("kind", MAKE)
def test_policy_is_not_tabulated_as_its_base(kind):
    with pytest.raises(ConfigError, match=r"tabulate: expected a policy with probabilities\(obs, mask\), got Mine"):
        TabularGame.of(GAME, required=True).tabulate_all({role: [second_choice(kind)] for role in GAME.roles})


def test_team_that_acts_otherwise_has_no_parts():
    parts = [SeatPart(("a",), (0,)), SeatPart(("b",), (1,))]
    team = TeamPolicy([network(GAME, 0, 0), network(GAME, 0, 0)], [[0], [1]])
    assert part_policy(team, parts, 1) is team.members[1]
    team.__class__ = type("Mine", (TeamPolicy,), {"act": Policy.act})
    assert part_policy(team, parts, 1) is None
