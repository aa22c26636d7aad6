"""Whole episodes of a core played again in mpe2, the core's world copied across before every step."""

from collections import Counter

import numpy as np
import torch

from gpu_envs.definition.registry import find
from gpu_envs.utils.settings import build_config


def scatter(core, resting=()):
    """Rearrange every second world at one of several densities, with velocities; rows in ``resting`` stay at rest."""

    def disturb(step):
        if step % 5:
            return
        rng = np.random.default_rng(step)
        pos, vel = core.world_state["pos"][1::2], core.world_state["vel"][1::2]
        count = len(pos)
        spread = rng.choice([0.15, 0.4, 1.0, 1.6], size=(count, 1, 1))
        speed = rng.choice([0.3, 1.8], size=(count, 1, 1))
        pos.copy_(torch.from_numpy(rng.uniform(-1, 1, pos.shape) * spread))
        vel.copy_(torch.from_numpy(rng.uniform(-1, 1, vel.shape) * speed))
        vel[:, list(resting)] = 0

    return disturb


def compare(core, theirs, set_world, count_cases, disturb=lambda step: None, act=None, steps=25):
    """Play every world of the core, without autoreset, and the same in mpe2.

    Args:
        core: Made with ``autoreset="disabled"``; it is reset here.
        theirs: mpe2's parallel environment of the same settings.
        set_world: ``set_world(world, state)`` brings a world's State, as NumPy, into mpe2's.
        count_cases: ``count_cases(world, rewards, tally)`` counts cases that matter in mpe2's world, after every step.
        disturb: ``disturb(step)`` may change the core's State before a step.
        act: Gives the actions; None: the core's random ones.
        steps: Length of an episode.

    Returns:
        The largest error of any observation, reward or benchmark figure, and the tally.
    """
    agents = list(core.possible_agents)
    assert theirs.possible_agents == agents
    assert core.num_envs * steps >= 25
    first, _ = core.reset()
    fresh = {name: values.numpy().copy() for name, values in core.world_state.items()}
    story = []
    for step in range(steps):
        disturb(step)
        previous = {name: values.numpy().copy() for name, values in core.world_state.items()}
        action = core.sample_actions() if act is None else act()
        story.append((previous, action.numpy(), core.step(action)))

    tally, errors = Counter(), []

    def hold(mine, row, expected):
        """Compare the observation of one agent, padding included."""
        assert expected.dtype == np.float32
        assert core.observation_spaces[agents[row]].shape == expected.shape
        errors.append(np.abs(mine[: len(expected)].numpy() - expected).max())
        assert not mine[len(expected) :].any()

    for env in range(core.num_envs):
        theirs.reset(seed=env)
        world = theirs.unwrapped.world
        set_world(world, {name: values[env] for name, values in fresh.items()})
        for row, agent in enumerate(agents):
            hold(first[env, row], row, theirs.unwrapped.observe(agent))
        for previous, action, (obs, reward, terminated, truncated, info) in story:
            set_world(world, {name: values[env] for name, values in previous.items()})
            chosen = {}
            for row, agent in enumerate(agents):
                chosen[agent] = action[env, row][tuple(slice(size) for size in core.action_spaces[agent].shape)]
                assert core.action_spaces[agent].contains(chosen[agent])
            their_obs, their_reward, their_terminated, their_truncated, their_info = theirs.step(chosen)
            for row, agent in enumerate(agents):
                hold(obs[env, row], row, their_obs[agent])
                errors.append(abs(their_reward[agent] - reward[env, row].item()))
                assert their_terminated[agent] == terminated[env, row]
                assert their_truncated[agent] == truncated[env, row]
                assert ("benchmark_data" in their_info[agent]) == ("benchmark_data" in info)
                if "benchmark_data" in info:
                    benchmark = their_info[agent]["benchmark_data"]  # {} if the scenario of mpe2 has no benchmark data
                    figures = np.zeros(0) if benchmark == {} else np.ravel(benchmark)
                    mine = info["benchmark_data"][env, row].numpy()
                    assert mine.shape == figures.shape
                    errors += list(np.abs(mine - figures))
                    tally["benchmark"] += bool(figures.any())
            tally["steps"] += 1
            tally["truncated"] += all(their_truncated.values())
            count_cases(world, their_reward, tally)
        assert not theirs.agents
    return max(errors), tally


def assert_spaces_match(env_id, theirs, **settings):
    """Agents, their order and all spaces are mpe2's."""
    kind, build = find(env_id).load()
    mine = build(build_config(kind, settings, env_id))
    assert list(mine.agents) == theirs.possible_agents
    for agent in mine.agents:
        assert mine.observation_spaces[agent] == theirs.observation_space(agent)
        assert mine.action_spaces[agent] == theirs.action_space(agent)
    assert not mine.global_state_size  # the observations, joined, as mpe2's state is


def assert_uniform(values, half):
    """Assert that coordinates (n, 2) are uniform in [-half, half)^2, with independent axes."""
    assert values.abs().max() < half
    assert values.abs().max() > 0.99 * half
    assert values.mean(0).abs().max() < 0.02 * half
    assert abs(values.std().item() - half / 3**0.5) < 0.01
    assert abs(torch.corrcoef(values.T)[0, 1].item()) < 0.03


def assert_even(drawn, count):
    """Whole numbers 0 .. count - 1 (n,) come up equally often."""
    shares = torch.bincount(drawn.long(), minlength=count) / len(drawn)
    assert len(shares) == count
    assert (shares - 1 / count).abs().max() < 0.015
