"""Worlds split over devices play as in one core (the devices here: the CPU, several times)."""

import pytest
import torch
import toy
import turns
from test_conformance import MOSTLY_SLOW

import gpu_envs
from gpu_envs import errors
from gpu_envs.testing import env_checker

pytestmark = pytest.mark.representative


@pytest.fixture
def pair(env_id):
    from small_environments import SMALL

    settings = {"seed": 3, **SMALL[env_id]}
    whole = gpu_envs.make(env_id, 11, "cpu", **settings)
    split = gpu_envs.make(env_id, 11, devices=["cpu", "cpu", "cpu"], **settings)
    return whole, split


@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
def test_shards_play_like_one_core(pair):
    whole, split = (env.core for env in pair)
    for seed in (None, 5, torch.arange(11)):
        left, right = whole.reset(seed)[0], split.reset(seed)[0]
        assert torch.equal(left, right)
        for _ in range(12):
            action = whole.sample_actions()
            assert torch.equal(action, split.sample_actions())
            left, right = whole.step(action), split.step(action)
            for a, b in zip(left[:4], right[:4], strict=True):
                assert torch.equal(a, b)
            done = left[2] | left[3]
            assert torch.equal(left[4]["final_obs"][done], right[4]["final_obs"][done])
            assert torch.equal(whole.alive, split.alive)
        left, right = whole.random_rollout(5), split.random_rollout(5)
        for a, b in zip((*left[:4], *left[4].values()), (*right[:4], *right[4].values()), strict=True):
            assert torch.equal(a, b)
    assert torch.equal(whole.state(), split.state())
    mask = torch.arange(11) % 2 == 0
    assert torch.equal(whole.reset(reset_mask=mask)[0], split.reset(reset_mask=mask)[0])
    assert (whole.render_frames((0, 7), 32) == split.render_frames((0, 7), 32)).all()


def test_sharded_core_has_the_attributes_of_a_core(env_id, pair):
    whole, split = (env.core for env in pair)
    whole.reset()
    split.reset()
    for name in (name for name in dir(whole) if not name.startswith("_")):
        mine, theirs = getattr(split, name), getattr(whole, name)
        if isinstance(theirs, torch.Tensor):
            assert mine.shape == theirs.shape, name
            assert mine.dtype == theirs.dtype, name
        elif name == "world_state":
            assert mine.keys() == theirs.keys()
            assert all(torch.equal(mine[field], theirs[field]) for field in theirs)
        else:
            assert callable(theirs) or name == "definition" or mine == theirs, name
    for name in ("_layout", "no_such"):
        with pytest.raises(AttributeError, match=f"no '{name}'; its .shards"):
            getattr(split, name)
    with pytest.raises(errors.CaptureError, match="shards"):
        split.capture(lambda: None)
    with pytest.raises(errors.ConfigError, match="roll out each"):
        split.rollout({}, 1)


@pytest.mark.parametrize("host", [toy, turns])
def test_masks_and_turns_are_gathered(monkeypatch, host):
    toy.announce(monkeypatch, "Game-v0", host)
    whole = gpu_envs.make("Game-v0", 5, "cpu", seed=0).core
    split = gpu_envs.make("Game-v0", 5, devices=["cpu", "cpu"], seed=0).core
    _, info = split.reset()
    whole.reset()
    for _ in range(4):
        assert torch.equal(split.action_mask, whole.action_mask)
        assert torch.equal(info["action_mask"], whole.action_mask)
        if host is turns:
            assert torch.equal(split.to_move, whole.to_move)
            assert torch.equal(info["to_move"], whole.to_move)
        else:
            assert split.to_move is None
        *_, info = split.step(split.sample_actions())
        whole.step(whole.sample_actions())


def test_steps_in_place_are_those_of_one_core(monkeypatch):
    toy.announce(monkeypatch, "Game-v0", toy)
    core = gpu_envs.make("Game-v0", 5, "cpu", seed=0).core
    sharded = gpu_envs.make("Game-v0", 5, devices=["cpu", "cpu"], seed=0).core
    core.reset()
    sharded.reset()
    for _ in range(4):
        sharded.action_buffer.copy_(core.sample_actions())
        sharded.step_in_place()
        obs, reward, *_ = core.step(core.sample_actions())
        assert torch.equal(sharded.obs, obs)
        assert torch.equal(sharded.reward, reward)


def test_constants_of_each_world():
    core = gpu_envs.make("SimpleTag-v0", 2, devices=["cpu", "cpu"], seed=0).core
    core.set_params(good_size=torch.tensor([0.1, 0.2]), tag_reward=3.0)
    params = core.get_params()
    assert params["good_size"].tolist() == pytest.approx([0.1, 0.2])
    assert params["tag_reward"].tolist() == [3.0, 3.0]
    assert core.get_params(torch.tensor([1]))["good_size"].tolist() == pytest.approx([0.2])
    with pytest.raises(errors.ConfigError, match=r"good_size: expected a number or a tensor \(2,\), got \(3,\)"):
        core.set_params(good_size=torch.ones(3))
    assert core.get_params()["good_size"].tolist() == pytest.approx([0.1, 0.2])


