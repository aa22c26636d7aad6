"""Replay of recorded transitions of overcooked_ai in Overcooked-v0."""

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core


def core_at(settings, trace, **more):
    """Return a core with a world per transition of a trace, in the state before it."""
    core = make_core("Overcooked-v0", len(trace["step"]), "cpu", seed=0, autoreset="disabled", **settings, **more)
    core.reset()
    state = core.get_state()
    for name in ("position", "facing", "inventory", "item"):
        state[f"state.{name}"] = torch.from_numpy(trace[name]).int()
    state["io.step"] = torch.from_numpy(trace["step"]).int()
    core.set_state(state)
    return core


def replay(settings, trace, tolerance=1e-5, **more):
    """Take every transition of a trace, compare all results, and count the cases that matter."""
    core = core_at(settings, trace, reward_shaping_factor=0.5, **more)
    obs, reward, terminated, truncated, info = core.step(torch.from_numpy(trace["action"]).long())
    for name in ("position", "facing", "inventory", "item"):
        np.testing.assert_array_equal(core.world_state[name].numpy(), trace[f"after_{name}"], name)
    np.testing.assert_array_equal(obs.numpy(), trace["obs"])
    np.testing.assert_allclose(info["sparse_r_by_agent"], trace["sparse"], atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(info["shaped_r_by_agent"], trace["shaped"], atol=tolerance, rtol=tolerance)
    expected = trace["sparse"].sum(1, keepdims=True) + 0.5 * trace["shaped"]
    np.testing.assert_allclose(reward.numpy(), expected, atol=tolerance, rtol=tolerance)
    done = np.broadcast_to(trace["done"][:, None], reward.shape)
    ends, other = (truncated, terminated) if core.config.time_limit == "truncation" else (terminated, truncated)
    np.testing.assert_array_equal(ends.numpy(), done)
    assert not other.any()
    return counts_of(core.config.kitchen, trace)


def counts_of(kitchen, trace):
    """Return how often the cases that matter occur in a trace."""
    pots, item, after = kitchen.num_pots, trace["item"], trace["after_item"]
    before_pot, after_pot = item[:, :pots], after[:, :pots]
    counter, after_counter = item[:, pots:], after[:, pots:]
    dish = (trace["inventory"] != 1) & (trace["after_inventory"] == 1) & (counter == after_counter).all(1)[:, None]
    moves = trace["action"] < 4
    ineffective = moves & (trace["position"] == trace["after_position"]) & (trace["facing"] == trace["action"])
    served = (
        (trace["inventory"] & 7 == 4) & (trace["after_inventory"] == 0) & (counter == after_counter).all(1)[:, None]
    )
    added = (before_pot >> 11 == 0) & (after_pot > before_pot) & (after_pot & 2047 != before_pot)
    return {
        "steps": len(trace["step"]),
        "ingredients": int(added.sum()),
        "soups that start": int(((before_pot >> 11 == 0) & (after_pot >> 11 > 0)).sum()),
        "soups taken": int(((before_pot != 0) & (after_pot == 0)).sum()),
        "served": int(served.sum()),
        "rewards": int((trace["sparse"] > 0).sum()),
        "dishes with shaped reward": int((dish & (trace["shaped"] > 0)).sum()),
        "dishes without": int((dish & (trace["shaped"] == 0)).sum()),
        "put on counters": int(((counter == 0) & (after_counter != 0)).sum()),
        "taken from counters": int(((counter != 0) & (after_counter == 0)).sum()),
        "moves": int((trace["position"] != trace["after_position"]).sum()),
        "moves without effect": int(ineffective.sum()),
        "both interact": int((trace["action"] == 5).all(1).sum()),
        "ends": int(trace["done"].sum()),
        "urgent": int((trace["obs"][:, 0, 25] == 1).sum()),
    }
