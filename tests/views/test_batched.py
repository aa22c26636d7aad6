"""gpu_envs.make: dicts by agent."""

from dataclasses import replace

import pytest
import torch
import toy
from gymnasium import spaces

import gpu_envs
from gpu_envs import registry


@pytest.fixture
def unequal(monkeypatch):
    """Toy-v0 whose last walker may only stay or go left: its mask is narrower than the others'."""
    toy.announce(monkeypatch)

    def build(config):
        d = toy.build(config)
        *most, last = d.agents
        return replace(
            d,
            action_spaces={**d.action_spaces, last: spaces.Discrete(2)},
            groups={"walker": tuple(range(len(most))), "last": (len(most),)},
        )

    monkeypatch.setitem(registry._entries, "Toy-v0", registry.Entry("Toy-v0", None, toy.Config, build))


def test_actions_with_a_gradient():
    env = gpu_envs.make("SimpleTag-v0", 2, "cpu", seed=0, continuous_actions=True)
    twin = gpu_envs.make("SimpleTag-v0", 2, "cpu", seed=0, continuous_actions=True)
    env.reset()
    twin.reset()
    actions = env.sample_actions()
    obs, *_ = env.step({agent: action.clone().requires_grad_() for agent, action in actions.items()})
    expected, *_ = twin.step(actions)
    assert all(torch.equal(obs[agent], expected[agent]) and not obs[agent].requires_grad for agent in obs)


@pytest.mark.parametrize("reuse", [False, True])
def test_masks_are_as_wide_as_the_agents_choices(unequal, reuse):
    env = gpu_envs.make("Toy-v0", 4, "cpu", seed=0, reuse_buffers=reuse)
    _, info = env.reset()
    for _ in range(3):
        for row, agent in enumerate(env.possible_agents):
            n = env.action_space(agent).n
            assert n == (2 if agent == "walker_2" else 3)
            assert torch.equal(info[agent]["action_mask"], env.core.action_mask[:, row, :n])
        *_, info = env.step(env.sample_actions())


def test_masks_of_rows_too(unequal):
    import gymnasium

    seen = []

    def left(obs, mask):
        seen.append(tuple(mask.shape))
        return mask[..., 1].long()

    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, group="last", others={"walker": left}, device="cpu")
    _, info = env.reset(seed=0)
    assert info["action_mask"].shape == (4, 2)
    *_, info = env.step(env.sample_actions())
    assert info["action_mask"].shape == (4, 2)
    assert seen == [(4, 2, 3)]
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, group="walker", others={"last": left}, device="cpu")
    env.reset(seed=0)
    env.step(env.sample_actions())
    assert seen[1:] == [(4, 1, 2)]
