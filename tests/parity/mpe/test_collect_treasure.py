"""CollectTreasure-v0 against mpe2 1.1.1 itself, episode by episode, with the state copied across before every step.

mpe2 draws positions and types of new treasures from the results of this library's step.
"""

import numpy as np
import pytest
import torch
from mpe2 import collect_treasure_v1
from mpe2.collect_treasure import collect_treasure

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5
ENV = "CollectTreasure-v0"
AWAY = -999.0


class Draws:
    """Random numbers of mpe2's treasures that are not there, in row order: the probability, the place, the type."""

    def __init__(self, places, kinds):
        self.places, self.kinds = iter(places), iter(kinds)

    def uniform(self, low=None, high=None, size=None):
        assert (low, high, size) in ((None, None, None), (-0.95, 0.95, 2))
        return 0.5 if low is None else next(self.places).astype(np.float64)

    def integers(self, low, high):
        kind = int(next(self.kinds)) - 1
        assert low <= kind < high
        return kind


def set_world(world, state):
    """Copy what collectors carry, and types and places of treasures."""
    for row, collector in enumerate(world.agents[: world.num_collectors]):
        holding = int(state["holding"][row])
        collector.holding = holding - 1 if holding else None
    for row, treasure in enumerate(world.landmarks):
        kind = int(state["kind"][row])
        treasure.alive = kind > 0
        treasure.type = max(kind - 1, 0)


def set_draws(world, previous, after, env):
    """Make mpe2 draw the treasures of this step."""
    gone = previous["kind"][env] == 0
    places = after["state.pos"][env, len(world.agents) :]
    world._np_random = Draws(places[gone], after["state.kind"][env][gone])


def gather(core, step):
    """Rearrange worlds; treasures that are not there stay away, and some collectors carry a treasure."""
    mirror.closer(core, step)
    rng, state = np.random.default_rng(step), core.world_state
    places = state["pos"][:, core.num_agents :]
    places[state["kind"] == 0] = AWAY
    if step % 5 == 0:
        holding = rng.integers(1, core.config.num_deposits + 1, state["holding"].shape) * (rng.random() < 0.5)
        state["holding"].copy_(torch.from_numpy(holding))


def count_cases(world, tally, rewards):
    """Count what happens to treasures."""
    tally["carried"] += any(agent.holding is not None for agent in world.agents)
    tally["gone"] += any(not treasure.alive for treasure in world.landmarks)
    scenario = world.scenario
    tally["picked up"] += scenario._cached_global_collecting > 0
    tally["delivered"] += scenario._cached_global_deposit > 0
    tally["both"] += scenario._cached_global_collecting > 0 and scenario._cached_global_deposit > 0
    tally["none left"] += not any(treasure.alive for treasure in world.landmarks)
    pos = np.array([agent.state.p_pos for agent in world.agents[: world.num_collectors]])
    tally["touches"] += (np.linalg.norm(pos[:, None] - pos, axis=-1) < 0.1).sum() > len(pos)


def run(monkeypatch, num_envs, **settings):
    theirs_data = collect_treasure.Scenario.benchmark_data

    def figures(self, agent, world):
        first, left = theirs_data(self, agent, world)
        return -1 if first is None else first, left  # a tensor has no None

    monkeypatch.setattr(collect_treasure.Scenario, "benchmark_data", figures)
    core = make_core(ENV, num_envs, "cpu", seed=0, autoreset="disabled", **settings)
    theirs = collect_treasure_v1.parallel_env(**settings)
    theirs.unwrapped.world.scenario = theirs.unwrapped.scenario
    steps = settings.get("max_cycles", 25)
    hooks = {"set_world": set_world, "set_draws": set_draws, "count_cases": count_cases}
    return mirror.compare(core, theirs, steps, prepare=gather, **hooks)


@pytest.mark.parametrize(
    ("worlds", "continuous"),
    [(12, False), *(pytest.param(80, value, marks=pytest.mark.slow) for value in (False, True))],
    ids=["few", "discrete", "continuous"],
)
def test_episodes_equal_the_reference(monkeypatch, worlds, continuous):
    worst, tally = run(monkeypatch, worlds, continuous_actions=continuous)
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    often = ("carried", "gone", "picked up", "delivered", "both", "touches")
    assert min(tally[name] for name in often) > 1.25 * worlds, tally


