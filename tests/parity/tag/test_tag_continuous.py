"""TagContinuous-v0 against the NumPy reference, with the state copied across before every step."""

import numpy as np
import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.references import tag_continuous as reference

TOLERANCE = 1e-5
# Agents rest on a lattice: exact ties of distance everywhere, runners exactly at a margin of 1 m.
STANDING = dict(
    num_taggers=3,
    num_runners=13,
    grid_length=4.0,
    max_speed=0.0,
    num_other_agents_observed=6,
    episode_length=4,
    starting_location_x=tuple(float(i % 4) for i in (5, 2, 11, *range(13))),
    starting_location_y=tuple(float(i // 4) for i in (5, 2, 11, *range(13))),
    starting_directions=(0.0,) * 16,
)
# name -> (settings, worlds, steps). Tag-heavy ones are among them; worlds x steps >= 1,000 in each.
CASES = {
    "tutorial 5": (dict(tagging_distance=0.05, episode_length=9), 20, 50),
    "one tagger, many tags": (
        dict(
            num_taggers=1,
            num_runners=9,
            grid_length=2.0,
            tagging_distance=0.2,
            num_other_agents_observed=4,
            episode_length=6,
        ),
        40,
        30,
    ),
    "all gone": (
        dict(
            num_taggers=3,
            num_runners=2,
            grid_length=1.0,
            tagging_distance=0.3,
            num_other_agents_observed=7,
            episode_length=6,
        ),
        60,
        20,
    ),
    "full, no exits": (
        dict(
            num_taggers=2,
            num_runners=4,
            grid_length=3.0,
            tagging_distance=0.15,
            use_full_observation=True,
            runner_exits_game_after_tagged=False,
            episode_length=10,
            skill_level_tagger=1.3,
            skill_level_runner=0.7,
        ),
        50,
        20,
    ),
    "full, exits, walls": (
        dict(
            num_taggers=2,
            num_runners=4,
            grid_length=1.0,
            tagging_distance=0.1,
            use_full_observation=True,
            edge_hit_penalty=-0.3,
            step_penalty_for_tagger=-0.02,
            step_reward_for_runner=0.03,
            episode_length=8,
            max_acceleration=0.3,
            min_acceleration=-0.2,
            num_turn_levels=5,
            max_turn=1.0,
            time_limit="truncation",
        ),
        50,
        20,
    ),
    "ties": (STANDING | dict(tagging_distance=0.25, runner_exits_game_after_tagged=False), 25, 40),
    "equal taggers": (STANDING | dict(tagging_distance=0.3), 25, 40),
    "equal taggers in cells": (STANDING | dict(tagging_distance=0.3, neighbor_search="grid"), 25, 40),
    "cells": (
        dict(
            num_taggers=9,
            num_runners=31,
            grid_length=6.0,
            tagging_distance=0.08,
            num_other_agents_observed=6,
            episode_length=9,
            neighbor_search="grid",
        ),
        20,
        50,
    ),
}


QUICK = {"all gone": 12, "ties": 5}
"""Cases of the quick tests, and their fewer worlds."""


def copy_world(core, world):
    """Return the state of one world of the core for the reference."""
    state = {name: tensor[world].numpy() for name, tensor in core.world_state.items()}
    return reference.initial(
        core.config,
        state["pos"][:, 0],
        state["pos"][:, 1],
        state["direction"],
        state["speed"],
        state["acceleration"],
        core.alive[world].numpy(),
        t=int(core.elapsed_steps[world]),
    )


@pytest.mark.parametrize(
    ("case", "worlds"),
    [*QUICK.items(), *(pytest.param(name, worlds, marks=pytest.mark.slow) for name, (_, worlds, _) in CASES.items())],
)
def test_transitions_equal_the_reference(case, worlds):
    settings, total, steps = CASES[case]
    share = worlds / total
    standing = settings.get("max_speed") == 0.0
    core = make_core("TagContinuous-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    config, taggers = core.config, core.config.num_taggers
    counts = dict.fromkeys(("tags", "several", "at T", "gone", "walls", "excused", "compared"), 0)
    for _ in range(steps):
        action = core.sample_actions()
        states = [copy_world(core, world) for world in range(worlds)]
        obs, reward, terminated, truncated, info = core.step(action)
        for world, state in enumerate(states):
            want = reference.step(state, action[world].numpy(), config)
            mine = (obs[world].numpy(), reward[world].numpy(), terminated[world].numpy(), truncated[world].numpy())
            worst = max(np.abs(mine[0] - want.obs).max(), np.abs(mine[1] - want.reward).max())
            agree = worst < TOLERANCE and (mine[2] == want.terminated).all() and (mine[3] == want.truncated).all()
            counts["compared"] += 1
            moved, hit = reference.move(state, action[world].numpy(), config)
            if not agree:
                near = reference.near_threshold(moved, config, 4e-6 if config.grid_length >= 16 else 1e-6)
                near_wall = reference.near_wall(state, action[world].numpy(), config)
                assert not standing, "exact ties leave no excuse"
                assert sum(near) + near_wall > 0, f"world {world}: off by {worst:.2e}, no decision is close"
                counts["excused"] += 1
            caught = core.world_state["caught_by"][world, taggers:].numpy()
            caught = caught[caught >= 0]
            counts["tags"] += len(caught)
            counts["several"] += bool(len(caught) > len(set(caught)))
            counts["at T"] += bool(len(caught) and want.state["t"] == config.episode_length)
            counts["gone"] += bool(want.state["t"] < config.episode_length and want.terminated[:taggers].any())
            counts["walls"] += bool(hit[state["alive"]].any())
        core.reset(reset_mask=~info["alive"].any(1))
    assert counts["compared"] >= 1000 * share
    assert counts["excused"] < 0.001 * counts["compared"] + 1e-9, counts
    assert counts["tags"] > 50 * share, counts
    assert counts["at T"] > 5 * share or "equal taggers" in case, counts
    if case == "one tagger, many tags" or "equal taggers" in case:
        assert counts["several"] > 20 * share, counts
    if case == "all gone":
        assert counts["gone"] > 10 * share, counts
    if not standing:
        assert counts["walls"] > 50 * share, counts


@pytest.mark.parametrize("full", [False, True])
def test_first_observation_equals_the_reference(full):
    """Also the observation after a reset, and after an autoreset, is the reference's of that state."""
    settings = dict(
        num_taggers=2,
        num_runners=5,
        grid_length=2.0,
        episode_length=3,
        num_other_agents_observed=4,
        use_full_observation=full,
    )
    core = make_core("TagContinuous-v0", 8, "cpu", seed=1, **settings)
    obs, _ = core.reset()
    for t in range(4):
        for world in range(8):
            if core.elapsed_steps[world] == 0:
                want = reference.observe(copy_world(core, world), core.config)
                np.testing.assert_allclose(obs[world].numpy(), want, atol=TOLERANCE, rtol=0)
        assert (core.elapsed_steps == 0).any() == (t in (0, 3))
        obs, *_ = core.step(core.sample_actions())


@pytest.mark.slow
def test_initial_states_are_distributed_as_in_the_reference():
    """Starts are random, one fixed layout, or given."""
    small = dict(num_taggers=1, num_runners=2, num_other_agents_observed=2)
    core = make_core("TagContinuous-v0", 4000, "cpu", seed=0, **small)
    core.reset()
    pos, direction = core.world_state["pos"].clone(), core.world_state["direction"]
    assert pos.min() >= 0
    assert pos.max() <= 20
    assert abs(pos.mean() - 10) < 0.15
    assert abs(pos.std() - 20 / 12**0.5) < 0.1
    quarters = torch.unique((direction / (torch.pi / 2)).round().int(), return_counts=True)
    assert quarters[0].tolist() == [0, 1, 2, 3]
    assert (quarters[1] - 3000).abs().max() < 200
    assert len(torch.unique(pos.flatten(1), dim=0)) == 4000
    core.reset()
    assert not torch.equal(pos, core.world_state["pos"])

    fixed = make_core("TagContinuous-v0", 5, "cpu", seed=0, fixed_start=True, **small)
    fixed.reset()
    layout = fixed.world_state["pos"].clone()
    assert (layout == layout[0]).all()
    fixed.reset()
    assert torch.equal(layout, fixed.world_state["pos"])
    fixed.reset(seed=1)
    assert not torch.equal(layout, fixed.world_state["pos"])

    placed = make_core(
        "TagContinuous-v0",
        2,
        "cpu",
        starting_location_x=(1.0, 2.0, 3.0),
        starting_location_y=(4.0, 5.0, 6.0),
        starting_directions=(0.0, 1.0, 2.0),
        **small,
    )
    placed.reset()
    assert placed.world_state["pos"][1].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert placed.world_state["direction"][0].tolist() == [0, 1, 2]


@pytest.mark.slow
def test_survivors_of_random_play_match():
    """22.6 +- 0.8 of 100 runners are left after 499 steps of random play from random starts, 53.2 +- 0.8 after 200."""
    core = make_core("TagContinuous-v0", 768, "cpu", seed=0, reuse_buffers=True)
    core.reset()
    generator = torch.Generator().manual_seed(0)
    for t in range(1, 500):
        core.step(torch.randint(0, 11, (768, 105, 2), generator=generator))
        if t in (200, 499):
            left = core.alive[:, 5:].sum(1).float().mean().item()
            assert abs(left - {200: 53.2, 499: 22.6}[t]) < 0.8, f"{left:.2f} runners left after {t} steps"
