"""MultiCartPole-v0 against one CartPole-v1 of Gymnasium 1.4.0 per agent, and against CartPole-v1 of this library."""

import gymnasium
import numpy as np
import pytest
import torch

import gpu_envs
from gpu_envs.runtime.factory import make_core
from parity.classic import originals

TOLERANCE = 1e-6
AGENTS = 3
CASES = {
    "default": ({}, {}),
    "sutton and barto": ({"sutton_barto_reward": True}, {"_sutton_barto_reward": True}),
    "another cart": (
        {"gravity": 3.7, "length": 0.7, "force_mag": 6.0, "kinematics_integrator": "semi-implicit euler"},
        {"gravity": 3.7, "length": 0.7, "polemass_length": 0.07, "force_mag": 6.0, "kinematics_integrator": "other"},
    ),
}


def references(attributes, worlds):
    """Return an environment of Gymnasium per agent of each world."""
    rows = []
    for _ in range(worlds):
        rows.append([gymnasium.make("CartPole-v1").unwrapped for _ in range(AGENTS)])
        for env in rows[-1]:
            env.reset(seed=0)
            for name, value in attributes.items():
                assert hasattr(env, name), name
                setattr(env, name, value)
    return rows


@pytest.mark.parametrize("case", CASES)
def test_every_agent_equals_a_reference_of_its_own(case):
    """Agents act at random: their poles fall one by one, and those that have fallen wait for the others."""
    settings, attributes = CASES[case]
    worlds, steps, limit = 8, 60, 25
    core = make_core(
        "MultiCartPole-v0", worlds, "cpu", seed=0, num_agents=AGENTS, max_episode_steps=limit, autoreset="disabled",
        **settings,
    )  # fmt: skip
    core.reset()
    theirs, alive = references(attributes, worlds), np.ones((worlds, AGENTS), bool)
    counts = dict.fromkeys(("falls", "waits", "limits"), 0)
    for _ in range(steps):
        action, previous = core.sample_actions(), core.world_state["motion"].numpy().copy()
        clock = core.elapsed_steps.numpy().copy()
        obs, reward, terminated, truncated, info = core.step(action)
        for world, agent in np.ndindex(worlds, AGENTS):
            flags = (bool(terminated[world, agent]), bool(truncated[world, agent]))
            if not alive[world, agent]:
                assert flags == (False, False)
                assert reward[world, agent] == 0
                assert not obs[world, agent].any()
                assert (core.world_state["motion"][world, agent].numpy() == previous[world, agent]).all()
                counts["waits"] += 1
                continue
            env = theirs[world][agent]
            originals.put(env, previous[world, agent])
            their_obs, their_reward, fell, _, _ = env.step(int(action[world, agent]))
            np.testing.assert_allclose(obs[world, agent].numpy(), their_obs, atol=TOLERANCE, rtol=0)
            assert reward[world, agent].item() == their_reward
            at_limit = clock[world] + 1 == limit
            assert flags == (fell, bool(at_limit and not fell))
            counts["falls"] += fell
            counts["limits"] += flags[1]
        alive = info["alive"].numpy().copy()
        over = torch.from_numpy(~alive.any(1))
        core.reset(reset_mask=over)
        alive |= over.numpy()[:, None]
    assert min(counts.values()) > 10, counts


def test_every_agent_equals_cartpole_bit_for_bit():
    worlds, motion = 64, torch.empty(64, AGENTS, 4).uniform_(-0.2, 0.2, generator=torch.Generator().manual_seed(1))
    many = make_core("MultiCartPole-v0", worlds, "cpu", seed=0, num_agents=AGENTS, autoreset="disabled")
    cartpole = make_core("CartPole-v1", worlds * AGENTS, "cpu", seed=0, autoreset="disabled")
    for core in (many, cartpole):
        core.reset()
    many.world_state["motion"].copy_(motion)
    cartpole.world_state["motion"].copy_(motion.view(-1, 4))
    falls = 0
    for _ in range(12):
        action, alive = many.sample_actions(), many.alive.clone()
        obs, reward, terminated, _, _ = many.step(action)
        assert alive.any(1).all()
        cartpole.reset(reset_mask=~cartpole.alive[:, 0])  # its episode is over; the agent waits here
        single = cartpole.step(action.view(-1, 1))
        same = alive.view(-1)
        assert torch.equal(obs.view(-1, 4)[same], single[0][same, 0])
        assert torch.equal(reward.view(-1)[same], single[1][same, 0])
        assert torch.equal(terminated.view(-1)[same], single[2][same, 0])
        falls += int(terminated.sum())
        if not many.alive.any(1).all():
            break
    assert falls > 20


def test_spaces_are_those_of_cartpole():
    core, theirs = make_core("MultiCartPole-v0", 1, "cpu"), gymnasium.make("CartPole-v1")
    assert core.possible_agents == ("agent_0", "agent_1", "agent_2", "agent_3")
    for agent in core.possible_agents:
        assert core.observation_spaces[agent] == theirs.observation_space
        assert core.action_spaces[agent] == theirs.action_space


def test_initial_states_are_independent_of_each_other():
    core = make_core("MultiCartPole-v0", 20_000, "cpu", seed=7, num_agents=AGENTS, max_episode_steps=1)
    first = core.reset()[0]
    second = core.step(core.sample_actions())[0]
    motion = torch.cat([first, second]).flatten(1).numpy()  # all numbers of all agents
    originals.independent(motion)
    for column in motion.T:
        originals.uniform(column, -0.05, 0.05)


def test_options_of_a_reset_change_the_range_of_all_agents():
    env = gpu_envs.parallel_env("MultiCartPole-v0", num_agents=AGENTS)
    observations, _ = env.reset(seed=0, options={"low": 0.01, "high": 0.02})
    assert len(observations) == AGENTS
    for obs in observations.values():
        assert (obs >= 0.01).all()
        assert (obs < 0.02).all()


def test_carts_are_drawn_in_rows_and_fallen_ones_are_faint():
    core = make_core("MultiCartPole-v0", 2, "cpu", seed=0, num_agents=5, autoreset="disabled")
    core.reset()
    core.world_state["motion"][1, 2, 2] = 1.0
    core.step(core.sample_actions())
    scene = core.definition.draw(core, torch.arange(2))
    places = scene.places[1]
    assert len({(round(x, 1), round(y, 1)) for x, y, _ in places.tolist()}) == 5
    assert places[3, 1] < places[0, 1]  # the second row is below the first
    opacity = scene.agents[1, :, 9]
    assert (opacity[2] < opacity[[0, 1, 3, 4]]).all()
    bounds = scene.bounds[1]
    assert (places[:, 0] > bounds[0]).all()
    assert (places[:, 0] < bounds[2]).all()
    assert (bounds[2] - bounds[0]) / (bounds[3] - bounds[1]) == pytest.approx(1.5)  # three columns, two rows
