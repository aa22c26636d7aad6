"""Replay of recorded transitions of rware in RobotWarehouse-v0."""

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core

ROBOT = ("row", "column", "direction", "load", "message")
BEFORE = (*ROBOT, "shelf", "inactive")
_MASK = 0xFFFFFFFF


def random_word(key, step, goal):
    """Return the word by which a world with this key chooses the next request, after a delivery in a step.

    It is the first word of Philox4x32-10 (``tests/warp_kernels/test_philox.py`` compares that with published vectors).
    """
    counter, key = [0, 0, step, goal << 12 | 1 << 8], [key, 0]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ key[0], second & _MASK, first >> 32 ^ counter[3] ^ key[1], first & _MASK]
        key = [key[0] + 0x9E3779B9 & _MASK, key[1] + 0xBB67AE85 & _MASK]
    return counter[0]


def core_at(settings, trace, **more):
    """Return a core with a world per transition of a trace, in the state before it and with its index as key."""
    worlds = len(trace["step"])
    core = make_core("RobotWarehouse-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings, **more)
    core.reset()
    state = core.get_state()
    for name in BEFORE:
        state[f"state.{name}"] = torch.from_numpy(trace[name]).to(state[f"state.{name}"].dtype)
    state["io.step"] = torch.from_numpy(trace["step"]).int()
    state["state.key"] = torch.arange(worlds, dtype=state["state.key"].dtype)
    core.set_state(state)
    return core


def replay(settings, trace, tolerance=1e-5, **more):
    """Take every transition of a trace, compare all results, and count the cases that matter."""
    core = core_at(settings, trace, **more)
    bits = settings.get("msg_bits", 0)
    action = torch.from_numpy(trace["action"]).long()
    obs, reward, terminated, truncated, _ = core.step(action)
    for name in BEFORE:
        np.testing.assert_array_equal(core.world_state[name].numpy(), trace[f"after_{name}"], err_msg=name)
    np.testing.assert_allclose(obs.numpy(), trace["obs"], atol=tolerance, rtol=0.0)
    np.testing.assert_allclose(reward.numpy(), trace["reward"], atol=tolerance, rtol=0.0)
    done = np.broadcast_to(trace["done"][:, None], reward.shape)
    np.testing.assert_array_equal((terminated | truncated).numpy(), done)
    limit = trace["step"] + 1 == settings.get("max_steps", 500)
    quiet = trace["after_inactive"] >= (settings.get("max_inactivity_steps") or np.inf)
    if core.config.time_limit == "termination":
        assert not truncated.any()
    else:
        np.testing.assert_array_equal(truncated[:, 0].numpy(), limit & ~quiet)
    choice = trace["action"][..., 0] if bits else trace["action"]
    moved = (trace["row"] != trace["after_row"]) | (trace["column"] != trace["after_column"])
    loads = (trace["load"] > 0).astype(int)
    difference = (trace["after_load"] > 0).astype(int) - loads
    return {
        "steps": len(done),
        "moves": int(moved.sum()),
        "moves with a shelf": int((moved & (loads > 0)).sum()),
        "blocked": int(((choice == 1) & ~moved).sum()),
        "picked up": int((difference > 0).sum()),
        "put down": int((difference < 0).sum()),
        "deliveries": int(((trace["shelf"] == 2) & (trace["after_shelf"] == 1)).any((1, 2)).sum()),
        "turns": int((trace["direction"] != trace["after_direction"]).sum()),
        "ties": int(trace["ties"].sum()),
        "rings": int(trace["rings"].sum()),
        "swaps": int(trace["swaps"].sum()),
        "limits": int(limit.sum()),
        "inactive": int((quiet & ~limit).sum()),
    }
