"""TagGridworld-v0 against the NumPy reference in tests/parity/references, the state copied across before every step."""

import numpy as np
import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.references import tag_gridworld as reference

TOLERANCE = 1e-5

CASES = {
    "default": {},
    "partial": dict(num_taggers=3, grid_length=3, episode_length=7, use_full_observation=False),
    "small": dict(num_taggers=3, grid_length=3, episode_length=7),
    "yaml": dict(
        num_taggers=4, grid_length=12, episode_length=20, tag_penalty_for_runner=5.0, use_full_observation=False
    ),
    "truncation": dict(num_taggers=1, grid_length=2, episode_length=5, time_limit="truncation", wall_hit_penalty=0.4),
    "fixed start": dict(num_taggers=2, grid_length=4, episode_length=30, fixed_start=True),
}


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("case", CASES)
def test_transitions_equal_the_reference(case):
    worlds, steps = 30, 40
    core = make_core("TagGridworld-v0", worlds, "cpu", seed=0, autoreset="disabled", **CASES[case])
    core.reset()
    config = core.config
    tags = walls = limits = 0
    for _ in range(steps):
        action = core.sample_actions()
        cells = core.world_state["cell"].numpy().copy()
        clock = core.elapsed_steps.clone()
        obs, reward, terminated, truncated, info = core.step(action)
        for world in range(worlds):
            state = reference.initial(config, cells[world, :, 0], cells[world, :, 1], int(clock[world]))
            want = reference.step(state, action[world].numpy(), config)
            np.testing.assert_allclose(obs[world].numpy(), want.obs, atol=TOLERANCE, rtol=0)
            np.testing.assert_allclose(reward[world].numpy(), want.reward, atol=TOLERANCE, rtol=0)
            assert (terminated[world].numpy() == want.terminated).all()
            assert (truncated[world].numpy() == want.truncated).all()
            assert (core.world_state["cell"][world].numpy() == np.stack([want.state["x"], want.state["y"]], -1)).all()
            tags += want.reward[0] > 1
            limits += want.state["t"] == config.episode_length
            wall_hits = reference.step(state, np.zeros_like(action[world].numpy()), config).reward
            walls += bool((want.reward < wall_hits - 0.05).any())
        core.reset(reset_mask=~info["alive"].any(1))
    assert tags > 10
    assert walls > 10
    assert limits > 10 or case in ("default", "fixed start")


def test_initial_states_are_distributed_as_in_the_reference():
    core = make_core("TagGridworld-v0", 5000, "cpu", seed=0, num_taggers=1, grid_length=4)
    core.reset()
    cells, counts = torch.unique(core.world_state["cell"].flatten(0, 1), dim=0, return_counts=True)
    assert len(cells) == 25
    assert (counts - 400).abs().max() < 100
    fixed = make_core("TagGridworld-v0", 2, "cpu", num_taggers=2, grid_length=5, fixed_start=True)
    fixed.reset()
    assert fixed.world_state["cell"][1].tolist() == [[2, 2], [2, 2], [0, 0]]
