"""gymnasium.make_vec: seeds, reset masks and time limits of agent rows."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from row_envs import many, toys  # noqa: F401
from small_environments import BRIEF

from gpu_envs.errors import ActionError, ConfigError

pytestmark = pytest.mark.representative

SAME_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def test_seeds_and_worlds(many):
    """Equal seeds play alike, world i whatever the batch; without a seed the next episode follows."""
    few, large = many(2), many(6)
    rows = few.num_envs
    assert torch.equal(few.reset(seed=9)[0], large.reset(seed=9)[0][:rows])
    for _ in range(12):
        left, right = few.step(few.sample_actions()), large.step(large.sample_actions())
        for mine, theirs in zip(left[:4], right[:4], strict=True):
            assert torch.equal(mine, theirs[:rows])
    assert torch.equal(few.reset()[0], large.reset()[0][:rows])


def test_seeds_per_world_are_independent(toys):
    """Gymnasium's lists of seeds: one int per world."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, device="cpu")
    keys = [5, 2**64 - 1, 7]
    expected = env.core.reset(torch.tensor([5, -1, 7]))[0].reshape(9, -1)
    for form in (keys, tuple(keys), np.array(keys, np.uint64), torch.tensor([5, -1, 7])):
        env.reset(seed=0)
        assert torch.equal(env.reset(seed=form)[0], expected)
    for bad, words in (
        ([1, 2], "one int per world, 3 of them, got 2 seeds"),
        (list(range(9)), "got 9 seeds"),
        ([1, None, 2], r"seed\[1\]: expected an int, got None"),
        (np.array([0.5, 1.0, 2.0]), r"seed\[0\]: expected an int, got 0.5"),
        ("abc", "seed: expected an int"),
    ):
        with pytest.raises(ConfigError, match=words):
            env.reset(seed=bad)


def test_rows_of_equal_seeds_are_equal_and_those_of_a_single_world():
    """As Gymnasium's vector environments, whose worlds are separate ones."""
    env = gymnasium.make_vec("gpu_envs/CartPole-v1", num_envs=4, device="cpu")
    obs, _ = env.reset(seed=[7, 8, 7, 9])
    assert torch.equal(obs[0], obs[2])
    single = gymnasium.make("gpu_envs/CartPole-v1")
    for row, seed in enumerate((7, 8, 7, 9)):
        np.testing.assert_array_equal(obs[row], single.reset(seed=seed)[0])


def test_row_of_an_agent_that_left_before_the_limit_only_terminates(toys):
    """Agent 0 walks to the end of the line, the others stay until the limit: they are truncated, it is not."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=1, device="cpu", length=2, max_steps=3, num_agents=3)
    env.reset(seed=0)
    env.core.world_state["cell"].copy_(torch.tensor([[0, 0, 0]]))
    for actions in ([2, 0, 2], [2, 0, 0], [0, 0, 2]):
        *_, terminated, truncated, _ = env.step(torch.tensor(actions))
    assert terminated.tolist() == [True, False, True]
    assert truncated.tolist() == [False, True, True]


def test_max_episode_steps_truncates_rows(many, env_id):
    env = many(6, max_episode_steps=2, autoreset_mode=SAME_STEP)
    env.reset(seed=0)
    _, _, over, _, _ = env.step(env.sample_actions())
    over = over.clone()  # whose second step is the first of another episode
    _, _, terminated, truncated, _ = env.step(env.sample_actions())
    assert (terminated | truncated | over).all()
    assert truncated.any() == (env_id not in BRIEF)


def test_reset_masks_are_whole_worlds(toys):
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, autoreset_mode=DISABLED, device="cpu")
    obs, _ = env.reset(seed=0)
    mask = np.zeros(9, np.bool_)
    mask[3:5] = True
    for bad, words in (
        (mask, "the 3 rows of world 1 disagree; set them all alike"),
        (mask[:3], r"expected bool \(9,\), one per row, got torch.bool \(3,\)"),
        (mask.astype(int), r"expected bool \(9,\), one per row, got torch.int64"),
    ):
        with pytest.raises(ActionError, match=words):
            env.reset(options={"reset_mask": bad})
    obs, *_ = env.step(env.sample_actions())
    mask[5] = True
    restarted, _ = env.reset(options={"reset_mask": mask})
    assert torch.equal(restarted[:3], obs[:3])
    assert torch.equal(restarted[6:], obs[6:])
    seeded, _ = env.reset(seed=0, options={"reset_mask": mask})
    assert torch.equal(
        seeded[3:6], gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, device="cpu").reset(seed=0)[0][3:6]
    )


def test_reset_mask_on_a_gpu_needs_no_host_sync(toys, monkeypatch):
    """Looking would wait for it; there one row of a world resets it. A CPU's mask is checked (above)."""
    env = gymnasium.make_vec("gpu_envs/Toy-v0", num_envs=3, autoreset_mode=DISABLED, device="cpu")
    env.reset(seed=0)
    env.step(env.sample_actions())
    mask = torch.zeros(9, dtype=torch.bool)
    mask[4] = True
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda tensor: False))
    env.reset(options={"reset_mask": mask})
    assert env.core.elapsed_steps.tolist() == [1, 0, 1]
