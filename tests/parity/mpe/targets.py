"""Comparison of SimpleFormation-v0 and SimpleLine-v0 with mpe2, whose targets follow from the positions."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from gpu_envs.runtime.factory import make_core
from parity.mpe import mirror

TOLERANCE = 1e-5
SETTINGS = (
    {"N": 6, "terminate_on_success": True, "benchmark_data": True},
    {"N": 1, "max_cycles": 3, "terminate_on_success": True},
)


def random_settings(rng):
    """Return settings drawn at random."""
    return {
        "N": int(rng.integers(1, 8)),
        "max_cycles": int(rng.integers(2, 30)),
        "continuous_actions": bool(rng.random() < 0.5),
        "terminate_on_success": bool(rng.random() < 0.5),
        "benchmark_data": bool(rng.random() < 0.5),
    }


def onto_targets(core, step):
    """Rearrange worlds, and place the agents of some at rest near the targets of the step before, in random order."""
    mirror.closer(core, step)
    rng, count, state = np.random.default_rng(step), core.num_agents, core.world_state
    chosen = np.flatnonzero(rng.random(core.num_envs) < 0.08)
    if step % 5 == 0 or not len(chosen):
        return
    order = torch.from_numpy(np.stack([rng.permutation(count) for _ in chosen]))
    targets = state["target"][chosen].float().gather(1, order[..., None].expand(-1, -1, 2))
    away = rng.uniform(-0.03, 0.03, targets.shape) * rng.choice([1.0, 1.5], (len(chosen), 1, 1))
    state["pos"][chosen, :count] = targets + torch.from_numpy(away).float()
    state["vel"][chosen] = 0.0


def run(env_id, module, num_envs, set_world=mirror.nothing, prepare=mirror.closer, **settings):
    """Compare episodes with mpe2; ``set_world(scenario, pos)`` sets more than positions, (N + L, 2) [m], in mpe2."""
    core = make_core(env_id, num_envs, "cpu", seed=0, autoreset="disabled", **settings)
    theirs = module.parallel_env(**settings)

    def copy(world, state):
        set_world(theirs.unwrapped.scenario, state["pos"].astype(np.float64))

    def count_cases(world, tally, rewards):
        away = theirs.unwrapped.scenario._delta_dists
        tally["far"] += (away > 2.0).any()
        tally["one arrived"] += (away < 0.05).any()
        tally["all arrived"] += (away < 0.05).all()
        pos = np.array([agent.state.p_pos for agent in world.agents])
        distance = np.linalg.norm(pos[:, None] - pos, axis=-1)
        tally["touches"] += (distance < 2 * world.agents[0].size).sum() > len(pos)

    steps = settings.get("max_cycles", 25)
    return mirror.compare(core, theirs, steps, prepare=prepare, set_world=copy, count_cases=count_cases)


def assert_assignments_are_the_best(env_id, num_agents, num_envs):
    """Assert that the agents' total distance to the targets is SciPy's least one, and that the largest is no error."""
    core = make_core(env_id, num_envs, "cpu", seed=2, N=num_agents)
    core.reset()
    core.step(core.sample_actions())
    state = {name: core.world_state[name].double().numpy() for name in ("pos", "target", "away")}
    for env in range(num_envs):
        costs = np.linalg.norm(state["pos"][env, :num_agents, None] - state["target"][env], axis=-1)
        least = costs[linear_sum_assignment(costs)].sum()
        assert abs(state["away"][env].sum() - least) < 1e-6 * num_agents
        assert np.abs(costs - state["away"][env][:, None]).min(1).max() < 1e-5  # every distance is one to a target


def assert_whole_episodes_agree(worst, tally, worlds):
    """Assert that episodes of default length equal mpe2's, and that each case occurs in many worlds."""
    assert worst < TOLERANCE
    assert tally["steps"] == worlds * 25
    assert tally["truncated"] == worlds
    assert min(tally["far"], tally["touches"], tally["all arrived"]) > 0.5 * worlds, tally


def assert_both_ends_agree(worst, tally, worlds):
    """Assert that episodes which end with success or by time equal mpe2's, and that both occur."""
    assert worst < TOLERANCE
    assert tally["terminated"] + tally["truncated"] == worlds
    assert min(tally["terminated"], tally["truncated"]) > worlds // 12, tally
    assert tally["all arrived"] >= tally["terminated"]
