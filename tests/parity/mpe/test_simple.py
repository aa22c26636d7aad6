"""Simple-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step."""

import pytest
from mpe2 import simple_v3

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5


@mirror.few_or_all
def test_episodes_equal_the_reference(worlds, continuous):
    core = make_core("Simple-v0", worlds, "cpu", seed=0, autoreset="disabled", continuous_actions=continuous)

    def count_cases(world, tally, rewards):
        tally["near"] += rewards["agent_0"] > -0.01
        tally["far"] += rewards["agent_0"] < -1.0

    theirs = simple_v3.parallel_env(continuous_actions=continuous)
    worst, tally = mirror.compare(core, theirs, prepare=mirror.closer, count_cases=count_cases)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    assert tally["near"] > 0.5 * worlds
    assert tally["far"] > 2.5 * worlds


@pytest.mark.parametrize("max_cycles", [1, 7])
def test_settings_equal_the_reference(max_cycles):
    """The time limit; and benchmark data, of which mpe2 has none here."""
    core = make_core("Simple-v0", 10, "cpu", seed=0, autoreset="disabled", max_cycles=max_cycles, benchmark_data=True)
    theirs = simple_v3.parallel_env(max_cycles=max_cycles, benchmark_data=True)
    worst, tally = mirror.compare(core, theirs, steps=max_cycles)
    assert worst < TOLERANCE
    assert tally["truncated"] == 10
    assert tally["benchmark"] == 0
    assert core.reset()[1]["benchmark_data"].shape == (10, 1, 0)


def test_start_distribution():
    core = make_core("Simple-v0", 20_000, "cpu", seed=3)
    core.reset()
    assert not core.world_state["vel"].any()
    for row in range(2):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
