"""Hypothesis over what can change without a new compilation: constants, seeds, batch sizes, time limits."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity.references import tag_continuous as reference
from small_environments import SMALL

from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.representative

QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**64 - 1)
SIZES = {name: SMALL["TagContinuous-v0"][name] for name in ("num_taggers", "num_runners", "num_other_agents_observed")}


@QUICK
@given(
    seed=SEEDS,
    grid_length=st.floats(0.5, 15.0),
    tagging_distance=st.floats(0.0, 0.5),
    max_speed=st.floats(0.0, 2.0),
    turns=st.tuples(st.floats(-6.0, 6.0), st.floats(-6.0, 6.0)).map(sorted),
    accelerations=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)).map(sorted),
    skill=st.floats(0.0, 2.0),
    rewards=st.tuples(
        st.floats(-5, 0), st.floats(-5, 0), st.floats(0, 5), st.floats(0, 5), st.floats(-5, 0), st.floats(0, 5)
    ),
    exits=st.booleans(),
    limit=st.integers(1, 12),
)
def test_tag_continuous_follows_its_reference(
    seed, grid_length, tagging_distance, max_speed, turns, accelerations, skill, rewards, exits, limit
):
    """Any constants, not only the defaults; a whole small batch, the state copied across before every step."""
    core = make_core(
        "TagContinuous-v0",
        4,
        "cpu",
        seed=seed,
        autoreset="disabled",
        grid_length=grid_length,
        tagging_distance=tagging_distance,
        max_speed=max_speed,
        min_turn=turns[0],
        max_turn=turns[1],
        min_acceleration=accelerations[0],
        max_acceleration=accelerations[1],
        skill_level_tagger=skill,
        edge_hit_penalty=rewards[0],
        step_penalty_for_tagger=rewards[1],
        step_reward_for_runner=rewards[2],
        tag_reward_for_tagger=rewards[3],
        tag_penalty_for_runner=rewards[4],
        end_of_game_reward_for_runner=rewards[5],
        runner_exits_game_after_tagged=exits,
        episode_length=limit,
        **SIZES,
    )
    core.reset()
    for _ in range(min(limit, 4)):
        action = core.sample_actions()
        states = []
        for world in range(4):
            now = {name: tensor[world].numpy() for name, tensor in core.world_state.items()}
            kinematics = (now["direction"], now["speed"], now["acceleration"], core.alive[world].numpy())
            states.append(
                reference.initial(
                    core.config, now["pos"][:, 0], now["pos"][:, 1], *kinematics, t=int(core.elapsed_steps[world])
                )
            )
        obs, reward, terminated, truncated, _ = core.step(action)
        for world, state in enumerate(states):
            want = reference.step(state, action[world].numpy(), core.config)
            moved, _ = reference.move(state, action[world].numpy(), core.config)
            if sum(reference.near_threshold(moved, core.config, 4e-6)) + reference.near_wall(
                state, action[world].numpy(), core.config, 4e-6
            ):
                continue
            # features are differences over max_speed, which may be 0 here: compare relative to their size
            np.testing.assert_allclose(obs[world].numpy(), want.obs, atol=1e-5, rtol=1e-5)
            np.testing.assert_allclose(reward[world].numpy(), want.reward, atol=1e-5, rtol=1e-5)
            assert (terminated[world].numpy() == want.terminated).all()
            assert (truncated[world].numpy() == want.truncated).all()


@pytest.mark.parametrize("env_id", SMALL)
@settings(QUICK, max_examples=8)
@given(seed=SEEDS, offset=st.integers(0, 2**31 - 100), num_envs=st.integers(1, 40))
def test_any_seed_and_shard_gives_equal_results(env_id, seed, offset, num_envs):
    """Any seed, anywhere in the numbering of worlds: a world plays the same in a batch and alone, fused or phased."""
    last = num_envs - 1
    many = make_core(env_id, num_envs, "cpu", seed=seed, env_offset=offset, **SMALL[env_id])
    alone = make_core(env_id, 1, "cpu", seed=seed, env_offset=offset + last, schedule="phased", **SMALL[env_id])
    assert torch.equal(many.reset()[0][last:], alone.reset()[0])
    for _ in range(10):
        action = many.sample_actions()
        left, right = many.step(action), alone.step(action[last:])
        for a, b in zip(left[:4], right[:4], strict=True):
            assert torch.equal(a[last:], b)
        assert torch.isfinite(left[0]).all()
