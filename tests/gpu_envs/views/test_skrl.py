"""Interface for skrl's wrapper, without skrl: spaces, shapes, ends, errors. tests/libraries/ trains with it."""

import pytest
import torch
from small_environments import SMALL

from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.factory import make_core
from gpu_envs.views.skrl import SkrlEnv


def build(env_id, num_envs=8, **settings):
    return SkrlEnv(make_core(env_id, num_envs, "cpu", **{"seed": 0, **SMALL[env_id], **settings}))


def columns(actions):
    """Return actions in the shape of skrl: one column per choice."""
    return {agent: action.reshape(len(action), -1) for agent, action in actions.items()}


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TagContinuous-v0", "SimpleSpeakerListener-v0", "Pendulum-v1"])
def test_spaces_and_shapes(env_id):
    """Every agent has its own width, and no observation is copied on its way from the core."""
    env = build(env_id)
    assert env.unwrapped is env
    obs, _ = env.reset(seed=1)
    returned = []
    step = env.core.step
    env.core.step = lambda action: returned.append(step(action)) or returned[-1]
    for _ in range(10):
        obs, reward, terminated, truncated, _ = env.step(columns(env.sample_actions()))
        assert list(obs) == list(reward) == list(terminated) == list(truncated) == env.possible_agents
        for row, agent in enumerate(env.possible_agents):
            assert obs[agent].shape == (8, *env.observation_spaces[agent].shape)
            assert obs[agent].data_ptr() == returned[-1][0][:, row].data_ptr()
            assert reward[agent].data_ptr() == returned[-1][1][:, row].data_ptr()
        assert env.state().shape == (8, *env.state_space.shape)


def test_rows_end_with_their_world():
    """All rows end with the world, each in the way its agent left."""
    env = build("TagContinuous-v0", 32)
    core = make_core("TagContinuous-v0", 32, "cpu", seed=0, **SMALL["TagContinuous-v0"])
    env.reset(seed=3)
    core.reset(seed=3)
    left = torch.zeros(32, core.num_agents, dtype=torch.bool)
    early = ends = 0
    for t in range(40):
        if t == 25:  # in mid-episode
            env.reset(reset_mask=torch.arange(32) < 9)
            core.reset(reset_mask=torch.arange(32) < 9)
            left[:9] = False
        actions = env.sample_actions()
        _, _, terminated, truncated, info = env.step(columns(actions))
        core.step(core.sample_actions())
        left |= core.terminated | core.truncated
        done = torch.stack([terminated[agent] | truncated[agent] for agent in env.possible_agents], 1)
        over = left.all(1)
        assert torch.equal(done, over[:, None].expand_as(done))
        assert torch.equal(info["runner_0"]["alive"], core.alive[:, core.possible_agents.index("runner_0")])
        early += int((left & ~over[:, None]).sum())
        ends += int(over.sum())
        left[over] = False
    assert early > 0
    assert ends > 32


@pytest.mark.parametrize(("env_id", "kind"), [("SimpleSpread-v0", "truncated"), ("TagGridworld-v0", "terminated")])
def test_truncation_is_not_termination(env_id, kind):
    settings = {"terminate_on_success": False} if env_id == "SimpleSpread-v0" else {}
    env = build(env_id, **settings)
    env.reset(seed=0)
    counts = {"terminated": 0, "truncated": 0}
    for _ in range(20):
        _, _, terminated, truncated, _ = env.step(env.sample_actions())
        counts["terminated"] += sum(int(value.sum()) for value in terminated.values())
        counts["truncated"] += sum(int(value.sum()) for value in truncated.values())
    assert {name for name, count in counts.items() if count} == {kind}


def test_unsupported_settings_raise():
    for settings, words in (
        ({"reuse_buffers": True}, "reuse_buffers=False"),
        ({"autoreset": "next_step"}, "autoreset='same_step', got 'next_step'"),
    ):
        with pytest.raises(ConfigError, match=words):
            build("SimpleTag-v0", **settings)
    with pytest.raises(ConfigError, match="know no masks"):
        build("TicTacToe-v0")
    env = build("TicTacToe-v0", illegal_actions="loss")
    env.reset(seed=0)
    env.step(columns(env.sample_actions()))
    env = build("SimpleTag-v0")
    env.reset()
    for bad in (torch.zeros(8, 2, dtype=torch.int64), torch.zeros(7, 1, dtype=torch.int64), torch.zeros(8, 1)):
        with pytest.raises(ActionError, match=r"action of agent_0: expected a torch.int64 tensor \(8,\)"):
            env.step({**columns(env.sample_actions()), "agent_0": bad})
    with pytest.raises(ActionError, match=r"expected a dict by agent"):
        env.step(torch.zeros(8, 4, dtype=torch.int64))
