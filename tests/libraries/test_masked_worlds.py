"""Single worlds whose actions can be illegal, through other libraries' wrappers for PettingZoo."""

import numpy as np
import pytest
import supersuit
from gymnasium import Env
from pettingzoo.utils import BaseWrapper, aec_to_parallel, parallel_to_aec
from sb3_contrib import MaskablePPO
from sb3_contrib.common.wrappers import ActionMasker
from small_environments import SMALL
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.envs.utils import check_env_specs

import gpu_envs
from gpu_envs.runtime.factory import configured_definition

MASKED = [name for name in gpu_envs.list_envs() if configured_definition(name, None, SMALL[name])[2].rules.masked]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo", "ignore::UserWarning:torchrl")


def act(env, agent, observation):
    return env.action_space(agent).sample(observation["action_mask"])


@pytest.mark.parametrize("make", [gpu_envs.parallel_env, gpu_envs.aec_env])
@pytest.mark.parametrize("env_id", MASKED)
def test_torchrl_wraps_masked_worlds(env_id, make):
    """TorchRL takes the mask out of the observation; a mask in the info as well would be an error there."""
    world = make(env_id, **SMALL[env_id])
    env = PettingZooWrapper(world, use_mask=True)
    check_env_specs(env)
    data = env.reset(seed=0)
    acting = world.agents if make is gpu_envs.parallel_env else [world.agent_selection]
    masks = {agent: world._world.action_mask(agent) for agent in acting}
    for group, agents in env.group_map.items():
        for index, agent in enumerate(agents):
            assert data[group, "mask"][index] == (agent in acting)
            if agent in acting:
                np.testing.assert_array_equal(data[group, "action_mask"][index].flatten(), np.hstack(masks[agent]))
    assert env.rollout(12, break_when_any_done=False).shape == (12,)


@pytest.mark.parametrize("env_id", MASKED)
def test_conversions_of_pettingzoo_and_supersuit_play_masked_worlds(env_id):
    """PettingZoo's conversions there and back, and SuperSuit's wrapper of observations in dicts."""
    world = gpu_envs.parallel_env(env_id, **SMALL[env_id])
    twin = aec_to_parallel(parallel_to_aec(gpu_envs.parallel_env(env_id, **SMALL[env_id])))
    left, right = world.reset(seed=1)[0], twin.reset(seed=1)[0]
    while world.agents:
        np.testing.assert_equal(left, right)
        actions = {agent: act(world, agent, left[agent]) for agent in world.agents}
        left, right = world.step(actions)[0], twin.step(actions)[0]
    assert not twin.agents
    turns = supersuit.sticky_actions_v0(gpu_envs.aec_env(env_id, **SMALL[env_id]), 0.0)
    turns.reset(seed=1)
    for agent in turns.agent_iter():
        observation, _, terminated, truncated, _ = turns.last()
        turns.step(None if terminated or truncated else act(turns, agent, observation))


class SB3ActionMaskWrapper(BaseWrapper, Env):
    """Wrapper of PettingZoo's tutorial "SB3: Action Masked PPO for Connect Four", which trains one policy for all."""

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.observation_space = super().observation_space(self.possible_agents[0])["observation"]
        self.action_space = super().action_space(self.possible_agents[0])
        return self.observe(self.agent_selection), {}

    def step(self, action):
        current_agent = self.agent_selection
        super().step(action)
        return (
            self.observe(self.agent_selection),
            self._cumulative_rewards[current_agent],
            self.terminations[current_agent],
            self.truncations[current_agent],
            self.infos[current_agent],
        )

    def observe(self, agent):
        return super().observe(agent)["observation"]

    def action_mask(self):
        return super().observe(self.agent_selection)["action_mask"]


def tutorial(env):
    wrapped = SB3ActionMaskWrapper(env)
    wrapped.reset(seed=0)
    return ActionMasker(wrapped, SB3ActionMaskWrapper.action_mask)


def test_final_rewards_in_the_tutorial_of_pettingzoo_are_the_movers():
    """A move ends a game of tic-tac-toe won (+1) or drawn, never lost."""
    env = tutorial(gpu_envs.aec_env("TicTacToe-v0"))
    model = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=64, seed=0, device="cpu")
    finals = []

    def note(variables, _):
        finals.extend(
            float(reward) for reward, done in zip(variables["rewards"], variables["dones"], strict=True) if done
        )
        return True  # go on

    model.learn(512, callback=note)
    assert len(finals) > 40
    assert set(finals) == {0.0, 1.0}
    assert finals.count(1.0) > finals.count(0.0)
