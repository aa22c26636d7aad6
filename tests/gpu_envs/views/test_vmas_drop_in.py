"""A loop written for VMAS runs after one changed line: ``from gpu_envs.vmas import make_env``."""

import pytest
import torch

from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.factory import make_core
from gpu_envs.vmas import SCENARIOS, make_env

WORLDS = 4


def make(scenario="transport", **settings):
    return make_env(scenario, WORLDS, seed=0, **settings)


def test_names_of_scenarios_are_those_of_vmas():
    assert SCENARIOS["balance"] == "VMASBalance-v0"
    assert SCENARIOS["navigation"] == "VMASNavigation-v0"


def test_episode_plays_as_the_core_and_ends_without_autoreset():
    env = make(max_steps=3, n_agents=2)
    core = make_core("VMASTransport-v0", WORLDS, "cpu", seed=0, max_steps=3, n_agents=2)
    first, _ = core.reset()
    assert torch.equal(torch.stack(env.reset(seed=0), 1), first)
    for step in range(3):
        actions = env.get_random_actions()
        obs, rewards, dones, infos = env.step(actions)
        core_obs, core_rewards, *_, info = core.step(torch.stack(actions, 1))
        expected = core_obs if step < 2 else info["final_obs"]
        assert torch.equal(torch.stack(obs, 1), expected)
        assert torch.equal(torch.stack(rewards, 1), core_rewards)
        assert dones.tolist() == [step == 2] * WORLDS
        assert infos == [{}, {}]
    assert env.reset_at(1, return_observations=False, return_dones=True).tolist() == [True, False, True, True]
    assert env.steps.tolist() == [3, 0, 3, 3]
    *_, dones, _ = env.step(env.get_random_actions())
    assert dones.tolist() == [True, False, True, True], "a world stays done until it is reset"


def test_without_a_time_limit_episodes_do_not_end():
    env = make()
    for _ in range(150):  # the limit of the environment is 100
        *_, dones, _ = env.step([torch.zeros(WORLDS, 2)] * env.n_agents)
    assert not dones.any()


def test_dicts_and_two_flags():
    env = make(max_steps=1, dict_spaces=True, terminated_truncated=True)
    names = [agent.name for agent in env.agents]
    assert list(env.reset()) == names == list(env.action_space) == list(env.observation_space)
    obs, rewards, terminated, truncated, infos = env.step(dict.fromkeys(names, torch.zeros(WORLDS, 2)))
    assert list(obs) == list(rewards) == list(infos) == names
    assert not terminated.any()
    assert truncated.all()


def test_digits_and_numbers_of_discrete_actions_have_the_same_effect():
    numbers = make(continuous_actions=False)
    digits = make(continuous_actions=False, multidiscrete_actions=True)
    assert digits.action_space[0].nvec.tolist() == [3, 3]
    for number in range(9):
        mine = numbers.step([torch.full((WORLDS, 1), number)] * numbers.n_agents)[0]
        other = digits.step([torch.tensor([[number // 3, number % 3]] * WORLDS)] * digits.n_agents)[0]
        assert torch.equal(mine[0], other[0])
    assert digits.get_random_action(digits.agents[1]).shape == (WORLDS, 2)


def test_actions_of_four_components_have_as_many_digits():
    settings = {"enable_shooting": True, "ai_red_agents": False}
    assert [agent.action_size for agent in make("football", **settings).agents] == [4] * 6
    numbers = make("football", continuous_actions=False, **settings)
    digits = make("football", continuous_actions=False, multidiscrete_actions=True, **settings)
    assert digits.action_space[0].nvec.tolist() == [3, 3, 3, 3]
    actions = digits.get_random_actions()
    weights = torch.tensor([27, 9, 3, 1])
    mine = digits.step(actions)[0]
    other = numbers.step([(action * weights).sum(1) for action in actions])[0]
    assert torch.equal(torch.stack(mine), torch.stack(other))


def test_actions_beyond_their_range_are_clipped_or_an_error():
    beyond = [torch.full((WORLDS, 2), 2.0)] * 4
    clipped = make(clamp_actions=True).step(beyond)[0]
    assert torch.equal(clipped[0], make().step([torch.ones(WORLDS, 2)] * 4)[0][0])
    with pytest.raises(ActionError, match="out of range"):
        make().step(beyond)
    velocities = [make("give_way", clamp_actions=True).step([torch.full((WORLDS, 2), x)] * 2)[0] for x in (0.5, 2.0)]
    assert torch.equal(velocities[0][0], velocities[1][0]), "its range is [-0.5, 0.5]"


def test_a_discrete_action_that_is_no_integer_is_an_error():
    env = make(continuous_actions=False)
    with pytest.raises(ActionError, match="out of range"):
        env.step([torch.full((WORLDS, 1), 1.5)] * env.n_agents)


def test_a_seed_holds_for_the_next_reset():
    env = make()
    first = env.reset(seed=3)
    env.step(env.get_random_actions())
    assert env.seed(3) == [3]
    assert env.steps.tolist() == [1] * WORLDS, "episodes go on"
    assert torch.equal(env.reset()[0], first[0])
    assert not torch.equal(env.reset()[0], first[0])


def test_frame_of_a_world():
    frame = make().render(mode="rgb_array", env_index=2, agent_index_focus=None, visualize_when_rgb=False)
    assert frame.shape == (512, 512, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wrapper": "gym"}, "wrapper: expected None, got 'gym'"),
        ({"grad_enabled": True}, "grad_enabled: expected False"),
        ({"multidiscrete_actions": True}, "expected False with continuous_actions"),
        ({"num_agents": 3}, "did you mean n_agents?"),
    ],
)
def test_arguments_that_are_refused(settings, message):
    with pytest.raises((ConfigError, TypeError), match=message):
        make(**settings)
    with pytest.raises(ConfigError, match="did you mean 'transport'"):
        make_env("transportt", WORLDS)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([torch.zeros(WORLDS, 2)], "expected 4, one per agent, got 1"),
        ([torch.zeros(WORLDS, 3)] * 4, r"action of agent_0: expected shape \(4, 2\)"),
        ({"agent_0": torch.zeros(WORLDS, 2)}, "expected one for each of agent_0"),
    ],
)
def test_actions_that_are_refused(actions, message):
    with pytest.raises(ActionError, match=message):
        make().step(actions)
