"""TagContinuous-v0 and TagGridworld-v0 against the Python classes of WarpDrive 2.7.1, step by step."""

from unittest import mock

import numpy as np
import pytest
import torch
from example_envs.tag_continuous.tag_continuous import TagContinuous
from example_envs.tag_gridworld.tag_gridworld import TagGridWorld
from parity.references.tag_continuous import Config, action_tables

from gpu_envs.runtime.factory import make_core

TOLERANCE = 1e-5
CONTINUOUS = {
    "tutorial 5": dict(
        num_taggers=5, num_runners=25, grid_length=20.0, episode_length=60, max_acceleration=0.1, min_acceleration=-0.1,
        max_turn=2.35, min_turn=-2.35, use_full_observation=False, num_other_agents_observed=10, tagging_distance=0.05,
    ),
    "full, exits, walls": dict(
        num_taggers=2, num_runners=6, grid_length=3.0, episode_length=20, max_acceleration=0.3, min_acceleration=-0.2,
        num_turn_levels=5, tagging_distance=0.1, edge_hit_penalty=-0.3, step_penalty_for_tagger=-0.02,
        step_reward_for_runner=0.03, skill_level_tagger=1.3, skill_level_runner=0.7,
    ),
    "no exits": dict(
        num_taggers=3, num_runners=5, grid_length=4.0, episode_length=30, tagging_distance=0.15,
        use_full_observation=False, num_other_agents_observed=3, runner_exits_game_after_tagged=False,
    ),
}  # fmt: skip
GRID = {
    "default": {},
    "partial": dict(num_taggers=3, grid_length=3, episode_length=7, use_full_observation=False),
    "small": dict(num_taggers=2, grid_length=2, episode_length=20, wall_hit_penalty=0.4, tag_penalty_for_runner=5.0),
}
WORLDS, STEPS = 8, 150
DEFAULTS = dict(
    tag_reward_for_tagger=1.0, tag_penalty_for_runner=-1.0, max_acceleration=1.0, min_acceleration=-1.0,
    max_turn=np.pi / 2, min_turn=-np.pi / 2, use_full_observation=True, num_other_agents_observed=2,
)  # fmt: skip
"""Defaults of the original's class that differ from those of TagContinuous-v0."""


def make_continuous(settings, rng):
    """Return an original with a random start, whose taggers are its first agents."""
    count, length = settings["num_taggers"] + settings["num_runners"], settings["grid_length"]
    start = dict(
        starting_location_x=rng.uniform(0, length, count),
        starting_location_y=rng.uniform(0, length, count),
        starting_directions=rng.choice([0, np.pi / 2, np.pi, np.pi * 3 / 2], count),
    )
    with mock.patch.object(np.random, "choice", return_value=np.arange(settings["num_taggers"])):
        env = TagContinuous(**settings, **start)
    env.reset()
    return env


def put(core, originals):
    """Give every world of a core the state of an original."""
    state, clock = core.get_state(), [env.timestep for env in originals]

    def column(name):
        rows = [env.global_state[name][env.timestep] for env in originals]
        return torch.from_numpy(np.array(rows))

    pos = torch.stack([column("loc_x"), column("loc_y")], -1)
    if "state.cell" in state:
        state["state.cell"] = pos.int()
    else:
        state["state.pos"] = pos.float()
        for name in ("speed", "acceleration", "direction"):
            state[f"state.{name}"] = column(name).float()
        state["io.alive"] = column("still_in_the_game").bool()
    state["io.step"] = torch.tensor(clock, dtype=torch.int32)
    core.set_state(state)


def step(env, action):
    """Return observations (A, D), rewards (A,) and the end of an original."""
    obs, reward, done, _ = env.step(dict(enumerate(action)))
    agents = range(env.num_agents)
    return np.array([obs[agent] for agent in agents]), np.array([reward[agent] for agent in agents]), done["__all__"]


