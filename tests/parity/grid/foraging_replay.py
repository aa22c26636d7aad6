"""Replay of recorded transitions of lbforaging in LevelBasedForaging-v0."""

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core


def core_at(settings, trace, **more):
    """Return a core with a world per transition of a trace, in the state before it."""
    worlds, settings = len(trace["step"]), {"time_limit": "termination", **settings, **more}
    core = make_core("LevelBasedForaging-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    state = core.get_state()
    for name in ("player", "food", "spawned"):
        state[f"state.{name}"] = torch.from_numpy(trace[name]).int()
    state["io.step"] = torch.from_numpy(trace["step"]).int()
    core.set_state(state)
    return core


def remaining(food):
    """Return foods (N, F, 3) with those that are left first, in their order, and zeros for others."""
    food = np.where(food[..., 2:] > 0, food, 0)
    order = np.argsort(food[..., 2] == 0, axis=1, kind="stable")
    return np.take_along_axis(food, order[..., None], 1)


def replay(settings, trace, tolerance=1e-5, **more):
    """Take every transition of a trace, compare all results, and count the cases that matter."""
    core = core_at(settings, trace, **more)
    action = torch.from_numpy(trace["action"]).long()
    obs, reward, terminated, truncated, info = core.step(action)
    np.testing.assert_array_equal(core.world_state["player"].numpy(), trace["after_player"])
    food_levels = trace["after_food"][..., 2].sum(1)
    np.testing.assert_array_equal(remaining(core.world_state["food"].numpy()), remaining(trace["after_food"]))
    np.testing.assert_array_equal(obs.numpy(), trace["obs"])
    np.testing.assert_allclose(reward.numpy(), trace["reward"], atol=tolerance, rtol=tolerance)
    done = trace["done"][:, None]
    np.testing.assert_array_equal((terminated | truncated).numpy(), np.broadcast_to(done, reward.shape))
    limit = (food_levels > 0)[:, None] & done  # the time limit, with food left
    if core.config.time_limit == "termination":
        assert not truncated.any()
    else:
        np.testing.assert_array_equal(truncated.numpy(), np.broadcast_to(limit, reward.shape))
    if core.action_mask is not None:
        np.testing.assert_array_equal(info["action_mask"].numpy()[~trace["done"]], trace["mask"][~trace["done"]])
    previous, after = trace["player"][..., :2], trace["after_player"][..., :2]
    together = (after[:, :, None] == after[:, None]).all(-1).sum((1, 2)) > after.shape[1]
    return {
        "steps": len(done),
        "loads": int((trace["reward"] > 0).sum()),
        "joint loads": int(((trace["reward"] > 0).sum(1) > 1).sum()),
        "penalties": int((trace["reward"] < 0).sum()),
        "moves": int((previous != after).any(-1).sum()),
        "shared cells": int(together.sum()),
        "cleared": int((food_levels == 0).sum()),
        "limits": int(limit.sum()),
    }
