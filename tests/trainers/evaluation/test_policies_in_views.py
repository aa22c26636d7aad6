"""`opponents=` of the views takes policies of trainers, with their masks and hidden states."""

import gymnasium
import numpy as np
import pytest
import torch

import gpu_envs  # noqa: F401 registers the environments
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.agent_group import make_agent_group
from trainers.base.learner_spec import LearnerSpec

ID = "PhantomTicTacToe-v0"
SETTINGS = {"obstype": "reveal-nothing"}


class Recording:
    """Policy of the second player that keeps its inputs, with large weights."""

    def __init__(self, network):
        core = make_core(ID, 1, "cpu", **SETTINGS)
        self.other, self.group = core.groups
        agents = make_agent_group(core, [self.group])
        spec = LearnerSpec(agents.obs_width, agents.space, 1, 1, 100, has_action_mask=True, turn_based=True)
        learner, generator = PPO(PPOConfig(hidden_sizes=(8,), network=network), spec), torch.Generator().manual_seed(0)
        for parameter in learner.actor.parameters():
            parameter.data += torch.randn(parameter.shape, generator=generator)
        self.policy, self.calls = learner.policy(), []

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        memory = None if hidden_state is None else hidden_state.clone()
        action = self.policy.act(obs, mask, greedy, hidden_state)
        self.calls.append((obs.clone(), mask.clone(), memory, action))
        return action

    def initial_hidden_state(self, *shape):
        return self.policy.initial_hidden_state(*shape)

    def check(self, network):
        """Check that it plays legal actions, and that equal information states have equal hidden states."""
        by_obs, repeated = {}, 0
        for obs, mask, hidden, action in self.calls:
            assert mask.gather(-1, action.unsqueeze(-1)).all()
            if network == "mlp":
                continue
            for row, memory in zip(obs.flatten(0, 1), hidden.flatten(0, 1), strict=True):
                key = row.numpy().tobytes()
                repeated += key in by_obs
                by_obs.setdefault(key, []).append(memory)
        if network == "gru":
            assert repeated
            for memories in by_obs.values():  # before it takes in the observation for the first time, and after
                distinct = torch.stack(memories).mul(1e4).round().unique(dim=0)
                assert len(distinct) <= 2
            assert max(map(len, by_obs.values())) > 2


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_gymnasium_make_takes_a_policy(network):
    policy = Recording(network)
    env = gymnasium.make(f"gpu_envs/{ID}", agent=f"{policy.other}_0", opponents={policy.group: policy}, **SETTINGS)
    rng = np.random.default_rng(0)
    for seed in range(12):
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            action = rng.choice(np.flatnonzero(info["action_mask"])) if info["action_mask"].any() else 0
            _, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
    policy.check(network)
    copy = gymnasium.make(env.spec)  # the spec keeps the policy
    copy.reset(seed=0)
    count = len(policy.calls)
    copy.step(4)
    assert len(policy.calls) > count


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_vector_environments_take_a_policy(network):
    policy = Recording(network)
    env = gymnasium.make_vec(f"gpu_envs/{ID}", num_envs=3, group=policy.other, opponents=policy, **SETTINGS)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        masks = env.unwrapped.core.action_mask[:, 0].numpy()
        env.step(torch.tensor([rng.choice(np.flatnonzero(mask)) for mask in masks]))
    policy.check(network)


def test_error_of_a_policy_for_other_observations_is_clear():
    policy = Recording("mlp")
    env = gymnasium.make("gpu_envs/TicTacToe-v0", agent="player_0", opponents=policy.policy)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"^policy: obs: expected \(..., \d+\), got \(1, 1, \d+\)"):
        env.step(4)
