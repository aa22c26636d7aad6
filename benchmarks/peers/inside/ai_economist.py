"""ai-economist: one world in NumPy, with dicts of actions and observations by agent."""

import contextlib

import numpy as np

from benchmarks.peers.inside.child import one_by_one, serve

with contextlib.redirect_stdout(None):  # it reports the GPUs that it finds
    from ai_economist import foundation

SETTINGS = {
    "scenario_name": "layout_from_file/simple_wood_and_stone",
    "components": [
        (
            "Build",
            {"build_labor": 10, "payment": 10, "payment_max_skill_multiplier": 3, "skill_dist": "pareto"},
        ),
        (
            "ContinuousDoubleAuction",
            {"max_bid_ask": 10, "max_num_orders": 5, "order_duration": 50, "order_labor": 0.25},
        ),
        ("Gather", {"collect_labor": 1, "move_labor": 1, "skill_dist": "pareto"}),
        ("PeriodicBracketTax", {"bracket_spacing": "us-federal", "period": 100, "usd_scaling": 1000}),
    ],
    "env_layout_file": "quadrant_25x25_20each_30clump.txt",
    "episode_length": 1000,
    "fixed_four_skill_and_loc": True,
    "flatten_masks": True,
    "flatten_observations": True,
    "isoelastic_eta": 0.23,
    "energy_cost": 0.21,
    "multi_action_mode_agents": False,
    "multi_action_mode_planner": True,
    "n_agents": 4,
    "planner_gets_spatial_info": False,
    "starting_agent_coin": 0,
    "world_size": [25, 25],
}
"""The second phase of its tutorial, without annealing."""


def build(task):
    """Play at random, with the legal actions of the last observation."""
    env, rng = foundation.make_env_instance(**SETTINGS), np.random.default_rng(0)
    obs = env.reset()

    def step(_index):
        nonlocal obs
        legal = {str(agent): np.flatnonzero(obs[str(agent)]["action_mask"]) for agent in range(4)}
        action = {agent: int(choices[rng.integers(len(choices))]) for agent, choices in legal.items()}
        action["p"] = [0] * 7
        obs, _, done, _ = env.step(action)
        if done["__all__"]:
            obs = env.reset()

    return 5, one_by_one(step)


if __name__ == "__main__":
    serve(build, ("ai-economist", "numpy"))
