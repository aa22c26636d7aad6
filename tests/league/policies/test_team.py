"""Teams: every agent of a seat acts as its own policy does alone, and files keep which agents are whose."""

import json

import pytest
import torch
from gymnasium import spaces

from gpu_envs.errors import CheckpointError, ConfigError
from league.executors.transport import pack
from league.policies.mixture import MixturePolicy
from league.policies.team import TeamPolicy
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.models.policy import Policy

PLACES = [[2, 0], [1], [3]]  # of the agents of three policies
WIDTHS = [5, 7, 6]  # of their observations; others are padding
SPACES = [spaces.Discrete(4), spaces.MultiDiscrete([2, 3]), spaces.Box(-1.0, 1.0, (2,))]


def network(width: int, space: spaces.Space, seed: int, **settings) -> Policy:
    """Return a policy with random weights."""
    learner = PPO(PPOConfig(hidden_sizes=(8, 8 + seed), **settings), LearnerSpec(width, space, 1, 1, 100, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.net.parameters():
        parameter.data += 0.5 * torch.randn(parameter.shape, generator=generator)
    return learner.policy()


def networks(space: spaces.Space = SPACES[0], kinds=("mlp", "mlp", "mlp")) -> list[Policy]:
    return [
        network(width, space, seed, network=kind)
        for seed, (width, kind) in enumerate(zip(WIDTHS, kinds, strict=True), start=1)
    ]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kinds", [("mlp", "mlp", "mlp"), ("mlp", "gru", "gru")])
def test_agents_act_as_their_own_policies_alone(space, kinds):
    alone, team = networks(space, kinds), TeamPolicy(networks(space, kinds), PLACES)
    hidden_state = team.initial_hidden_state(20, 4)
    assert (hidden_state is None) == (kinds[1] == "mlp")
    memories = [member.initial_hidden_state(20, len(agents)) for member, agents in zip(alone, PLACES, strict=True)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        obs = torch.randn((20, 4, 7), generator=generator)
        mask = None
        if isinstance(space, spaces.Discrete):
            mask = torch.rand((20, 4, 4), generator=generator) < 0.5
            mask[..., 1] = True
        actions = team.act(obs, mask, greedy=True, hidden_state=hidden_state)
        for policy, agents, memory in zip(alone, PLACES, memories, strict=True):
            inputs = obs[:, agents][..., : policy.obs_width]
            expected = policy.act(inputs, None if mask is None else mask[:, agents], True, memory)
            torch.testing.assert_close(actions[:, agents], expected)
            if memory is not None:
                torch.testing.assert_close(hidden_state[:, agents, : memory.shape[-1]], memory)


def test_samples_are_those_of_the_seed():
    team, obs = TeamPolicy(networks(), PLACES), torch.zeros(200, 4, 7)
    team.seed(5)
    first = team.act(obs)
    assert not torch.equal(team.act(obs), first)
    team.seed(5)
    assert torch.equal(team.act(obs), first)
    assert all(member.generator is team.generator for member in team.members)


@pytest.mark.parametrize("kinds", [("mlp", "mlp", "mlp"), ("mlp", "gru", "gru")])
def test_loaded_and_transported_teams_act_alike(kinds, tmp_path):
    team, obs = TeamPolicy(networks(kinds=kinds), PLACES), torch.randn(30, 4, 7)
    team.save(tmp_path / "it")
    mixture = MixturePolicy([team])
    mixture.save(tmp_path / "mixed")
    members = MixturePolicy.load(tmp_path / "mixed").members
    for other in (TeamPolicy.load(tmp_path / "it"), pack(team).load("cpu"), members[0]):
        memory, copy = (policy.initial_hidden_state(30, 4) for policy in (team, other))
        for _ in range(2):
            assert torch.equal(other.act(obs, None, True, copy), team.act(obs, None, True, memory))


@pytest.mark.parametrize("places", [[[0], [1]], [[0], [1], []], [[0], [1], [1]], [[0], [1], [3]], [[0], [1], [-1]]])
def test_places_that_leave_an_agent_without_one_policy_are_refused(places, tmp_path):
    with pytest.raises(ConfigError, match=r"team: expected the agents 0, 1, \.\.\. of each of 3 policies"):
        TeamPolicy(networks(), places)
    TeamPolicy(networks(), PLACES).save(tmp_path / "it")
    file = tmp_path / "it.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "places": places}))
    if len(places) == 3:
        with pytest.raises(CheckpointError, match=r"it\.json: team: expected"):
            TeamPolicy.load(tmp_path / "it")
