"""ai-economist 1.7.1 as the oracle of GatherTradeBuild-v0, and the recorded traces of the quick tests.

The original draws the numbers that GatherTradeBuild-v0 draws: orders of agents, bonus units, growth and random rates.
The traces are written by `python tests/libraries/gather_trade_build_oracle.py` in the environment of this session.
"""

import contextlib
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch

vars(np)["int"] = int  # the original is for NumPy 1
sys.path.insert(0, str(Path(__file__).parents[1]))

with contextlib.redirect_stdout(None):
    from ai_economist import foundation
    from ai_economist.foundation.components import move

from parity.economy.gather_trade_build_replay import (  # noqa: E402
    COMPONENTS,
    CONSTANT,
    EPISODES,
    LAYOUTS,
    TRACE,
    TRACED,
    Draws,
    compare,
    played,
)
from parity.traces import write_arrays  # noqa: E402

from gpu_envs.errors import ConfigError  # noqa: E402, F401

BUILD = ("payment", "payment_max_skill_multiplier", "build_labor")
TRADE = ("max_bid_ask", "order_labor", "order_duration", "max_num_orders")
GATHER = ("move_labor", "collect_labor")
TAX = (
    *("disable_taxes", "tax_model", "period", "rate_min", "rate_max", "rate_disc", "n_brackets", "top_bracket_cutoff"),
    *("usd_scaling", "bracket_spacing", "fixed_bracket_rates", "pareto_weight_type", "saez_fixed_elas"),
    "tax_annealing_schedule",
)
MAPS = Path(foundation.__file__).parent / "scenarios" / "simple_wood_and_stone" / "map_txt"
RESOURCES = ("Stone", "Wood")
PHASE_2 = {
    "payment": 10, "payment_max_skill_multiplier": 3, "build_labor": 10, "build_skill_dist": "pareto",
    "max_bid_ask": 10, "order_labor": 0.25, "order_duration": 50, "max_num_orders": 5,
    "move_labor": 1, "collect_labor": 1, "gather_skill_dist": "pareto",
    "disable_taxes": False, "tax_model": "model_wrapper", "period": 100, "rate_disc": 0.05,
    "bracket_spacing": "us-federal", "usd_scaling": 1000,
    "env_layout_file": "quadrant_25x25_20each_30clump.txt", "fixed_four_skill_and_loc": True, "n_agents": 4,
    "episode_length": 1000, "planner_gets_spatial_info": False, "energy_cost": 0.21, "energy_warmup_constant": 0,
    "isoelastic_eta": 0.23, "starting_agent_coin": 0, "planner_reward_type": "coin_eq_times_productivity",
}  # fmt: skip
"""Settings of the tutorial's second phase, without the annealing of taxes."""


def make(**settings):
    """Return an environment of the original with settings of GatherTradeBuild-v0."""
    options = PHASE_2 | settings
    layout = options.pop("env_layout", None)
    parts = {name: {key: options.pop(key) for key in keys if key in options} for name, keys in (
        ("Build", BUILD), ("ContinuousDoubleAuction", TRADE), ("Gather", GATHER), ("PeriodicBracketTax", TAX),
    )}  # fmt: skip
    parts["Build"]["skill_dist"] = options.pop("build_skill_dist")
    parts["Gather"]["skill_dist"] = options.pop("gather_skill_dist")
    scenario = options.pop("scenario_name", "layout_from_file")
    with contextlib.ExitStack() as stack:
        if "world_size" in options:
            size = list(options.pop("world_size"))
            del options["env_layout_file"], options["fixed_four_skill_and_loc"]
        elif layout is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            path = Path(folder) / "layout.txt"
            path.write_text(";".join(layout))
            options["env_layout_file"] = os.path.relpath(path, MAPS)
            size = [len(layout), len(layout[0])]
        else:
            name = options["env_layout_file"]
            rows = [row.strip("\n") for row in (MAPS / name).read_text().split(";")]
            size = [sum(map(bool, rows)), len(rows[0])]
        return foundation.make_env_instance(
            scenario_name=f"{scenario}/simple_wood_and_stone", components=list(parts.items()), world_size=size,
            flatten_masks=True, flatten_observations=True, multi_action_mode_planner=True, **options,
        )  # fmt: skip