def differences(settings, tables=None):
    """Step originals at random, and a core from the same states; return counts of agents' steps by kind.

    All results must agree, in worlds in which no agent stops or turns otherwise by the rounding of the tables.
    """
    rng = np.random.default_rng(0)
    originals = [make_continuous(settings, rng) for _ in range(WORLDS)]
    for env in originals:
        if tables is not None:
            env.acceleration_actions, env.turn_actions = tables
    core = make_core("TagContinuous-v0", WORLDS, "cpu", seed=0, autoreset="disabled", **DEFAULTS | settings)
    core.reset()
    counts = dict.fromkeys(("steps", "stopped", "turned", "tags", "ends", "walls"), 0)
    for _ in range(STEPS):
        put(core, originals)
        alive = core.alive.numpy().copy()
        action = core.sample_actions()
        obs, reward, *_, info = core.step(action)
        mine = {name: tensor.numpy() for name, tensor in core.world_state.items()}
        for world, env in enumerate(originals):
            runners = env.num_runners
            want_obs, want_reward, done = step(env, action[world].numpy())
            now = {name: values[env.timestep] for name, values in env.global_state.items()}
            rows = alive[world]
            # A rounded sum is 0 or the top speed, or next to it: the acceleration is set to 0, or not.
            stopped = rows & (np.abs(mine["acceleration"][world] - now["acceleration"]) > TOLERANCE)
            speeds, top = np.stack([mine["speed"][world], now["speed"]]), env.max_speed * np.array(env.skill_levels)
            assert ((speeds == 0) | (speeds == top)).any(0)[stopped].all()
            np.testing.assert_allclose(speeds[0], speeds[1], atol=TOLERANCE)
            # A direction is 0, or next to a full turn.
            turned = rows & (np.abs(mine["direction"][world] - now["direction"]) > TOLERANCE)
            angles = np.stack([mine["direction"][world], now["direction"]])[:, turned]
            np.testing.assert_allclose(angles.max(0) - angles.min(0), 2 * np.pi, atol=TOLERANCE)
            counts["steps"] += rows.sum()
            counts["stopped"] += stopped.sum()
            counts["turned"] += turned.sum()
            if not (stopped | turned).any():
                np.testing.assert_allclose(obs[world].numpy()[rows], want_obs[rows], atol=TOLERANCE)
                np.testing.assert_allclose(reward[world].numpy()[rows], want_reward[rows], atol=TOLERANCE)
                assert (not info["alive"][world].any()) == done
            counts["tags"] += runners - env.num_runners + (want_reward[: env.num_taggers] >= 1).sum()
            counts["walls"] += (env.edge_hit_reward_penalty[rows] < 0).sum()
            counts["ends"] += done
            if done:
                env.reset()
        core.reset(reset_mask=~info["alive"].any(1))
    return counts


def tables_in_float64(settings):
    """Return the accelerations and turns of settings, computed in float64 and rounded once."""
    return action_tables(Config(**DEFAULTS | settings))


@pytest.mark.parametrize("case", CONTINUOUS)
def test_tag_continuous_equals_the_original_with_tables_in_float64(case):
    settings = CONTINUOUS[case]
    counts = differences(settings, tables_in_float64(settings))
    assert counts["stopped"] == counts["turned"] == 0, counts
    assert min(counts["tags"], counts["ends"]) >= 3, counts
    assert counts["walls"] >= 3 or "walls" not in case, counts


def test_tag_continuous_differs_from_the_original_by_its_tables_in_few_steps():
    counts = differences(CONTINUOUS["no exits"])
    share = (counts["stopped"] + counts["turned"]) / counts["steps"]
    assert counts["stopped"] >= 1, counts
    assert counts["turned"] >= 1, counts
    assert share < 0.005, counts


@pytest.mark.parametrize("case", GRID)
def test_tag_gridworld_equals_the_original(case):
    rng, settings = np.random.default_rng(0), GRID[case]
    core = make_core("TagGridworld-v0", WORLDS, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    count, length = core.num_agents, core.config.grid_length
    starts = rng.integers(0, length + 1, (WORLDS, 2, count)).astype(float)
    originals = [TagGridWorld(**settings, starting_location_x=x, starting_location_y=y) for x, y in starts]
    tags = ends = walls = 0
    for env in originals:
        env.reset()
    for _ in range(STEPS):
        put(core, originals)
        action = core.sample_actions()
        obs, reward, *_, info = core.step(action)
        cells = core.world_state["cell"].numpy()
        for world, env in enumerate(originals):
            want_obs, want_reward, done = step(env, action[world].numpy())
            np.testing.assert_allclose(obs[world].numpy(), want_obs, atol=TOLERANCE)
            np.testing.assert_allclose(reward[world].numpy(), want_reward, atol=TOLERANCE)
            now = [env.global_state[name][env.timestep] for name in ("loc_x", "loc_y")]
            np.testing.assert_array_equal(cells[world], np.stack(now, -1))
            assert (not info["alive"][world].any()) == done
            tags += want_reward[0] > 1
            walls += (env.reward_penalty < 0).any()
            ends += done
            if done:
                env.reset()
        core.reset(reset_mask=~info["alive"].any(1))
    assert min(tags, ends, walls) >= 3, (tags, ends, walls)