def test_sharded_core_passes_check_env(monkeypatch):
    seen = []
    monkeypatch.setattr(env_checker, "LAWS", (seen.append,))
    gpu_envs.check_env(gpu_envs.make("SimpleTag-v0", 2, devices=["cpu", "cpu"], num_good=2))
    assert seen[0].config.num_good == 2


def test_bad_shapes_are_those_of_the_whole_batch():
    core = gpu_envs.make("SimpleTag-v0", 6, devices=["cpu", "cpu"], seed=0).core
    core.reset()
    action = core.sample_actions()
    before = core.get_state()
    cases = (
        (
            lambda: core.step(action[:3]),
            r"action: expected a torch.int64 tensor \(6, 4\) .*got .*\(3, 4\)",
        ),
        (lambda: core.step(action.int()), r"action: expected a torch.int64 tensor \(6, 4\)"),
        (lambda: core.step(action.tolist()), r"action: expected .* \(6, 4\) .*got list"),
        (
            lambda: core.reset(reset_mask=torch.ones(4, dtype=torch.bool)),
            r"reset_mask: expected a torch.bool tensor \(6,\) .*\(4,\)",
        ),
        (lambda: core.reset(seed=torch.ones(7, dtype=torch.int64)), r"seed: expected a torch.int64 tensor \(6,\)"),
    )
    for call, words in cases:
        with pytest.raises(errors.ActionError, match=words):
            call()
    after = core.get_state()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for bad in ((6,), (0, -1)):
        with pytest.raises(errors.ConfigError, match=r"envs: expected indices of worlds in \[0, 6\)"):
            core.render_frames(bad, 16)
    with pytest.raises(errors.CheckpointError, match="2 shards"):
        core.set_state(gpu_envs.make("SimpleTag-v0", 9, devices=["cpu"] * 3, seed=0).core.get_state())


def test_dicts_and_state(pair):
    whole, split = pair
    whole.reset()
    split.reset()
    kept = split.core.get_state()
    actions = split.sample_actions()
    first = split.step(actions)[0]
    split.core.set_state(kept)
    second = split.step(actions)[0]
    expected = whole.step(actions)[0]
    for agent, obs in first.items():
        assert torch.equal(obs, second[agent])
        assert torch.equal(obs, expected[agent])


def test_set_state_of_wrong_size_raises_and_changes_nothing():
    core = gpu_envs.make("SimpleTag-v0", 6, devices=["cpu", "cpu"], seed=0).core
    core.reset()
    before = core.get_state()
    core.step(core.sample_actions())
    now = core.get_state()
    with pytest.raises(errors.CheckpointError, match=r"io\.obs"):
        core.set_state({**before, "shard1.io.obs": before["shard1.io.obs"][:2]})
    assert all(torch.equal(now[name], tensor) for name, tensor in core.get_state().items())


def test_errors_name_the_world_of_the_batch():
    core = gpu_envs.make("SimpleTag-v0", 6, devices=["cpu", "cpu"], seed=0).core
    core.reset()
    action = core.sample_actions()
    action[4, 1] = 7
    with pytest.raises(errors.ActionError, match="world 4"):
        core.step(action)
    assert (core.elapsed_steps == 1).all()
    with pytest.raises(errors.ActionError, match="got"):
        core.step(action[:3])
    for bad in ({"devices": []}, {"devices": "cuda"}, {"devices": ["cpu"], "device": "cpu"}):
        with pytest.raises(errors.ConfigError, match="devices"):
            gpu_envs.make("SimpleTag-v0", 2, **bad)
    with pytest.raises(errors.ConfigError, match="num_envs"):
        gpu_envs.make("SimpleTag-v0", 1, devices=["cpu", "cpu"])


def test_shards_stay_in_step_after_a_late_gpu_error():
    """A GPU raises before it steps: then no shard may step."""
    core = gpu_envs.make("SimpleTag-v0", 6, devices=["cpu", "cpu"], seed=0).core
    core.reset()
    action = core.sample_actions()

    def once():
        core.shards[1].__dict__.pop("_look_for_errors")
        raise errors.ActionError("an earlier action")

    core.shards[1]._on_gpu, core.shards[1]._look_for_errors = True, once
    with pytest.raises(errors.ActionError, match="earlier"):
        core.step(action)
    core.shards[1]._on_gpu = False
    assert core.elapsed_steps.tolist() == [0] * 6
    core.step(action)
    assert core.elapsed_steps.tolist() == [1] * 6
    assert core.render_frames(5, 8).shape == (1, 8, 8, 3)
    for bad in (6, (), None):
        with pytest.raises(errors.ConfigError, match="envs: expected indices"):
            core.render_frames(bad)
    with pytest.raises(errors.CheckpointError, match="a dict of tensors"):
        core.set_state(None)