SETTINGS = (
    {"num_collectors": 4, "num_deposits": 6, "num_treasures": 3, "max_cycles": 7, "benchmark_data": True},
    {"num_collectors": 1, "num_deposits": 1, "num_treasures": 1, "max_cycles": 12},
)


@pytest.mark.parametrize(("settings", "worlds"), mirror.first_of(SETTINGS, 20, 80), ids=str)
def test_settings_equal_the_reference(monkeypatch, settings, worlds):
    worst, tally = run(monkeypatch, worlds, **settings)
    assert worst < TOLERANCE
    assert tally["truncated"] == worlds
    assert min(tally["picked up"], tally["delivered"], tally["gone"]) > worlds // 16, tally
    if "benchmark_data" in settings:
        assert tally["benchmark"] > 12.5 * worlds
    else:
        assert tally["none left"] > 5


@pytest.mark.slow
def test_random_settings_equal_the_reference(monkeypatch):
    """Together with the other tests these are more than 20,000 steps."""
    total = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        settings = {
            "num_collectors": int(rng.integers(1, 8)),
            "num_deposits": int(rng.integers(1, 7)),
            "num_treasures": int(rng.integers(1, 9)),
            "max_cycles": int(rng.integers(10, 30)),
            "continuous_actions": bool(rng.random() < 0.5),
            "benchmark_data": bool(rng.random() < 0.5),
        }
        worst, tally = run(monkeypatch, 95, **settings)
        assert worst < TOLERANCE, settings
        total += tally["steps"]
    assert total > 15_000


def assert_types_uniform(kinds, count, tolerance=0.01):
    """Assert that types 1 .. count are equally frequent."""
    shares = torch.bincount(kinds.flatten(), minlength=count + 1).float() / kinds.numel()
    assert shares[0] == 0
    assert (shares[1:] - 1 / count).abs().max() < tolerance


def test_treasures_start_and_respawn_at_random_places():
    """Pooled over rows, as worlds are costly; the slow tests look at each row."""
    core = make_core(ENV, 500, "cpu", seed=3)
    core.reset()
    pos, kind = core.world_state["pos"], core.world_state["kind"]
    mirror.assert_uniform(pos[:, :8], 1.0)
    mirror.assert_uniform(pos[:, 8:], 0.95)
    assert_types_uniform(kind, 2, tolerance=0.03)
    kind.zero_()
    core.set_params(respawn_prob=0.7)
    core.step(core.sample_actions())
    present = kind > 0
    assert abs(present.float().mean() - 0.7) < 0.03
    mirror.assert_uniform(pos[:, 8:][present], 0.95)
    assert_types_uniform(kind[present], 2, tolerance=0.03)


@pytest.mark.slow
def test_start_distribution():
    core = make_core(ENV, 20_000, "cpu", seed=3, num_deposits=3)
    core.reset()
    assert not core.world_state["vel"].any()
    assert not core.world_state["holding"].any()
    for row in range(9):
        mirror.assert_uniform(core.world_state["pos"][:, row], 1.0)
    for row in range(9, 15):
        mirror.assert_uniform(core.world_state["pos"][:, row], 0.95)
    assert_types_uniform(core.world_state["kind"], 3)


@pytest.mark.slow
def test_new_treasures_are_distributed_as_at_the_start():
    core = make_core(ENV, 20_000, "cpu", seed=3, num_deposits=3)
    core.reset()
    core.world_state["kind"].zero_()
    core.step(core.sample_actions())
    for row in range(9, 15):
        mirror.assert_uniform(core.world_state["pos"][:, row], 0.95)
    assert_types_uniform(core.world_state["kind"], 3)
    core.world_state["kind"].zero_()
    core.set_params(respawn_prob=0.25)
    core.step(core.sample_actions())
    assert abs((core.world_state["kind"] > 0).float().mean() - 0.25) < 0.01
