"""What `Policy.act` takes, and what it refuses."""

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
from trainers.algorithms.off_policy.sac import SAC, SACConfig
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.models.policy import Policy

KINDS = {
    PPO: PPOConfig(hidden_sizes=(8,)),
    DQN: DQNConfig(hidden_sizes=(8,), replay_size=64),
    SAC: SACConfig(hidden_sizes=(8,), replay_size=64),
    QMIX: QMIXConfig(hidden_sizes=(8,), replay_size=64, mixer="vdn"),
}
OBS = torch.randn((5, 4), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[True, False, True]] * 5)


def policy_of(kind=PPO, space=None, masked=True, config=None):
    spec = LearnerSpec(4, space or spaces.Discrete(3), 2, 1, 1000, has_action_mask=masked)
    return kind(config or KINDS[kind], spec).policy()


@pytest.mark.parametrize("kind", KINDS)
def test_policy_that_was_trained_with_masks_requires_them(kind, tmp_path):
    policy = policy_of(kind)
    policy.save(tmp_path / "policy")
    assert json.loads((tmp_path / "policy.json").read_text())["has_action_mask"] is True
    for each in (policy, Policy.load(tmp_path / "policy"), Policy.from_state(policy.state_dict())):
        with pytest.raises(ConfigError, match=r"^policy: mask: expected the legal actions, got none; pass info\["):
            each.act(OBS)
        assert set(each.act(OBS, MASK).tolist()) <= {0, 2}
    free = policy_of(kind, masked=False)
    free.save(tmp_path / "free")
    assert "has_action_mask" not in json.loads((tmp_path / "free.json").read_text())
    assert free.act(OBS).shape == (5,)


def test_policy_file_of_the_format_before_is_read(tmp_path):
    """It does not say whether the policy needs masks."""
    policy = policy_of()
    policy.save(tmp_path / "policy")
    file = tmp_path / "policy.json"
    spec = {**json.loads(file.read_text()), "format": "gpu-envs policy 3"}
    del spec["has_action_mask"]
    file.write_text(json.dumps(spec))
    old = Policy.load(tmp_path / "policy")
    assert torch.equal(old.act(OBS, greedy=True), policy.act(OBS, torch.ones_like(MASK), greedy=True))
    file.write_text(json.dumps({**spec, "format": "gpu-envs policy 2"}))
    with pytest.raises(CheckpointError, match="expected format 'gpu-envs policy 4', got 'gpu-envs policy 2'"):
        Policy.load(tmp_path / "policy")


@pytest.mark.parametrize("obs", [OBS.numpy(), OBS.double().numpy(), OBS.double(), OBS])
@pytest.mark.parametrize("mask", [MASK.numpy(), MASK.numpy().astype(np.int8), MASK.to(torch.int8), MASK, MASK.float()])
def test_numbers_of_any_type_give_the_same_actions(obs, mask):
    policy = policy_of()
    action = policy.act(obs, mask, greedy=True)
    assert isinstance(action, np.ndarray) == isinstance(obs, np.ndarray)
    assert action.tolist() == policy.act(OBS, MASK, greedy=True).tolist()
    assert str(action.dtype).endswith("int64")


@pytest.mark.parametrize("index", [0, slice(None)])
def test_dictionaries_of_views_are_observations(index):
    policy, obs, mask = policy_of(), OBS.numpy()[index], MASK.numpy().astype(np.int8)[index]
    action = policy.act({"observation": obs, "action_mask": mask}, greedy=True)
    assert np.array_equal(action, policy.act(OBS, MASK, greedy=True).numpy()[index])
    assert np.shape(action) == obs.shape[:-1]
    with pytest.raises(ConfigError, match="mask: expected the legal actions, got none"):
        policy.act({"observation": obs})


def test_masks_of_several_components_are_a_tuple_or_one_after_another():
    policy = policy_of(space=spaces.MultiDiscrete([2, 3]))
    parts = np.array([0, 1], np.int8), np.array([0, 0, 1], np.int8)
    assert policy.act(OBS[0].numpy(), parts).tolist() == [1, 2]
    assert policy.act(OBS, torch.tensor([0, 1, 0, 0, 1])).tolist() == [[1, 2]] * 5
    with pytest.raises(ConfigError, match="mask: expected a legal action in each row, got a row without one"):
        policy.act(OBS, torch.tensor([1, 1, 0, 0, 0]))


@pytest.mark.parametrize(
    ("obs", "mask", "message"),
    [
        (torch.zeros(5, 6), MASK, r"obs: expected \(..., 4\), got \(5, 6\); pass obs\[..., :4\]"),
        (np.zeros((5, 3)), MASK, r"obs: expected \(..., 4\), got \(5, 3\)"),
        ({"obs": OBS}, MASK, "obs: expected entries observation and action_mask, got obs"),
        (torch.zeros(()), MASK, r"obs: expected \(..., 4\), got \(\)"),
        (OBS.index_fill(1, torch.tensor([2]), torch.nan), MASK, r"obs: expected numbers, got NaN at \[0, 2\]"),
        (OBS, torch.zeros(5, 3), "mask: expected a legal action in each row, got a row without one"),
        (OBS, torch.ones(5, 4), r"mask: expected \(5, 3\) for obs \(5, 4\), got \(5, 4\)"),
        (OBS, torch.ones(4, 3), r"mask: expected \(5, 3\) for obs \(5, 4\), got \(4, 3\)"),
        (OBS[0], torch.ones(1, 3), r"mask: expected \(3,\) for obs \(4,\), got \(1, 3\)"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(obs, mask, message):
    with pytest.raises(ConfigError, match=f"^policy: {message}"):
        policy_of().act(obs, mask)


def test_hidden_state_of_another_shape_is_an_error():
    policy = policy_of(config=PPOConfig(hidden_sizes=(8,), network="gru"))
    with pytest.raises(ConfigError, match=r"of shape \(..., 8\), got no hidden state"):
        policy.act(OBS, MASK)
    with pytest.raises(ConfigError, match=r"of shape \(..., 8\), got \(4, 8\) for obs \(5, 4\)"):
        policy.act(OBS, MASK, hidden_state=policy.initial_hidden_state(4))
    with pytest.raises(ConfigError, match=r"of shape \(..., 8\), got \(5, 4\) for obs \(5, 4\)"):
        policy.act(OBS, MASK, hidden_state=torch.zeros(5, 4))
    hidden = np.zeros((5, 8), np.float32)
    policy.act(OBS.numpy(), MASK.numpy(), hidden_state=hidden)
    assert hidden.any()


def test_continuous_policy_gives_numpy_for_numpy():
    policy = policy_of(space=spaces.Box(-2.0, 2.0, (2,)), masked=False)
    action = policy.act(OBS.numpy()[0])
    assert (action.shape, action.dtype) == ((2,), np.float32)