@contextlib.contextmanager
def drawing(env, state, world, step):
    """Let the original draw, in one step, the numbers of a world of GatherTradeBuild-v0."""
    draws = Draws(int(state["key"][world]), step)
    n, size = env.n_agents, env.world_size
    order = draws.order(n)
    # Agents gather in the second order that a step draws; the bonus belongs to the agent whose turn it is.
    orders, bonuses = iter((np.arange(n), order)), draws.bonuses(n)
    source = env.world.maps
    growth = {"Wood": np.ones(size), "Stone": np.ones(size)}
    cells = np.flatnonzero((source.get("StoneSourceBlock") + source.get("WoodSourceBlock")).ravel() > 0)
    if is_random(env):
        cells = np.arange(np.prod(size))
    for values in growth.values():
        values.ravel()[cells] = draws.growth(len(cells))
    grown = iter((growth["Wood"], growth["Stone"]))
    gather = env.get_component("Gather")

    def bonus():
        return bonuses[turn.current]

    turn = _Turn(gather.world.get_random_order_agents)
    saved = (np.random.permutation, np.random.rand, np.random.uniform, move.rand)
    np.random.permutation = lambda count: next(orders)
    np.random.rand = lambda *shape: next(grown)
    np.random.uniform = lambda low, high, size: low + (high - low) * draws.rates(size[0])
    move.rand = bonus
    gather.world.get_random_order_agents = turn
    try:
        yield
    finally:
        np.random.permutation, np.random.rand, np.random.uniform, move.rand = saved
        del gather.world.get_random_order_agents


def is_random(env):
    """Return whether the layout of an original is random."""
    return hasattr(env, "source_prob_maps")


class _Turn:
    """Orders of the original that remember the agent whose turn it is."""

    def __init__(self, orders):
        self.orders, self.current = orders, None

    def __call__(self):
        for agent in self.orders():
            self.current = agent.idx
            yield agent


