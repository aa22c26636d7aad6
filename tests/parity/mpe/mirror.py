"""Comparison of a core with mpe2 over episodes; worlds are copied to mpe2 before every step."""

from collections import Counter

import numpy as np
import pytest
import torch

few_or_all = pytest.mark.parametrize(
    ("worlds", "continuous"),
    [(30, False), *(pytest.param(200, value, marks=pytest.mark.slow) for value in (False, True))],
    ids=["few", "discrete", "continuous"],
)
"""Episodes of 25 steps with either kind of actions: few worlds in the quick suite, all of them in the slow one."""


def first_of(settings, few, many):
    """Return settings and numbers of worlds: the first settings with few worlds, and slow ones, all with many."""
    return [(settings[0], few), *(pytest.param(case, many, marks=pytest.mark.slow) for case in settings)]


def nothing(*_):
    """Do nothing, as a hook."""


def scatter(core, step, resting=()):
    """Rearrange every second world at one of several densities, with velocities; rows in ``resting`` stay at rest."""
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


def play(core, steps, prepare, act):
    """Step a core without autoreset; yield the data before and after every step as NumPy."""
    story = []
    for step in range(steps):
        prepare(core, step)
        previous = {name: values.numpy().copy() for name, values in core.world_state.items()}
        action = act()
        obs, reward, terminated, truncated, info = core.step(action)
        after = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, "action": action}
        after |= {name: info[name] for name in ("valid", "benchmark_data") if name in info}
        data = {name: values.numpy() for name, values in after.items()}
        data |= {f"state.{name}": values.numpy().copy() for name, values in core.world_state.items()}
        story.append((previous, data))
    return story


def compare(
    core,
    theirs,
    steps=25,
    prepare=nothing,
    begin=nothing,
    set_world=nothing,
    set_draws=nothing,
    count_cases=nothing,
    act=None,
):
    """Play every world of the core in mpe2 too, and compare the results.

    Args:
        core: Without autoreset; it is reset here.
        theirs: mpe2's parallel environment.
        steps: How many; at least as many as an episode has, to see its end.
        prepare: ``prepare(core, step)`` may change the core's worlds before a step.
        begin: ``begin(theirs, env)``, before mpe2 starts the episode of a world.
        set_world: ``set_world(world, state)`` copies what is more than places and velocities into mpe2's world.
        set_draws: ``set_draws(world, previous, after, env)`` makes mpe2 draw what the core drew in a step; ``after``
            has its state under "state.NAME".
        count_cases: ``count_cases(world, tally, rewards)`` counts cases that matter, in mpe2's world after a step.
        act: Returns the actions; None: the core's random ones.

    Returns:
        The largest error of observations, rewards and benchmark data, and the tally.
    """
    agents = list(core.possible_agents)
    assert theirs.possible_agents == agents
    first = core.reset()[0].numpy().copy()
    fresh = {name: values.numpy().copy() for name, values in core.world_state.items()}
    story, tally, errors = play(core, steps, prepare, act or core.sample_actions), Counter(), []

    def set_state(world, state):
        for row, entity in enumerate(world.entities if "pos" in state else ()):
            entity.state.p_pos = state["pos"][row].astype(np.float64)
            entity.state.p_vel = state["vel"][row].astype(np.float64) if row < len(agents) else np.zeros(world.dim_p)
        set_world(world, state)

    def hold(mine, agent, expected):
        """Compare the observation of one agent, padding included."""
        assert expected.dtype == np.float32
        assert core.observation_spaces[agent].shape == expected.shape
        errors.append(np.abs(mine[: len(expected)] - expected).max())
        assert not mine[len(expected) :].any()

    for env in range(core.num_envs):
        begin(theirs, env)
        theirs.reset(seed=env)
        world = theirs.unwrapped.world
        set_state(world, {name: values[env] for name, values in fresh.items()})
        for row, agent in enumerate(agents):
            hold(first[env, row], agent, theirs.unwrapped.observe(agent))
        for previous, after in story:
            assert set(theirs.agents) == {agents[row] for row in np.flatnonzero(after["valid"][env])}
            if not theirs.agents:
                break
            set_state(world, {name: values[env] for name, values in previous.items()})
            set_draws(world, previous, after, env)
            chosen = {}
            for row, agent in enumerate(agents):
                space = core.action_spaces[agent]
                chosen[agent] = after["action"][env, row][tuple(slice(size) for size in space.shape)]
                assert space.contains(chosen[agent])
            obs, reward, terminated, truncated, info = theirs.step(chosen)
            for row, agent in enumerate(agents):
                hold(after["obs"][env, row], agent, obs[agent])
                errors.append(abs(reward[agent] - after["reward"][env, row]))
                assert terminated[agent] == after["terminated"][env, row]
                assert truncated[agent] == after["truncated"][env, row]
                assert ("benchmark_data" in info[agent]) == ("benchmark_data" in after)
                if "benchmark_data" in after:
                    benchmark = info[agent]["benchmark_data"]  # a number, a tuple, or an empty dict
                    benchmark = np.atleast_1d([] if benchmark == {} else np.ravel(benchmark))
                    figures = after["benchmark_data"][env, row]
                    errors.append(np.abs(figures[: len(benchmark)] - benchmark).max(initial=0.0))
                    assert not figures[len(benchmark) :].any()
                    tally["benchmark"] += bool(benchmark.any())
            tally["steps"] += 1
            tally["terminated"] += all(terminated.values())
            tally["truncated"] += all(truncated.values())
            count_cases(world, tally, reward)
    return max(errors), tally


def assert_uniform(values, half):
    """Assert that coordinates are uniform in [-half, half), with independent axes."""
    values = values.reshape(-1, 2)
    assert values.abs().max() < half
    assert values.abs().max() > 0.99 * half
    means = values.mean(0) if len(values) >= 20_000 else values.mean()  # of fewer points both axes together
    assert means.abs().max() < 0.02 * half
    assert abs(values.std().item() - half / 3**0.5) < 0.01
    assert abs(torch.corrcoef(values.T)[0, 1].item()) < 0.03


def assert_even(drawn, count):
    """Whole numbers 0 .. count - 1 (n,) come up equally often."""
    shares = torch.bincount(drawn.long(), minlength=count) / len(drawn)
    assert len(shares) == count
    assert (shares - 1 / count).abs().max() < 0.015
