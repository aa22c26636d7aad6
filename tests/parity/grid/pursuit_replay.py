"""Replay of recorded transitions of PettingZoo's pursuit_v4 in Pursuit-v0."""

import hashlib

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core

EXACT = ("pursuer", "evader", "catch_step")
"""Fields of State that a trace has before and after a step."""


def digests(rows):
    """Return a digest of the small integers of every row, (N, 4) uint8."""
    values = [hashlib.blake2b(row.astype(np.int16).tobytes(), digest_size=4).digest() for row in rows]
    return np.frombuffer(b"".join(values), np.uint8).reshape(-1, 4)


def assert_nearest(rewards, expected):
    """Assert that rewards are the numbers of float32 nearest to sums of float64, whose order of terms may differ."""
    half = 0.5 * np.spacing(np.abs(rewards)).astype(np.float64)
    assert rewards.dtype == np.float32
    np.testing.assert_array_less(np.abs(rewards.astype(np.float64) - expected), half + 1e-13)


def core_at(settings, trace):
    """Return a core with a world per transition of a trace, in the state before it and with its index as key."""
    worlds = len(trace["step"])
    core = make_core("Pursuit-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    state = core.get_state()
    for name in EXACT:
        state[f"state.{name}"] = torch.from_numpy(trace[name]).int()
    state["io.step"] = torch.from_numpy(trace["step"]).int()
    state["state.key"] = torch.arange(worlds, dtype=state["state.key"].dtype)
    core.set_state(state)
    return core


def replay(settings, trace):
    """Take every transition of a trace, compare all results, and count the cases that matter."""
    core = core_at(settings, trace)
    obs, reward, terminated, truncated, info = core.step(torch.from_numpy(trace["action"]).long())
    for name in EXACT:
        np.testing.assert_array_equal(core.world_state[name].numpy(), trace[f"after_{name}"], err_msg=name)
    assert_nearest(reward.numpy(), trace["reward"])
    for name, values in (("terminated", terminated), ("truncated", truncated)):
        np.testing.assert_array_equal(values.numpy(), np.broadcast_to(trace[name][:, None], reward.shape), name)
    for name, values in (("obs", obs), ("state", core.state())):
        mine, theirs = values.numpy(), trace[name]
        np.testing.assert_array_equal(digests(mine) if theirs.dtype == np.uint8 else mine, theirs, err_msg=name)
    caught = (trace["after_catch_step"] > 0) & (trace["catch_step"] == 0)
    helpers = info["catches"].numpy()
    shared = (trace["pursuer"][:, :, None] == trace["pursuer"][:, None]).all(-1).sum((1, 2)) > helpers.shape[1]
    return {
        "steps": len(reward),
        "caught": int(caught.sum()),
        "caught at once": int((caught.sum(1) > 1).sum()),
        "caught twice by one": int((helpers > 1).sum()),
        "shared cells": int(shared.sum()),
        "moves": int((trace["pursuer"] != trace["after_pursuer"]).any(-1).sum()),
        "moves of evaders": int((trace["evader"] != trace["after_evader"]).any(-1).sum()),
        "terminated": int(trace["terminated"].sum()),
        "truncated": int(trace["truncated"].sum()),
        "empty at the limit": int((trace["truncated"] & (trace["after_catch_step"] > 0).all(1)).sum()),
    }
