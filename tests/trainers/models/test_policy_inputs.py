"""What `Policy.act` takes, and what it refuses."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
from trainers.algorithms.off_policy.sac import SAC, SACConfig
from trainers.algorithms.off_policy.td3 import TD3, TD3Config
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec, ObservationLayout
from trainers.models.policy import Policy

CONTINUOUS = TD3Config(hidden_sizes=(8,), replay_size=64)
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
    return kind(config or KINDS.get(kind, CONTINUOUS), spec).policy()


@pytest.mark.parametrize("kind", KINDS)
def test_policy_that_was_trained_with_masks_requires_them(kind, tmp_path):
    policy = policy_of(kind)
    policy.save(tmp_path / "policy")
    assert json.loads((tmp_path / "policy.json").read_text())["has_action_mask"] is True
    for player in (policy, Policy.load(tmp_path / "policy"), Policy.from_state(policy.state_dict())):
        with pytest.raises(ConfigError, match=r"^policy: mask: expected the legal actions, got none; pass info\["):
            player.act(OBS)
        assert set(player.act(OBS, MASK).tolist()) <= {0, 2}
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


IMAGE = ObservationLayout({"observation": (3, 2, 4)}, channels_last=True)
NAMED = ObservationLayout({"vector": (5,), "image": (2, 3, 2), "flags": (3,), "map": (1, 2, 2)})
BODIES = [{}, {"network": "cnn", "conv_filters": (4,)}]
PIXELS = torch.randint(2, (64, 24), generator=torch.Generator().manual_seed(0))


def shaped(layout, rows=PIXELS):
    """Return rows in the form that views show: an image of uint8, or named blocks."""
    sizes = [math.prod(shape) for shape in layout.blocks.values()]
    parts = dict(zip(layout.blocks, rows.split(sizes, -1), strict=True))
    parts = {name: part.unflatten(-1, layout.blocks[name]).to(torch.uint8) for name, part in parts.items()}
    return parts if len(parts) > 1 else parts["observation"]


@pytest.mark.parametrize("body", BODIES, ids=["mlp", "cnn"])
@pytest.mark.parametrize("layout", [IMAGE, NAMED], ids=["image", "named"])
@pytest.mark.parametrize("kind", [PPO, DQN, QMIX, SAC])
def test_observations_in_the_form_of_the_space_give_the_actions_of_flat_ones(kind, layout, body, tmp_path):
    spec = LearnerSpec(24, spaces.Discrete(8), 2, 1, 1000, has_action_mask=True, layout=layout)
    learner = kind(dataclasses.replace(KINDS[kind], **body), spec)
    generator = torch.Generator().manual_seed(1)
    for parameter in learner.actor.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    mask, saved = torch.ones((64, 8), dtype=torch.bool), learner.policy()
    expected = saved.act(PIXELS, mask, greedy=True)
    assert len(expected.unique()) > 2
    saved.save(tmp_path / "policy")
    for policy in (saved, Policy.load(tmp_path / "policy"), Policy.from_state(saved.state_dict())):
        obs = shaped(layout)
        assert torch.equal(policy.act(obs, mask, greedy=True), expected)
        assert torch.equal(policy.act({"observation": obs, "action_mask": mask.int()}, greedy=True), expected)
        assert torch.equal(policy.act({"observation": obs}, mask, greedy=True), expected)
        pairs = shaped(layout, PIXELS[:4].view(2, 2, 24))  # (E, n)
        assert torch.equal(policy.act(pairs, mask[:4].view(2, 2, 8), greedy=True), expected[:4].view(2, 2))
        arrays = shaped(layout, PIXELS[0])
        arrays = {name: part.numpy() for name, part in arrays.items()} if layout is NAMED else arrays.numpy()
        action = policy.act({"observation": arrays, "action_mask": mask[0].numpy()}, greedy=True)
        assert isinstance(action, np.integer)
        assert action == expected[0]
        for output, other in zip(policy.module()(obs, mask), policy.module()(PIXELS.float(), mask), strict=True):
            assert torch.equal(output, other)


def test_team_of_agents_with_indices_takes_images():
    spec = LearnerSpec(24, spaces.Discrete(3), 2, 2, 1000, layout=IMAGE)
    policy = QMIX(KINDS[QMIX], spec).policy()
    obs = PIXELS[:4].view(2, 2, 24)
    assert torch.equal(policy.act(shaped(IMAGE, obs), greedy=True), policy.act(obs, greedy=True))


@pytest.mark.parametrize(
    ("layout", "obs", "message"),
    [
        (IMAGE, torch.zeros(5, 2, 4, 3), r"expected \(..., 24\) or \(..., 3, 2, 4\), got \(5, 2, 4, 3\)$"),
        (IMAGE, torch.zeros(5, 25), r"expected .*, got \(5, 25\); pass obs\[..., :24\]$"),
        (NAMED, torch.zeros(5, 23), r"expected \(..., 24\) or a dict of vector, image, flags, map, got \(5, 23\)$"),
        (NAMED, {"c": 0, "a": 0, "b": 0}, "expected entries vector, image, flags, map, got a, b, c$"),
        (NAMED, {**shaped(NAMED), "map": None}, "map: expected numbers, got None$"),
        (NAMED, {**shaped(NAMED), "map": "abc"}, "map: expected numbers, got 'abc'$"),
        (NAMED, {**shaped(NAMED), "map": np.array([None, 1])}, r"map: expected numbers, got array\(\[None, 1\]"),
        (NAMED, {**shaped(NAMED), "map": [[1], [2, 3]]}, r"map: expected numbers, got \[\[1\], \[2, 3\]\]$"),
        (IMAGE, None, "expected numbers, got None$"),
        (NAMED, {}, "expected entries vector, image, flags, map, got no flags$"),
        (NAMED, {"image": PIXELS}, "expected entries vector, image, flags, map, got image$"),
        (
            NAMED,
            {**shaped(NAMED), "map": torch.zeros(64, 3)},
            r"map: expected \(..., 1, 2, 2\), got \(64, 3\)$",
        ),
        (
            NAMED,
            {**shaped(NAMED), "flags": torch.zeros(4, 3)},
            r"flags: expected the leading axes \(64,\) of vector, got \(4,\)$",
        ),
    ],
)
def test_observations_of_another_form_are_errors(layout, obs, message):
    policy = PPO(KINDS[PPO], LearnerSpec(24, spaces.Discrete(3), 2, 1, 1000, layout=layout)).policy()
    with pytest.raises(ConfigError, match=f"^policy: obs: {message}"):
        policy.act(obs)


@pytest.mark.parametrize("blocks", [{"a": [23]}, {"a": [24], "b": []}, {"a": [-4, -6]}, {"a": 24}, {"a": [24, 0]}])
def test_policy_file_with_blocks_of_another_width_is_refused(blocks, tmp_path):
    PPO(KINDS[PPO], LearnerSpec(24, spaces.Discrete(3), 2, 1, 1000, layout=NAMED)).policy().save(tmp_path / "policy")
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"blocks": blocks}))
    with pytest.raises(CheckpointError, match="blocks"):
        Policy.load(tmp_path / "policy")


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
        ({"obs": OBS}, MASK, "obs: expected entries observation, action_mask, got obs"),
        (torch.zeros(()), MASK, r"obs: expected \(..., 4\), got \(\)"),
        (OBS.index_fill(1, torch.tensor([2]), torch.nan), MASK, r"obs: expected numbers, got NaN at \[0, 2\]"),
        (OBS, torch.zeros(5, 3), "mask: expected a legal action in each row, got a row without one"),
        (OBS, torch.ones(5, 4), r"mask: expected \(5, 3\) for obs \(5, 4\), got \(5, 4\)"),
        (OBS, torch.ones(4, 3), r"mask: expected \(5, 3\) for obs \(5, 4\), got \(4, 3\)"),
        (OBS, "legal", "mask: expected numbers, got 'legal'"),
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


@pytest.mark.parametrize("kind", [PPO, SAC, TD3])
def test_continuous_policy_gives_numpy_for_numpy_and_is_restored_from_disk(kind, tmp_path):
    policy = policy_of(kind, spaces.Box(-2.0, 2.0, (2,)), masked=False)
    action = policy.act(OBS.numpy()[0])
    assert (action.shape, action.dtype) == ((2,), np.float32)
    policy.save(tmp_path / "policy")
    loaded = Policy.load(tmp_path / "policy")
    for player in (policy, loaded):
        player.seed(3)
    assert torch.equal(loaded.act(OBS), policy.act(OBS))
    assert torch.equal(loaded.act(OBS, greedy=True), policy.act(OBS, greedy=True))
