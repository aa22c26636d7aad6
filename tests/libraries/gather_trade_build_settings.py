"""Random settings of GatherTradeBuild-v0 that the original accepts, too."""

from gpu_envs.envs.economy.gather_trade_build import REWARD_TYPES, SKILLS


def random_settings(rng, model):
    """Return settings drawn at random, with a tax model."""
    side, is_full = int(rng.integers(4, 8)), rng.random() < 0.2
    cells = rng.choice(list(" SW@"), (side, side), p=(0.5, 0.2, 0.2, 0.1))
    cells[[0, 0, -1, -1], [0, -1, 0, -1]] = " "
    settings = {
        "env_layout": tuple("".join(row) for row in cells),
        "n_agents": int(rng.integers(2, 6)), "episode_length": int(rng.integers(100, 250)),
        "full_observability": bool(is_full), "planner_gets_spatial_info": bool(rng.random() < 0.4),
        "resource_regen_prob": float(rng.uniform(0.05, 0.5)), "starting_agent_coin": float(rng.integers(0, 30)),
        "isoelastic_eta": round(float(rng.uniform(0.0, 0.9)), 3), "energy_cost": round(float(rng.uniform(0, 1)), 3),
        "planner_reward_type": str(rng.choice(REWARD_TYPES)),
        "mixing_weight_gini_vs_coin": float(rng.choice([0.0, 0.25, 1.0])),
        "payment": int(rng.integers(1, 20)), "payment_max_skill_multiplier": int(rng.integers(1, 5)),
        "build_labor": float(rng.integers(0, 12)), "max_bid_ask": int(rng.integers(1, 7)),
        "order_labor": float(rng.choice([0.0, 0.25, 0.3])), "order_duration": int(rng.integers(1, 30)),
        "max_num_orders": int(rng.integers(1, 7)), "move_labor": float(rng.choice([0.0, 1.0, 0.1])),
        "collect_labor": float(rng.choice([0.0, 1.0])), "gather_skill_dist": str(rng.choice(SKILLS)),
        "period": int(rng.integers(1, 25)), "tax_model": model, "disable_taxes": model == "free",
        "bracket_spacing": str(rng.choice(["us-federal", "linear", "log"])), "n_brackets": int(rng.integers(2, 7)),
        "top_bracket_cutoff": float(rng.integers(20, 60)), "usd_scaling": float(rng.choice([4000.0, 9000.0])),
        "rate_min": 0.0, "rate_max": 1.0, "rate_disc": float(rng.choice([0.05, 0.1, 0.3])),
        "allow_observation_scaling": bool(rng.random() < 0.7),
    }  # fmt: skip
    if not is_full:
        settings["mobile_agent_observation_range"] = int(rng.integers(0, 5))
    if rng.random() < 0.5:
        settings |= {"fixed_four_skill_and_loc": False, "build_skill_dist": str(rng.choice(SKILLS))}
    if model == "free":
        settings["tax_model"] = "model_wrapper"
    if model.startswith("us-federal"):
        settings["bracket_spacing"] = "us-federal"
    if model == "fixed-bracket-rates":
        count = 7 if settings["bracket_spacing"] == "us-federal" else settings["n_brackets"]
        settings["fixed_bracket_rates"] = [round(float(rate), 2) for rate in rng.random(count)]
    if model == "saez":
        settings |= {"pareto_weight_type": str(rng.choice(["inverse_income", "uniform"])), "rate_max": 0.9}
        settings |= {"n_agents": 5, "episode_length": 240, "period": int(rng.integers(1, 3))}
        if rng.random() < 0.4:
            settings["saez_fixed_elas"] = round(float(rng.uniform(0.0, 2.0)), 2)
    elif rng.random() < 0.4:
        settings["tax_annealing_schedule"] = (float(rng.integers(-1, 2)), round(float(rng.uniform(0.1, 0.6)), 3))
    if rng.random() < 0.5:
        settings["energy_warmup_method"] = str(rng.choice(["decay", "auto"]))
        settings["energy_warmup_constant"] = float(rng.integers(1, 90))
    return settings


def random_world(rng, scenario):
    """Return settings of a scenario drawn at random, for `random_settings`."""
    rows, columns = (int(side) for side in rng.integers(6, 9, 2))
    settings = {"scenario_name": scenario, "fixed_four_skill_and_loc": False, "build_skill_dist": "pareto"}
    if scenario == "split_layout":
        return settings | {"skill_rank_of_top_agents": (0,) if rng.random() < 0.5 else (1,), "water_row": 1}
    settings |= {"world_size": (rows, columns), "gradient_steepness": float(rng.integers(1, 9)),
                 "checker_source_blocks": bool(rng.random() < 0.3)}  # fmt: skip
    for good in ("wood", "stone"):
        settings |= {
            f"starting_{good}_coverage": float(rng.choice([0.1, 0.2, 5.0])),
            f"{good}_clumpiness": round(float(rng.random()), 2),
            f"{good}_regen_halfwidth": int(rng.integers(0, 4)),
            f"{good}_regen_weight": round(float(rng.uniform(0.1, 1.0)), 3),
            f"{good}_max_health": int(rng.integers(1, 4)),
        }
    if scenario == "multi_zone":
        del settings["gradient_steepness"]
        settings |= {"num_partitions_row": int(rng.integers(2, 4)), "num_partitions_col": int(rng.integers(2, 4))}
        settings |= dict.fromkeys(("num_wood_zones", "num_stone_zones", "num_wood_and_stone_zones"), 1)
    return settings
