"""Crews: several policies that answer in one batched call what they answer one by one."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from toy_core import Corridor, Identity, Recall

from trainers.config import TrainConfig
from trainers.crew import Crew, alike
from trainers.evaluate import Cast, play
from trainers.ppo import PPO, PPOConfig
from trainers.problem import Problem
from trainers.seats import make_seats

SPACES = {
    "discrete": spaces.Discrete(5),
    "multi": spaces.MultiDiscrete([3, 2]),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 1.0], np.float32)),
}


def policies(count: int, space: str = "discrete", **settings) -> list:
    """Policies of random weights, normalisers and deviations."""
    made = []
    for seed in range(count):
        learner = PPO(PPOConfig(hidden=(8, 6), **settings), Problem(4, SPACES[space], 5, 3, 100, seed=seed))
        generator = torch.Generator().manual_seed(seed)
        learner.net.normalizer.update(torch.randn((50, 4), generator=generator) * (1 + seed) + seed)
        for parameter in learner.net.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
        made.append(learner.policy())
    return made


@pytest.mark.parametrize("body", ["mlp", "gru"])
@pytest.mark.parametrize("space", SPACES)
def test_a_crew_answers_as_each_alone(space, body):
    alone = policies(3, space, body=body)
    crew = Crew(alone)
    memory = alone[0].memory(3, 5, 3)
    memories = [policy.memory(5, 3) for policy in alone]
    generator = torch.Generator().manual_seed(9)
    for _ in range(4):
        obs = torch.randn((3, 5, 3, 6), generator=generator)  # wider than what they see
        mask = torch.rand((3, 5, 3, 5), generator=generator) < 0.7 if space == "discrete" else None
        together = crew.act(obs, mask, greedy=True, memory=memory)
        for i, policy in enumerate(alone):
            single = policy.act(obs[i], None if mask is None else mask[i], greedy=True, memory=memories[i])
            torch.testing.assert_close(together[i], single)
            if memory is not None:
                torch.testing.assert_close(memory[i], memories[i])


def test_the_samples_of_a_crew_follow_each_policys_probabilities():
    alone = policies(2)
    crew = Crew(alone)
    crew.generator.manual_seed(3)
    obs = torch.tensor([[0.5, -1.0, 2.0, 0.0]]).expand(2, 20_000, 1, 4)
    drawn = crew.act(obs)
    for i, policy in enumerate(alone):
        wanted = policy.actor(policy.normalizer(obs[i, 0, 0])).softmax(-1)
        got = torch.bincount(drawn[i].flatten(), minlength=5) / 20_000
        torch.testing.assert_close(got, wanted, atol=0.015, rtol=0.0)
    box = Crew(policies(2, "box"))
    spread = box.head.log_std.exp().flatten(0, 2)
    drawn = box.head.sample(torch.zeros(2, 20_000, 1, 2), box.generator, None)[0]
    torch.testing.assert_close(drawn.std((1, 2)), spread, atol=0.0, rtol=0.03)


def test_who_is_alike():
    one, other = policies(2)
    assert alike(one, other)
    assert not alike(one, policies(1, "multi")[0])
    assert not alike(one, policies(1, activation="relu")[0])
    picture = policies(1, body="cnn", image=(1, 2, 2))[0]
    assert not alike(picture, picture)
    assert not alike(one, object())


@pytest.mark.parametrize(("core", "body"), [(Corridor, "mlp"), (Recall, "gru")])
def test_a_cast_asks_policies_of_one_shape_as_one(core, body):
    """With a policy for every agent, greedy play is that of the policies one by one."""
    made = core(6)
    config = TrainConfig("Toy", num_envs=6, sharing="agent", learner=PPOConfig(hidden=(8,), body=body))
    seats = make_seats(config, made)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    cast = Cast(made, players)
    assert len(cast.parts) == 1
    obs, info = made.reset(seed=1)
    memories = {name: policy.memory(6, 1) for name, policy in players.items()}
    for _ in range(6):
        wanted = []
        for row, (name, policy) in enumerate(players.items()):
            if memories[name] is not None:
                memories[name].masked_fill_((made.steps == 0)[:, None, None], 0.0)
            wanted.append(policy.act(obs[:, row : row + 1], greedy=True, memory=memories[name]))
        action = cast.act(obs, info, greedy=True)
        for row, memory in enumerate(memories.values()):
            if memory is not None:
                torch.testing.assert_close(cast.parts[0].memory[row], memory)
        assert torch.equal(action, torch.cat(wanted, 1))
        obs, _, _, _, info = made.step(action)


def test_a_cast_keeps_masks_and_numbers_of_agents_apart():
    core = Identity(8, masked=True)
    seats = make_seats(TrainConfig("Identity", num_envs=8), core)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    assert len(Cast(core, players).parts) == 2  # two agents in one group, one in the other
    seats = make_seats(TrainConfig("Identity", num_envs=8, sharing="agent"), core)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    assert len(Cast(core, players).parts) == 1
    one, two = (play(core, players, seed=2) for _ in range(2))  # the toy asserts that every action is legal
    assert one == two