def begin(env, state, world):
    """Start an episode of the original in the state of a world; return its observations."""
    width, build = env.world_size[1], env.get_component("Build")
    finish = type(env).additional_reset_steps

    def place_agents():
        finish(env)
        if is_random(env):
            set_layout(env, state["cell"][world].reshape(env.world_size))
        env.world.clear_agent_locs()
        for agent, cell in zip(env.world.agents, state["position"][world], strict=True):
            env.world.set_agent_loc(agent, int(cell) // width, int(cell) % width)
            agent.state["build_payment"] = float(state["payment"][world, agent.idx])
            build.sampled_skills[agent.idx] = float(state["skill"][world, agent.idx])
            agent.state["bonus_gather_prob"] = float(state["bonus"][world, agent.idx])

    env.additional_reset_steps = place_agents
    return env.reset()


def set_layout(env, cell):
    """Give an original the sources and the water of a world."""
    maps, kind = env.world.maps, cell & 3
    maps.clear()
    for number, name in enumerate(RESOURCES, start=1):
        maps.set(name, (kind == number).astype(float))
        maps.set(f"{name}SourceBlock", (kind == number).astype(float))
    if "Water" in maps.keys():  # noqa: SIM118  # not a dictionary
        maps.set("Water", (kind == 3).astype(float))
    else:
        assert not (kind == 3).any()


def random_layouts(settings, count, seed):
    """Return kinds of terrain of random layouts of an original, (N, H, W)."""
    env = make(**settings, fixed_four_skill_and_loc=False)
    np.random.seed(seed)  # noqa: NPY002  # the original draws from it
    layouts = []
    for _ in range(count):
        env.reset_starting_layout()
        maps = env.world.maps
        kinds = [maps.get(f"{name}SourceBlock") for name in RESOURCES]
        kinds += [maps.get("Water")] if "Water" in maps.keys() else []  # noqa: SIM118
        assert (np.sum(kinds, 0) <= 1).all()
        layouts.append(np.sum([number * kind for number, kind in enumerate(kinds, start=1)], 0))
    return np.stack(layouts).astype(np.int8)


def observations(env):
    """Return the observations of the original in its present state."""
    return env._generate_observations(flatten_observations=True, flatten_masks=True)


def rows(env, obs, like):
    """Return observations and masks of the original with the shapes of a world's."""
    padded, masks = np.zeros_like(like["obs"][0]), np.zeros_like(like["mask"][0])
    for index in range(len(padded)):
        entry = obs["p" if index == env.n_agents else str(index)]
        parts = [entry[name] for name in ("world-map", "world-idx_map", "flat") if name in entry]
        if index == env.n_agents:
            parts += [entry[f"p{agent}"] for agent in range(env.n_agents)]
        flat = np.concatenate([np.ravel(part) for part in parts])
        padded[index, : len(flat)] = flat
        assert not padded[index, len(flat) :].any()
        legal = entry["action_mask"] > 0
        masks[index, : len(legal)] = legal
    return {"obs": padded, "mask": masks}


def copy_samples(env, core, world):
    """Copy the incomes of the Saez formula to a world: one of 0 may be -1e-15, which is below all bins and brackets."""
    samples, count = env.get_component("PeriodicBracketTax").saez_buffer, int(core.world_state["num_samples"][world])
    table = core.world_state["sample"][world].view(2, -1)
    for index, sample in enumerate(samples):
        slot = (count - len(samples) + index) % 500
        for row in range(2):
            assert abs(sample[0]) < 1e-9 or abs(float(table[row, slot]) - sample[row]) < 1e-9
            table[row, slot] = sample[row]


def copy_coin(env, core, world):
    """Copy the coin of agents to a world: an income that differs in its last bit may lie in another bracket."""
    n, tax = env.n_agents, env.get_component("PeriodicBracketTax")
    theirs = [[agent.inventory["Coin"], agent.escrow["Coin"], tax.last_coin[agent.idx]] for agent in env.world.agents]
    coin, last = core.world_state["coin"][world], core.world_state["last_coin"][world]
    for mine, expected in zip((coin[:n], coin[n:], last[:n]), np.array(theirs).T, strict=True):
        np.testing.assert_allclose(mine.numpy(), expected, 0, 1e-9)
        mine[:] = torch.from_numpy(expected)


def check_shapes(env, core):
    """Require the widths of observations and the numbers of actions of the original."""
    obs, last = observations(env), env.n_agents
    wide = [sum(np.size(obs["0"][name]) for name in ("world-map", "world-idx_map", "flat"))] * last
    wide += [sum(np.size(value) for name, value in obs["p"].items() if name not in ("time", "action_mask"))]
    choices = [np.atleast_1d(env.world.agents[0].action_spaces).tolist()] * last
    choices += [env.world.planner.action_spaces.tolist()]
    assert len(obs["0"]["action_mask"]) == sum(choices[0])
    for row, agent in enumerate(core.possible_agents):
        assert core.observation_spaces[agent].shape == (wide[row],)
        assert core.action_spaces[agent].nvec.tolist() == choices[row]


def happened(env, core, state, action, world):
    """Count what happened in a step."""
    market, tax = env.get_component("ContinuousDoubleAuction"), env.get_component("PeriodicBracketTax")
    gathers, trades, n = env.get_component("Gather").gathers[-1], market.executed_trades[-1], env.n_agents
    after, choice, moves = core.world_state, action[world, :n, 0], 6 + 4 * core.config.sizes.num_prices
    orders = int(((choice > 1) & (choice < moves - 4)).sum())
    stays = (choice >= moves - 4) & (after["position"][world].numpy() == state["position"][world])
    if core.config.multi_action_mode_agents:
        orders = int((action[world, :n, 1:5] > 0).sum())
        stays = (action[world, :n, 5] > 0) & (after["position"][world].numpy() == state["position"][world])
    buyers = [trade["buyer"] for trade in trades]
    open_before, open_after = state["num_orders"][world].sum(), int(after["num_orders"][world].sum())
    return Counter(
        {
            "steps": 1,
            "houses": len(env.get_component("Build").builds[-1]),
            "orders": orders,
            "trades": len(trades),
            "trades at the price of the bid": sum(trade["bid_lifetime"] > trade["ask_lifetime"] for trade in trades),
            "steps with several trades": len(buyers) > 1,
            "orders that expire": int(open_before) + orders - 2 * len(trades) - open_after,
            "resources collected": len(gathers),
            "cells with several units": int(((after["cell"][world] >> 8) & 127).gt(0).sum()),
            "agents with several actions": int(((action[world, :n] > 0).sum(1) > 2).sum()),
            "second units": sum(gather["n"] == 2 for gather in gathers),
            "moves in the way of another agent": int(stays.sum()),
            "tax days": bool(tax.taxes[-1]),
            "taxes paid": bool(tax.taxes[-1]) and any(tax.taxes[-1][str(agent)]["tax_paid"] > 0 for agent in range(n)),
            "taxes limited by inventories": bool(tax.taxes[-1])
            and any(0 < tax.taxes[-1][str(k)]["tax_paid"] < tax.taxes_due(tax.taxes[-1][str(k)]["income"]) - 1e-9
                    for k in range(n)),
            "rates by the Saez formula": bool(tax.taxes[-1]) and tax._reached_min_samples,
            "ends": env.world.timestep >= env.episode_length,
        }
    )  # fmt: skip


def play(settings, num_envs, episodes, seed, keep=None, components=COMPONENTS):
    """Play GatherTradeBuild-v0 and originals from the same starts; compare every step; return what happened.

    Agents take actions of the named components only.
    """
    envs = [make(**settings) for _ in range(num_envs)]
    counts, at = Counter(), 0
    for state, action, mine, core in played(settings, num_envs, episodes, seed, components):
        theirs = []
        at = 0 if action is None else at + 1
        for world, env in enumerate(envs):
            if action is None:
                result = rows(env, begin(env, state, world), mine)
                check_shapes(env, core)
            else:
                heads = len(np.atleast_1d(env.world.agents[0].action_spaces))
                choices = {str(agent): action[world, agent, :heads].tolist() for agent in range(env.n_agents)}
                if heads == 1:
                    choices = {agent: choice for agent, (choice,) in choices.items()}
                if core.config.sizes.has_planner:
                    choices["p"] = action[world, -1, : len(env.world.planner.action_spaces)].tolist()
                with drawing(env, state, world, at):
                    obs, reward, done, _ = env.step(choices)
                result = rows(env, obs, mine)
                result["reward"] = np.array([reward[k] for k in sorted(reward)][: mine["reward"].shape[1]], np.float32)
                result["done"] = np.full(mine["done"].shape[1], done["__all__"])
                if done["__all__"]:  # the mask of a finished world is the no-op
                    result["mask"] = mine["mask"][world]
                    check_metrics(env, core, world)
                counts += happened(env, core, state, action, world)
            if core.config.tax_model == "saez":
                copy_samples(env, core, world)
                copy_coin(env, core, world)
            theirs.append(result)
        merged = {name: np.stack([entry[name] for entry in theirs]) for name in theirs[0]}
        compare(mine, merged, f"{settings} step {at}")
        if keep is not None:
            keep.append((state if action is None else None, action, merged))
    return counts


def check_metrics(env, core, world):
    """Compare the results of an episode with the metrics of the original."""
    metrics, state = env.previous_episode_metrics, core.world_state
    same = {
        "productivity": metrics["social/productivity"],
        "equality": metrics["social/equality"],
        "welfare": metrics["social_welfare/coin_eq_times_productivity"] * env.n_agents,
    }
    for name, value in same.items():
        np.testing.assert_allclose(state[name][world].numpy(), value, 1e-5, 1e-5, err_msg=name)
    for agent in range(env.n_agents):
        assert state["houses"][world, agent] == metrics[f"Build/{agent}/n_builds"]
        for name, word in (("sold", "Sell"), ("bought", "Buy")):
            expected = sum(metrics[f"Trade/{agent}/{word}{resource}/n_sales"] for resource in RESOURCES)
            assert state[name][world, agent] == expected
        np.testing.assert_allclose(state["wealth"][world, agent], metrics[f"endow/{agent}/Coin"], 1e-5, 1e-5)
        np.testing.assert_allclose(state["effort"][world, agent], metrics[f"endogenous/{agent}/Labor"], 1e-5, 1e-5)


def record_all(path=TRACE):
    """Write the traces of the quick tests."""
    arrays = {}
    for index, (settings, episodes) in enumerate(zip(TRACED, EPISODES, strict=True)):
        moments: list = []
        play(settings, 1, episodes, index, moments)
        starts = [state for state, *_ in moments if state is not None]
        for name in starts[0]:
            if name not in CONSTANT:
                arrays[f"{index}.start.{name}"] = np.stack([state[name][0] for state in starts])
        arrays[f"{index}.action"] = np.stack([action[0] for _, action, _ in moments if action is not None])
        for name in ("obs", "mask", "reward", "done"):
            values = [results[name][0] for *_, results in moments if name in results]
            arrays[f"{index}.{name}"] = np.stack(values)
    for index, settings in enumerate(LAYOUTS):
        kinds = random_layouts(settings, 400, index)
        arrays[f"layouts.{index}"] = np.packbits(np.stack([kinds == 1, kinds == 2]))
    write_arrays(path, arrays)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
