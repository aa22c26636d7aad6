"""Replay of transitions of ai-economist's one-step economy in OneStepEconomy-v0."""

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core

SAEZ = ("rate", "average_rates", "elasticity")
"""Further such fields with the tax model "saez"."""
FIELDS = ("coin", "labor", "production", "income", "last_income", "last_marginal_rate", "utility")
"""Fields of the state that a transition changes, in addition to the integers."""
TOLERANCE, LEAST = 1e-5, 1e-6
"""Relative and absolute error of float32 against float64."""


def core_at(settings, trace):
    """Return a core with a world for every transition, in the state before it."""
    count = len(trace["step"])
    core = make_core("OneStepEconomy-v0", count, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    if (trace["tax_limit"] != core.config.tax_limit).any():
        core.set_params(tax_limit=torch.from_numpy(trace["tax_limit"]))
    state = core.get_state()
    for name in (*FIELDS, "period_step", "rate_index"):
        state[f"state.{name}"] = torch.from_numpy(trace[name]).to(state[f"state.{name}"].dtype)
    income, _ = torch.from_numpy(trace["last_income"]).sort(1)
    state["state.sorted_income"] = income.to(torch.float32)
    if core.config.saez:
        for name in (*SAEZ, "rates", "fresh", "key"):
            values = trace["exact_rates" if name == "rates" else name]
            state[f"state.{name}"] = torch.from_numpy(values).to(state[f"state.{name}"].dtype)
        state["state.sample"], state["state.num_samples"] = samples(trace)
    state["io.step"] = torch.from_numpy(trace["step"]).int()
    state["io.to_move"][:] = True
    state["io.action_mask"][:] = True
    core.set_state(state)
    return core


def samples(trace):
    """Return incomes and rates (E, 1,000) as rings of the last 500 of both, and their number (E,), at most 999."""
    history, counts = trace["history"], trace["seen"]
    rings = np.zeros((len(counts), 2, 500))
    for ring, count in zip(rings, counts, strict=True):
        last = np.arange(max(count - 500, 0), count)
        ring[:, last % 500] = history[last].T
    count = torch.from_numpy(np.where(counts < 500, counts, 500 + counts % 500)).int()
    return torch.from_numpy(rings.reshape(len(counts), 1000)), count


def replay(settings, trace):
    """Take every recorded action and compare state, observations, rewards, ends and masks; return counts of cases."""
    core = core_at(settings, trace)
    workers, brackets, choices = core.num_agents - 1, trace["rate_index"].shape[1], trace["planner_mask"].shape[1]
    action = torch.zeros_like(core.action_buffer)
    action[:, :-1, 0] = torch.from_numpy(trace["hours"]).long()
    action[:, -1] = torch.from_numpy(trace["rates"]).long()
    obs, reward, terminated, truncated, _ = core.step(action)
    close(reward, trace["reward"], scale=utilities(trace))
    for name in (*FIELDS, *SAEZ * core.config.saez):
        close(core.world_state[name], trace[f"after_{name}"], scale=SCALES.get(name, lambda trace: 0.0)(trace))
    done = trace["done"]
    going = ~done
    for name in ("period_step", "rate_index"):
        np.testing.assert_array_equal(core.world_state[name], trace[f"after_{name}"], err_msg=name)
    width = trace["worker_obs"].shape[2]
    close(obs[:, :workers, :width], trace["worker_obs"], scale=1.0)
    close(obs[:, workers], trace["planner_obs"], scale=1.0)
    np.testing.assert_array_equal(terminated, done[:, None].repeat(workers + 1, 1))
    assert not truncated.any()
    mask = core.action_mask.numpy()[going]
    free = trace["workers_free"][going]
    np.testing.assert_array_equal(mask[:, :workers, :101].sum(2), np.where(free, 101, 1)[:, None].repeat(workers, 1))
    heads = brackets if choices > 1 else 1
    planned = mask[:, workers, : heads * choices].reshape(len(mask), heads, choices)
    np.testing.assert_array_equal(planned, trace["planner_mask"][going, None].repeat(heads, 1))
    counts = {"random rates": 0, "rates by the formula": 0}
    if core.config.saez:
        new = trace["period_step"] == 0
        formula = new & (trace["after_average_rates"] != trace["average_rates"]).any(1)
        counts = {"random rates": int((new & ~formula).sum()), "rates by the formula": int(formula.sum())}
        obs, _ = core.reset()  # keeps the samples and means
        close(obs[done, :workers, :width], trace["next_worker_obs"][done], scale=1.0)
        close(obs[done, workers], trace["next_planner_obs"][done], scale=1.0)
    return counts | {
        "steps": len(done), "ends": int(done.sum()), "works": int((trace["hours"] > 0).sum()),
        "new rates": int((trace["rate_index"] != trace["after_rate_index"]).any(1).sum()),
        "taxed": int((trace["after_last_marginal_rate"] > 0).sum()),
        "annealed": int((trace["tax_limit"] < 1).sum()),
    }  # fmt: skip


def utilities(trace):
    """Return the size of utilities and of the terms that they come from: coin, and labor if it costs more."""
    return np.abs(trace["after_utility"]) + np.abs(trace["utility"]) + trace["after_production"].max(1, keepdims=True)


SCALES = {"coin": lambda trace: trace["after_production"], "utility": utilities}
"""Size of the terms of a field."""


def close(ours, theirs, scale=0.0):
    """Compare numbers up to the rounding of float32 at their size, or at the size of the terms that they come from."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    error, size = np.abs(ours - theirs), np.maximum(np.abs(theirs), scale)
    worst = (error - TOLERANCE * size).max()
    assert worst <= LEAST, f"{worst} at {np.unravel_index((error - TOLERANCE * size).argmax(), error.shape)}"
