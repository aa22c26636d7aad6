"""Comparison of a core with mpe2 over episodes; worlds are copied to mpe2 before every step."""

from collections import Counter

import numpy as np
import torch


def nothing(*_):
    """Do nothing, as a hook."""


def closer(core, step, interval=5):
    """Rearrange the worlds every few steps, as a prepare hook, so that contacts and fast agents are common."""
    if step % interval == 0:
        rng = np.random.default_rng(step)
        count, pos, vel = core.num_envs, core.world_state["pos"], core.world_state["vel"]
        spread = rng.choice([0.08, 0.15, 0.4, 1.0, 1.6], size=(count, 1, 1))
        quick = rng.choice([0.3, 1.0], size=(count, 1, 1))
        pos.copy_(torch.from_numpy(rng.uniform(-1, 1, pos.shape) * spread))
        vel.copy_(torch.from_numpy(rng.uniform(-1.3, 1.3, vel.shape) * quick))


def free_the_stage(monkeypatch, scenario):
    """Let mpe2's ``set_curriculum_stage`` work on a Scenario class.

    In 1.1.1 it has no effect: the base class has the stage as a property that is always 0, and ignores assignments.
    A plain attribute in its place is what the scenarios were written for.
    """
    assert isinstance(vars(scenario.__mro__[1])["curriculum_stage"], property)
    monkeypatch.setattr(scenario, "curriculum_stage", 0, raising=False)


def play(core, steps, prepare):
    """Step a core without autoreset at random; yield the data before and after every step as NumPy."""
    core.reset()
    story = []
    for step in range(steps):
        prepare(core, step)
        previous = {name: values.numpy().copy() for name, values in core.world_state.items()}
        action = core.sample_actions()
        obs, reward, terminated, truncated, info = core.step(action)
        after = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, "action": action}
        after |= {name: info[name] for name in ("valid", "benchmark_data") if name in info}
        data = {name: values.numpy() for name, values in after.items()}
        data |= {f"state.{name}": values.numpy().copy() for name, values in core.world_state.items()}
        story.append((previous, data))
    return story


def compare(
    core, theirs, steps=25, prepare=nothing, begin=nothing, set_world=nothing, set_draws=nothing, count_cases=nothing
):
    """Play every world of the core in mpe2 too, and compare the results.

    Args:
        core: Without autoreset.
        theirs: mpe2's parallel environment.
        steps: How many; at least as many as an episode has, to see its end.
        prepare: ``prepare(core, step)`` may change the core's worlds before a step.
        begin: ``begin(theirs, env)``, before mpe2 starts the episode of a world.
        set_world: ``set_world(world, state, env)`` copies what is more than places and velocities into mpe2's world.
        set_draws: ``set_draws(world, previous, after, env)`` makes mpe2 draw what the core drew in a step; ``after``
            has its state under "state.NAME".
        count_cases: ``count_cases(world, tally, rewards)`` counts cases that matter, in mpe2's world after a step.

    Returns:
        The largest error of observations, rewards and benchmark data, and the tally.
    """
    agents = list(core.possible_agents)
    assert theirs.possible_agents == agents
    story, tally, worst = play(core, steps, prepare), Counter(), 0.0
    for env in range(core.num_envs):
        begin(theirs, env)
        theirs.reset(seed=env)
        world = theirs.unwrapped.world
        for previous, after in story:
            assert set(theirs.agents) == {agents[row] for row in np.flatnonzero(after["valid"][env])}
            if not theirs.agents:
                break
            for row, entity in enumerate(world.entities):
                entity.state.p_pos = previous["pos"][env, row].astype(np.float64)
                entity.state.p_vel = (
                    previous["vel"][env, row].astype(np.float64) if row < len(agents) else np.zeros(world.dim_p)
                )
            set_world(world, previous, env)
            set_draws(world, previous, after, env)
            obs, reward, terminated, truncated, info = theirs.step(
                {agent: after["action"][env, row] for row, agent in enumerate(agents)}
            )
            for row, agent in enumerate(agents):
                mine, width = after["obs"][env, row], len(obs[agent])
                assert core.observation_spaces[agent].shape == (width,)
                worst = max(
                    worst, np.abs(obs[agent] - mine[:width]).max(), abs(reward[agent] - after["reward"][env, row])
                )
                assert not mine[width:].any()
                assert terminated[agent] == after["terminated"][env, row]
                assert truncated[agent] == after["truncated"][env, row]
                if "benchmark_data" in after:
                    benchmark = info[agent]["benchmark_data"]  # a number, a tuple, or an empty dict
                    benchmark = np.atleast_1d([] if benchmark == {} else benchmark)
                    figures = after["benchmark_data"][env, row]
                    worst = max(worst, np.abs(figures[: len(benchmark)] - benchmark).max(initial=0.0))
                    assert not figures[len(benchmark) :].any()
                    tally["benchmark"] += bool(benchmark.any())
            tally["steps"] += 1
            tally["terminated"] += all(terminated.values())
            tally["truncated"] += all(truncated.values())
            count_cases(world, tally, reward)
    return worst, tally


def assert_same_spaces(core, theirs):
    """Assert that agents, their order and all spaces equal mpe2's."""
    assert list(core.possible_agents) == theirs.possible_agents
    for agent in core.possible_agents:
        assert core.observation_spaces[agent] == theirs.observation_space(agent)
        assert core.action_spaces[agent] == theirs.action_space(agent)
    assert core.state().shape[1:] == theirs.unwrapped.state_space.shape


def assert_uniform(values, half):
    """Assert that coordinates are uniform in [-half, half), with independent axes."""
    assert values.abs().max() < half
    assert values.abs().max() > 0.99 * half
    assert values.mean().abs() < 0.02 * half
    assert abs(values.std().item() - half / 3**0.5) < 0.01
    assert abs(torch.corrcoef(values.reshape(-1, 2).T)[0, 1].item()) < 0.03
