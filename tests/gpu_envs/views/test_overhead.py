"""What a step of a view costs in addition to the kernel: PyTorch's operations, each a few microseconds."""

import gymnasium
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gpu_envs
from gpu_envs.errors import ActionError, ResetNeededError
from gpu_envs.runtime.factory import make_core


class Operations(TorchDispatchMode):
    """Names of PyTorch's operations."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def operations(play):
    """Return the operations of the second call; the first one compiles."""
    play()
    with Operations() as recorder:
        play()
    return recorder.names


def test_operations_are_counted():
    assert operations(lambda: torch.zeros(2) + 1) == ["aten.zeros.default", "aten.add.Tensor"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gymnasium.make("gpu_envs/CartPole-v1"),
        lambda: gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0"),
        lambda: gymnasium.make("gpu_envs/LeducPoker-v0", agent="player_0"),
    ],
    ids=["CartPole-v1", "SimpleTag-v0", "LeducPoker-v0"],
)
def test_step_of_one_agent_calls_no_operation(make):
    env = make()
    _, info = env.reset(seed=0)

    def play():
        nonlocal info
        *_, info = env.step(env.action_space.sample(info.get("action_mask")))

    assert operations(play) == []


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "LeducPoker-v0", "TagContinuous-v0"])
def test_step_of_a_single_world_calls_no_operation(env_id):
    env = gpu_envs.parallel_env(env_id, **({"num_taggers": 1, "num_runners": 2} if env_id[:4] == "TagC" else {}))
    obs, _ = env.reset(seed=0)

    def play():
        nonlocal obs
        masks = {a: obs[a]["action_mask"] if isinstance(obs[a], dict) else None for a in env.agents}
        obs, *_ = env.step({a: env.action_space(a).sample(masks[a]) for a in env.agents})

    assert operations(play) == []


def test_step_in_place_equals_step():
    core, twin = (make_core("SimpleTag-v0", 3, "cpu", reuse_buffers=True, seed=0) for _ in range(2))
    core.reset()
    twin.reset()
    for _ in range(30):
        actions = core.sample_actions().clone()
        obs, reward, terminated, truncated, info = core.step(actions)
        twin.action_buffer.copy_(actions)
        twin.step_in_place()
        live = (twin.obs, twin.reward, twin.terminated, twin.truncated, *twin._buffers.info.values())
        for result, tensor in zip((obs, reward, terminated, truncated, *info.values()), live, strict=True):
            assert torch.equal(result, tensor)


def test_step_in_place_raises_as_step_does():
    core = make_core("SimpleTag-v0", 3, "cpu", reuse_buffers=True)
    with pytest.raises(ResetNeededError, match="step before the first reset"):
        core.step_in_place()
    core.reset(seed=0)
    core.action_buffer.zero_()
    core.action_buffer[1, 2] = 7
    with pytest.raises(ActionError, match="action of adversary_2 in world 1 is out of range"):
        core.step_in_place()
    core.close()
    with pytest.raises(ResetNeededError, match="closed"):
        core.step_in_place()


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, torch.tensor])
def test_every_kind_of_integer_gives_the_same_step(kind):
    envs = [gymnasium.make("gpu_envs/CartPole-v1") for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    for action in (0, 1, 1, 0):
        obs, *usual = envs[0].step(action)
        other_obs, *other = envs[1].step(kind(action))
        np.testing.assert_array_equal(obs, other_obs)
        assert usual == other
    with pytest.raises(ActionError, match="out of range"):
        envs[1].step(kind(2))
