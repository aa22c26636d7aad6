"""gpu_envs.make: dicts by agent."""

from dataclasses import replace

import pytest
import torch
import toy
from gymnasium import spaces

import gpu_envs
from gpu_envs.definition import registry
from gpu_envs.runtime import factory


@pytest.fixture
def unequal(monkeypatch):
    """Toy-v0 whose last walker may only stay or go left: its mask is narrower than other agents' masks."""
    toy.announce(monkeypatch)

    def build(config):
        d = toy.build(config)
        *walkers, last = d.agents
        return replace(
            d,
            action_spaces={**d.action_spaces, last: spaces.Discrete(2)},
            groups={"walker": tuple(range(len(walkers))), "last": (len(walkers),)},
        )

    monkeypatch.setitem(registry._entries, "Toy-v0", registry.EnvSpec("Toy-v0", None, toy.Config, build))


def test_actions_with_gradients_are_detached():
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


def narrow(env_id, space, **settings):
    """Return a definition whose last agent has a smaller action."""
    kind, build = registry.find(env_id).load()
    d = build(kind(**settings))
    *members, last = d.agents
    groups = {"most": tuple(range(len(members))), "last": (len(members),)}
    return replace(d, action_spaces={**d.action_spaces, last: space}, groups=groups)


@pytest.fixture(params=["continuous", "multi-discrete"])
def short(request, monkeypatch):
    """Return an environment whose last agent has fewer action components, and their number."""
    if request.param == "continuous":
        d = narrow("SimpleTag-v0", spaces.Box(0.0, 1.0, (3,)), continuous_actions=True)
    else:
        d = narrow("TagContinuous-v0", spaces.MultiDiscrete([5]), num_taggers=2, num_runners=2)
    toy.announce(monkeypatch)
    monkeypatch.setitem(registry._entries, "Toy-v0", registry.EnvSpec("Toy-v0", None, toy.Config, lambda config: d))
    return sum(d.action_spaces[d.agents[-1]].shape)


def test_actions_are_as_wide_as_the_agents_own(short):
    env = gpu_envs.make("Toy-v0", 4, "cpu", seed=0)
    env.reset()
    last = env.possible_agents[-1]
    for _ in range(3):
        actions = env.sample_actions()
        for agent, action in actions.items():
            assert all(env.action_space(agent).contains(row) for row in action.numpy())
        env.step(actions)
        assert torch.equal(env.core.action_buffer[:, -1, :short], actions[last])
    with pytest.raises(gpu_envs.errors.ActionError, match=rf"action of {last}: expected .*\(4, {short}\)"):
        env.step({**actions, last: env.core.action_buffer[:, -1].clone()})


def test_padding_of_actions_is_ignored(short):
    first, second = (factory.make_core("Toy-v0", 4, "cpu", seed=0) for _ in range(2))
    first.reset()
    second.reset()
    for padding in (7, -1, float("nan") if first.action_kind == "continuous" else 2**40):
        action = first.sample_actions()
        assert not action[:, -1, short:].any()
        strange = action.clone()
        strange[:, -1, short:] = padding
        for left, right in zip(first.step(action)[:4], second.step(strange)[:4], strict=True):
            assert torch.equal(left, right)
    action[2, -1, short - 1] = -1  # its own still are not
    with pytest.raises(gpu_envs.errors.ActionError, match="world 2"):
        first.step(action)


def test_rows_of_narrow_actions(short):
    import gymnasium

    for group, width in (("last", short), ("most", None)):
        env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, group=group, device="cpu")
        env.reset(seed=0)
        action = env.sample_actions()
        assert action.shape[1] == (width or env.core.action_buffer.shape[2])
        assert all(env.single_action_space.contains(row) for row in action.numpy())
        env.step(action)


def test_masks_of_rows_are_as_wide_as_the_agents_choices(unequal):
    import gymnasium

    shapes = []

    def left(obs, mask):
        shapes.append(tuple(mask.shape))
        return mask[..., 1].long()

    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, group="last", opponents={"walker": left}, device="cpu")
    _, info = env.reset(seed=0)
    assert info["action_mask"].shape == (4, 2)
    *_, info = env.step(env.sample_actions())
    assert info["action_mask"].shape == (4, 2)
    assert shapes == [(4, 2, 3)]
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=4, group="walker", opponents={"last": left}, device="cpu")
    env.reset(seed=0)
    env.step(env.sample_actions())
    assert shapes[1:] == [(4, 1, 2)]
