"""Transitions of ai-economist's one-step economy, which replays compare with OneStepEconomy-v0.

The recorded traces of the quick tests are made by this module:

    .nox/ai_economist/bin/python -m libraries.one_step_economy_oracle   # in the folder tests
"""

import json
from pathlib import Path

import numpy as np
from ai_economist import foundation
from parity.economy.gather_trade_build_replay import Draws
from parity.traces import write_arrays

TRACE = Path(__file__).parents[1] / "parity" / "economy" / "one_step.npz.xz"
SCENARIO = (
    "agent_reward_type", "isoelastic_eta", "labor_exponent", "labor_cost", "planner_reward_type",
    "mixing_weight_gini_vs_coin",
)  # fmt: skip
LABOR = ("mask_first_step", "payment_max_skill_multiplier")
TAXES = (
    "disable_taxes", "tax_model", "period", "rate_min", "rate_max", "rate_disc", "n_brackets", "top_bracket_cutoff",
    "usd_scaling", "bracket_spacing", "fixed_bracket_rates", "pareto_weight_type", "saez_fixed_elas",
)  # fmt: skip
SLOPE = 0.00097  # of the tax annealing, per completed episode; limits do not equal rates, which are rounded
# Settings that fix sizes and formulas: each compiles its own kernels.
KINDS = (
    dict(n_agents=4),
    dict(n_agents=2, bracket_spacing="linear", n_brackets=3, planner_reward_type="coin_eq_times_productivity"),
    dict(n_agents=5, bracket_spacing="log", n_brackets=6, rate_min=0.1, rate_max=0.7, rate_disc=0.13),
    dict(n_agents=31, planner_reward_type="coin_eq_times_productivity",
         agent_reward_type="isoelastic_coin_minus_labor"),
    dict(n_agents=3, disable_taxes=True, agent_reward_type="isoelastic_coin_minus_labor"),
    dict(n_agents=4, tax_model="us-federal-single-filer-2018-scaled", rate_max=0.3),
    dict(n_agents=6, tax_model="fixed-bracket-rates", fixed_bracket_rates=(0.3, 0.0, 0.9, 0.2), n_brackets=4,
         bracket_spacing="linear", planner_reward_type="coin_eq_times_productivity"),
    dict(n_agents=12, tax_model="saez", bracket_spacing="log", n_brackets=4),
    dict(n_agents=15, tax_model="saez", rate_min=0.1, rate_max=0.8, pareto_weight_type="uniform"),
)  # fmt: skip
TRACED = (
    {},
    dict(n_agents=3, bracket_spacing="linear", n_brackets=3, top_bracket_cutoff=30.0, episode_length=7, period=3,
         agent_reward_type="isoelastic_coin_minus_labor", planner_reward_type="coin_eq_times_productivity"),
    dict(n_agents=4, tax_model="fixed-bracket-rates", bracket_spacing="log", n_brackets=4, mask_first_step=False,
         fixed_bracket_rates=(0.1, 0.5, 0.2, 1.0), period=1, episode_length=4, labor_exponent=1.5, labor_cost=0.1),
    dict(n_agents=5, tax_model="saez", bracket_spacing="linear", n_brackets=4, top_bracket_cutoff=120.0,
         mask_first_step=False, period=1, episode_length=6, labor_cost=0.01),
)  # fmt: skip
"""Settings of the recorded traces."""


def make(annealed=False, **settings):
    """Return an original with settings of OneStepEconomy-v0."""

    def chosen(names):
        return {name: settings[name] for name in names if name in settings}

    taxes = {"period": 2} | chosen(TAXES)
    if annealed:
        taxes["tax_annealing_schedule"] = [0, SLOPE]
    return foundation.make_env_instance(
        "one-step-economy", n_agents=settings.get("n_agents", 4), world_size=[1, 1],
        episode_length=settings.get("episode_length", 2), multi_action_mode_planner=True, flatten_observations=True,
        components=[("SimpleLabor", chosen(LABOR)), ("PeriodicBracketTax", taxes)], **chosen(SCENARIO),
    )  # fmt: skip


def random_settings(rng, kind):
    """Return settings drawn at random, of one of the `KINDS`."""
    saez = KINDS[kind].get("tax_model") == "saez"
    kinds = KINDS[kind] | ({"saez_fixed_elas": float(rng.uniform(0.0, 2.0))} if saez and rng.random() < 0.4 else {})
    return dict(
        kinds, episode_length=int(rng.integers(1, 12)), period=int(rng.integers(1, 6)),
        isoelastic_eta=float(rng.uniform(0.0, 0.9)), labor_exponent=float(rng.uniform(1.1, 4.0)),
        labor_cost=float(10.0 ** rng.uniform(-4, 0)), mixing_weight_gini_vs_coin=float(rng.random()),
        mask_first_step=bool(rng.random() < 0.5), payment_max_skill_multiplier=float(rng.uniform(1.5, 8.0)),
        top_bracket_cutoff=float(rng.uniform(10.0, 400.0)), usd_scaling=float(10.0 ** rng.uniform(2.0, 4.0)),
    )  # fmt: skip


