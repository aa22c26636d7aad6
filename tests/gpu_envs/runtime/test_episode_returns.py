"""Returns of episodes so long that a sum of float32 rewards loses its last digits, or stops growing."""

import pytest
import torch

from gpu_envs.runtime.factory import make_core


def paying(reward: float, steps: int, **settings):
    """Return a world of a game that pays both players the same in each of its steps."""
    return make_core("MatrixGame-v0", 1, "cpu", payoff=[[[reward, reward]]], num_repetitions=steps, seed=0, **settings)


@pytest.mark.slow
@pytest.mark.optimized  # for its many steps
def test_return_of_a_million_rewards_of_a_tenth_is_a_hundred_thousand():
    core = paying(0.1, 1_000_000)
    core.reset()
    *_, info = core.random_rollout(1_000_000)
    assert info["episode_length"].tolist() == [[1_000_000] * 2]
    assert info["episode_return"].dtype == torch.float32
    assert info["episode_return"].tolist() == [[100_000.0] * 2]


def test_last_ten_thousand_of_them_add_a_thousand():
    core = paying(0.1, 10_000)
    core.reset()
    state = core.get_state()
    state["io.running_return"].fill_(99_000.0)
    core.set_state(state)
    *_, info = core.random_rollout(10_000)
    assert info["episode_return"].tolist() == [[100_000.0] * 2]


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_return_grows_beyond_the_integers_of_float32(schedule):
    core = paying(1.0, 4, schedule=schedule)
    core.reset()
    state = core.get_state()
    state["io.running_return"].fill_(2.0**24)
    core.set_state(state)
    for _ in range(4):
        *_, info = core.step(core.sample_actions())
    assert info["episode_return"].tolist() == [[2.0**24 + 4] * 2]


def test_state_of_an_earlier_version_with_float32_sums_plays_on_alike():
    """Earlier versions neither summed in float64 nor stored the numbers of the worlds."""
    core = paying(1.0, 4, env_offset=3)
    core.reset()
    core.step(core.sample_actions())
    state = core.get_state()
    old = {name: tensor for name, tensor in state.items() if name != "io.world"}
    old["io.running_return"] = old["io.running_return"].float()
    core.set_state(old)
    loaded = core.get_state()
    for name, tensor in state.items():
        assert loaded[name].dtype == tensor.dtype, name
        assert torch.equal(loaded[name], tensor), name
