"""SimpleTag-v0 against mpe2 1.1.1 itself, transition by transition, with the state copied across before every step."""

import numpy as np
import pytest
import torch
from mpe2 import simple_tag_v3

from gpu_envs.registry import make_core

TOLERANCE = 1e-5
SHAPES = {"default": (1, 3, 2, 5000), "crowd": (3, 4, 1, 600), "no obstacles": (2, 1, 0, 400)}


def random_worlds(rng, count, agents, obstacles):
    """Positions and velocities that make contacts, bounds penalties and speed caps common."""
    spread = rng.choice([0.15, 0.4, 1.0, 1.6], size=(count, 1, 1))
    pos = rng.uniform(-1, 1, (count, agents + obstacles, 2)) * spread
    vel = rng.uniform(-1.3, 1.3, (count, agents, 2)) * rng.choice([0.3, 1.0], size=(count, 1, 1))
    return pos.astype(np.float32), vel.astype(np.float32)


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize("shape", SHAPES)
def test_transitions(shape, continuous):
    good, adversaries, obstacles, count = SHAPES[shape]
    names = dict(num_good=good, num_adversaries=adversaries, num_obstacles=obstacles, continuous_actions=continuous)
    agents = good + adversaries
    rng = np.random.default_rng(0)
    pos, vel = random_worlds(rng, count, agents, obstacles)
    if continuous:
        action = torch.from_numpy(rng.uniform(0, 1, (count, agents, 5)).astype(np.float32))
    else:
        action = torch.from_numpy(rng.integers(0, 5, (count, agents)))

    core = make_core("SimpleTag-v0", count, "cpu", seed=0, max_cycles=10**6, **names)
    core.reset()
    core.world_state["pos"].copy_(torch.from_numpy(pos))
    core.world_state["vel"].copy_(torch.from_numpy(vel))
    obs, reward, terminated, truncated, _ = core.step(action)
    assert not (terminated | truncated).any()

    theirs = simple_tag_v3.parallel_env(max_cycles=10**6, **names)
    theirs.reset(seed=0)
    world = theirs.unwrapped.world
    assert theirs.possible_agents == list(core.possible_agents)
    errors, contacts, bounds, capped = [], 0, 0, 0
    for n in range(count):
        for index, entity in enumerate(world.entities):
            entity.state.p_pos = pos[n, index].astype(np.float64)
            entity.state.p_vel = vel[n, index].astype(np.float64) if index < agents else np.zeros(2)
        if not hasattr(theirs, "agents") or not theirs.agents:
            theirs.reset()
        their_obs, their_reward, their_term, their_trunc, _ = theirs.step(
            {a: action[n, i].numpy() for i, a in enumerate(core.possible_agents)}
        )
        for index, agent in enumerate(core.possible_agents):
            width = core.observation_spaces[agent].shape[0]
            assert their_obs[agent].shape == (width,)
            errors.append(np.abs(their_obs[agent] - obs[n, index, :width].numpy()).max())
            errors.append(abs(their_reward[agent] - reward[n, index].item()))
            assert not obs[n, index, width:].any()
            assert not any((their_term[agent], their_trunc[agent]))
            speed = np.linalg.norm(world.agents[index].state.p_vel)
            capped += abs(speed - world.agents[index].max_speed) < 1e-9
        contacts += their_reward["adversary_0"] > 0
        bounds += any(np.abs(a.state.p_pos).max() > 0.9 for a in world.agents[adversaries:])
    assert max(errors) < TOLERANCE, f"largest error {max(errors):.2e}"
    # the cases that matter were there
    assert contacts > count / 20
    assert bounds > count / 10
    assert capped > count / 10


@pytest.mark.parametrize("max_cycles", [1, 25])
def test_episode_ends_like_mpe2(max_cycles):
    core = make_core("SimpleTag-v0", 1, "cpu", seed=0, max_cycles=max_cycles, autoreset="disabled")
    theirs = simple_tag_v3.parallel_env(max_cycles=max_cycles)
    core.reset()
    theirs.reset(seed=0)
    for _ in range(max_cycles):
        *_, their_term, their_trunc, _ = theirs.step(dict.fromkeys(theirs.agents, 0))
        _, _, terminated, truncated, _ = core.step(torch.zeros((1, 4), dtype=torch.int64))
        assert terminated[0].tolist() == list(their_term.values())
        assert truncated[0].tolist() == list(their_trunc.values())
    assert truncated.all()


def test_spaces_match():
    for continuous in (False, True):
        core = make_core("SimpleTag-v0", 1, "cpu", continuous_actions=continuous)
        theirs = simple_tag_v3.parallel_env(continuous_actions=continuous)
        for agent in core.possible_agents:
            assert core.observation_spaces[agent] == theirs.observation_space(agent)
            assert core.action_spaces[agent] == theirs.action_space(agent)


def test_start_distribution():
    """Agents start uniform in [-1, 1)^2, obstacles in [-0.9, 0.9)^2, all at rest; no two worlds alike."""
    core = make_core("SimpleTag-v0", 20_000, "cpu", seed=3)
    core.reset()
    pos = core.world_state["pos"]
    assert not core.world_state["vel"].any()
    for rows, half in ((slice(0, 4), 1.0), (slice(4, 6), 0.9)):
        part = pos[:, rows]
        assert part.abs().max() < half
        assert part.abs().max() > 0.99 * half
        assert part.mean().abs() < 0.01
        assert abs(part.std().item() - half / 3**0.5) < 0.01
    assert len(torch.unique(pos[:, 0], dim=0)) == 20_000