def state_of(env):
    """Return the state as OneStepEconomy-v0 has it."""
    taxes, agents = env.get_component("PeriodicBracketTax"), env.world.agents
    saez = dict(
        rate=list(taxes.curr_bracket_tax_rates), exact_rates=list(taxes.curr_bracket_tax_rates),
        average_rates=list(taxes.running_avg_tax_rates), elasticity=taxes.elas_t, fresh=env.world.timestep == 0,
    ) if taxes.tax_model == "saez" else {}  # fmt: skip
    return saez | dict(
        coin=[agent.inventory["Coin"] for agent in agents], labor=[agent.endogenous["Labor"] for agent in agents],
        production=[agent.state["production"] for agent in agents],
        income=[agent.total_endowment("Coin") - last for agent, last in zip(agents, taxes.last_coin, strict=True)],
        last_income=list(taxes.last_income), last_marginal_rate=list(taxes.last_marginal_rate),
        utility=[env.curr_optimization_metrics[agent.idx] for agent in env.all_agents],
        period_step=taxes.tax_cycle_pos - 1, rate_index=list(taxes.curr_rate_indices), step=env.world.timestep,
    )  # fmt: skip


def observe(env, obs):
    """Return the observations and masks as OneStepEconomy-v0 has them."""
    workers = [str(agent.idx) for agent in env.world.agents]
    planner, mask = obs["p"], np.asarray(obs["p"]["action_mask"], bool)
    heads = mask.reshape(len(env.world.planner.action_dim), -1)
    assert (heads == heads[0]).all()
    free = {float(np.sum(obs[worker]["action_mask"])) for worker in workers}
    assert free in ({1.0}, {101.0})
    return dict(
        worker_obs=np.stack([obs[worker]["flat"] for worker in workers]),
        planner_obs=np.concatenate([planner["flat"], *(planner[f"p{worker}"] for worker in workers)]),
        workers_free=free == {101.0}, planner_mask=heads[0],
    )  # fmt: skip


def record(settings, steps, seed, annealed=False):
    """Play an original; return its skills and its transitions by name, arrays with a leading number of steps."""
    np.random.seed(seed)  # noqa: NPY002  # the original draws from it
    env, rng, trace, obs = make(annealed, **settings), np.random.default_rng(seed), {}, None
    limit, saez, history = 1.0, settings.get("tax_model") == "saez", []
    for step in range(steps + saez):
        if obs is None:
            env._completions = int(rng.integers(0, 1300)) if annealed else 0
            limit = min(env._completions * SLOPE, 1.0) if annealed else 1.0
            obs = observe(env, env.reset())
            if saez and step:
                for name in ("worker_obs", "planner_obs"):
                    trace[f"next_{name}"][-1] = obs[name]
        if step == steps:
            break
        legal = np.flatnonzero(obs["planner_mask"])
        hours = rng.integers(0, rng.choice([3, 30, 101]), env.n_agents) if obs["workers_free"] else [0] * env.n_agents
        rates = rng.choice(legal, len(env.world.planner.action_dim))
        previous = state_of(env)
        actions = {str(index): int(choice) for index, choice in enumerate(hours)} | {"p": rates.tolist()}
        previous |= dict(seen=len(history), key=rng.integers(2**62)) if saez else {}
        raw, reward, done, _ = play(env, actions, previous.get("key", 0))
        obs = observe(env, raw)
        if saez and env.get_component("PeriodicBracketTax").tax_cycle_pos == 1:
            history += env.get_component("PeriodicBracketTax").get_local_saez_buffer()[-env.n_agents :]
        after = {f"after_{name}": value for name, value in state_of(env).items() if name != "step"}
        values = dict(
            previous, **after, **obs, hours=hours, rates=rates, tax_limit=np.float32(limit), done=done["__all__"],
            reward=[reward[str(agent.idx)] for agent in env.all_agents],
        )  # fmt: skip
        if saez:
            values |= {f"next_{name}": obs[name] for name in ("worker_obs", "planner_obs")}
        for name, value in values.items():
            trace.setdefault(name, []).append(value)
        if done["__all__"]:
            obs = None
    integers = ("period_step", "rate_index", "step", "hours", "rates", "after_period_step", "after_rate_index")
    kinds = dict.fromkeys((*integers, "seen", "fresh"), np.int16) | dict.fromkeys(
        ("done", "workers_free", "planner_mask"), bool
    )
    kinds |= {"key": np.int64, **dict.fromkeys(("exact_rates", "history"), np.float64)}
    trace |= {"history": history} if saez else {}
    skills = tuple(map(float, env.get_component("SimpleLabor").skills))
    return skills, {name: np.array(values).astype(kinds.get(name, np.float32)) for name, values in trace.items()}


def play(env, actions, key):
    """Take a step in which the original draws the random rates that OneStepEconomy-v0 draws with a key."""
    draws, uniform = Draws(int(key), env.world.timestep + 1), np.random.uniform
    np.random.uniform = lambda low, high, size: low + (high - low) * draws.rates(size[0])
    try:
        return env.step(actions)
    finally:
        np.random.uniform = uniform


def record_all(path=TRACE, steps=250):
    """Write the traces of the quick tests."""
    arrays, all_settings = {}, []
    for index, settings in enumerate(TRACED):
        skills, trace = record(settings, steps, seed=index + 1, annealed=index == 0)
        all_settings.append(dict(settings, skills=skills))
        arrays |= {f"{index}.{name}": values for name, values in trace.items()}
    write_arrays(path, {"settings": np.array(json.dumps(all_settings)), **arrays})
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_all()
