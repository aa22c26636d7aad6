"""Environments as the general tests play them: small settings, groups of agents, special cases."""

from functools import cache

from gpu_envs.definition.registry import list_envs
from gpu_envs.runtime.factory import configured_definition

# Settings of all environments: small, quick to compile, every rule in play. Without an entry they are the defaults.
SMALL = {id: {} for id in list_envs()} | {
    "SimpleTag-v0": {"max_cycles": 7},
    "TagContinuous-v0": {
        "num_taggers": 2,
        "num_runners": 5,
        "grid_length": 2.0,
        "episode_length": 9,
        "num_other_agents_observed": 3,
        "tagging_distance": 0.15,
    },
    "TagGridworld-v0": {"num_taggers": 3, "grid_length": 4, "episode_length": 8},
    # MPE
    "Simple-v0": {"max_cycles": 7},
    "SimpleAdversary-v0": {"max_cycles": 7, "benchmark_data": True},
    "SimplePush-v0": {"max_cycles": 7},
    "SimpleSpread-v0": {"max_cycles": 7, "terminate_on_success": True, "num_landmark_neighbors": 2},
    "CollectTreasure-v0": {"max_cycles": 7, "num_collectors": 3, "num_treasures": 4, "benchmark_data": True},
    "SimpleFormation-v0": {"max_cycles": 7, "N": 3, "terminate_on_success": True},
    "SimpleLine-v0": {"max_cycles": 7},
    # MPE, the talking ones
    "SimpleCrypto-v0": {"max_cycles": 7},
    "SimpleReference-v0": {"max_cycles": 7},
    "SimpleSpeakerListener-v0": {"max_cycles": 7},
    "SimpleWorldComm-v0": {"max_cycles": 7},
    # VMAS
    "VMASBalance-v0": {"max_steps": 7},
    "VMASDiscovery-v0": {"max_steps": 7, "n_agents": 3, "n_targets": 3, "use_agent_lidar": True},
    "VMASDispersion-v0": {"max_steps": 7, "n_agents": 2, "food_radius": 0.3},
    "VMASFlocking-v0": {"max_steps": 7, "n_agents": 2, "n_obstacles": 3},
    "VMASFootball-v0": {"max_steps": 7, "n_blue_agents": 2, "n_red_agents": 2},
    "VMASGiveWay-v0": {"max_steps": 7, "observe_rel_pos": True, "done_on_completion": True},
    "VMASMultiGiveWay-v0": {"max_steps": 7},
    "VMASNavigation-v0": {"max_steps": 7, "n_agents": 3, "n_lidar_rays": 5},
    "VMASReverseTransport-v0": {"max_steps": 7, "n_agents": 2},
    "VMASSampling-v0": {"max_steps": 7, "n_agents": 2, "grid_spacing": 0.25, "lidar_range": 0.5},
    "VMASTransport-v0": {"max_steps": 7, "n_packages": 2},
    "VMASWheel-v0": {"max_steps": 7, "n_agents": 2},
    # grids
    "CoinGame-v0": {"num_inner_steps": 3, "num_outer_steps": 3},
    "CommonsHarvest-v0": {"layout_grid": "AAAA|AQ A|  WP|PP P", "num_agents": 3, "num_inner_steps": 7},
    "Connector-v0": {"grid_size": 4, "num_agents": 3, "max_episode_steps": 7},
    "LevelBasedForaging-v0": {
        "players": 3,
        "field_size": (4, 5),
        "sight": 1,
        "max_episode_steps": 9,
        "time_limit": "truncation",
        "min_player_level": (1, 1, 3),
        "max_player_level": (1, 2, 3),
        "max_food_level": 2,
        "penalty": 0.1,
    },
    "Pursuit-v0": {"x_size": 4, "y_size": 5, "n_pursuers": 4, "n_evaders": 3, "obs_range": 3, "max_cycles": 9},
    "RobotWarehouse-v0": {
        "layout": "xx.\n.g.\nx.x",
        "n_agents": 3,
        "msg_bits": 1,
        "request_queue_size": 3,
        "reward_type": "two_stage",
        "max_inactivity_steps": 8,
        "max_steps": 9,
        "time_limit": "truncation",
    },
    # kitchens
    "Overcooked-v0": {
        "layout_grid": ("XPXPX", "O1 2T", "XDXSX"),
        "horizon": 9,
        "cook_time": 2,
        "reward_shaping_factor": 0.5,
        "rnd_obj_prob_thresh": 0.4,
    },
    "OvercookedV2-v0": {
        "layout_grid": ("WPWLW", "0A A1", "WBRXW"),
        "max_steps": 9,
        "agent_view_size": 1,
        "pot_cook_time": 2,
        "random_reset": True,
        "negative_rewards": True,
        "sample_recipe_on_delivery": True,
        "reward_shaping_factor": 0.5,
        "op_ingredient_permutations": (0, 1),
    },
    # economies
    "GatherTradeBuild-v0": {
        "env_layout": (" W S ", "S@ W ", "  WS ", "WS @S", " W   "),
        "n_agents": 3,
        "episode_length": 9,
        "mobile_agent_observation_range": 1,
        "fixed_four_skill_and_loc": False,
        "starting_agent_coin": 6.0,
        "resource_regen_prob": 0.3,
        "max_bid_ask": 2,
        "order_duration": 3,
        "max_num_orders": 2,
        "period": 3,
        "bracket_spacing": "linear",
        "n_brackets": 3,
        "top_bracket_cutoff": 10.0,
        "rate_disc": 0.5,
    },
    "OneStepEconomy-v0": {
        "n_agents": 3,
        "episode_length": 7,
        "period": 2,
        "bracket_spacing": "linear",
        "n_brackets": 3,
        "rate_disc": 0.25,
        "top_bracket_cutoff": 40.0,
        "planner_reward_type": "coin_eq_times_productivity",
        "tax_limit": 0.8,
        "labor_cost": 0.01,
    },
    # battles
    "SMAX-v0": {
        "num_allies": 2,
        "num_enemies": 3,
        "unit_types": ("stalker", "zealot", "marine", "zergling", "marine"),
        "enemy": "self_play",
        "map_width": 14.0,
        "map_height": 8.0,
        "unit_type_attacks": (30.0, 40.0, 50.0, 60.0, 40.0, 50.0),
        "max_steps": 8,
        "time_limit": "truncation",
    },
    # cards
    "Hanabi-v0": {
        "players": 3,
        "colors": 2,
        "ranks": 3,
        "hand_size": 2,
        "max_information_tokens": 3,
        "max_life_tokens": 2,
        "random_start_player": True,
    },
    # classic control
    "CartPole-v1": {"max_episode_steps": 9},
    "MultiCartPole-v0": {"max_episode_steps": 9, "num_agents": 3, "theta_threshold_radians": 0.06},
    "MountainCar-v0": {"max_episode_steps": 8},
    "MountainCarContinuous-v0": {"max_episode_steps": 7},
    "Pendulum-v1": {"max_episode_steps": 6},
    "Acrobot-v1": {"max_episode_steps": 7},
    # games
    "ConnectFour-v0": {"rows": 3, "columns": 4, "x_in_row": 3},
    "DarkHex-v0": {"num_rows": 2, "num_cols": 3},
    "DiscGame-v0": {"num_repetitions": 6},
    "Goofspiel-v0": {"players": 3, "num_cards": 7, "imp_info": True},
    "KuhnPoker-v0": {"num_players": 3},
    "LiarsDice-v0": {"numdice": 2, "dice_sides": 3, "bidding_rule": "reset-quantity"},
    "MarkovSoccer-v0": {"grid": "A.O\n.OB\n...", "horizon": 9},
    "MatrixGame-v0": {
        "payoff": [
            [[[2, 2, 2], [1, 1, -1]], [[1, -1, 1], [0, 3, 3]]],
            [[[-1, 1, 1], [3, 0, 3]], [[3, 3, 0], [4, 4, 4]]],
        ],
        "num_repetitions": 5,
    },
    "OshiZumo-v0": {"coins": 6, "size": 2, "horizon": 7},
    "PhantomTicTacToe-v0": {"obstype": "reveal-numturns", "gameversion": "abrupt"},
    "RockPaperScissors-v0": {"num_repetitions": 6},
    "SwitchRiddle-v0": {"num_agents": 4},
}

FEW = ("ConnectFour-v0", "Pendulum-v1", "SimpleSpeakerListener-v0", "TagContinuous-v0")
"""Environments whose tests are quick where the rules matter less: turns, a Box, unequal spaces, agents that leave."""

# Environments of every kind, see tests/house/test_representatives.py. The code around the rules of the other
# environments is the same, so tests of that code play only these in the quick suite.
REPRESENTATIVES = (
    "CartPole-v1",
    "CoinGame-v0",
    "ConnectFour-v0",
    "DarkHex-v0",
    "Goofspiel-v0",
    "Hanabi-v0",
    "LevelBasedForaging-v0",
    "OneStepEconomy-v0",
    "Pendulum-v1",
    "RobotWarehouse-v0",
    "RockPaperScissors-v0",
    "SimpleSpeakerListener-v0",
    "SimpleTag-v0",
    "TagContinuous-v0",
)

# Games that are over before the steps that some tests play: length of an episode.
BRIEF = {"ClimbingGame-v0": 1, "TwoStepGame-v0": 2}

GROUPS = {
    "OneStepEconomy-v0": "planner",
    "SimpleAdversary-v0": "agent",
    "SimpleCrypto-v0": "bob",
    "SimplePush-v0": "agent",
    "SimpleSpeakerListener-v0": "listener",
    "SimpleWorldComm-v0": "adversary",
    "TagContinuous-v0": "runner",
}
"""Groups to play with that are not the first one of their environment."""

_RANDOM_LAYOUT = {
    "fixed_four_skill_and_loc": False,
    "env_layout": None,
    "resource_regen_prob": 0.01,
    "world_size": (6, 7),
    "starting_wood_coverage": 0.2,
    "wood_regen_weight": 0.5,
    "wood_regen_halfwidth": 1,
    "wood_max_health": 2,
}
# What SMALL does not reach: other kinds of actions, observations, phases.
SPECIAL = (
    ("Goofspiel-v0", {"imp_info": False, "points_order": "descending", "returns_type": "total_points"}),
    ("SimpleTag-v0", {"continuous_actions": True}),
    ("TagContinuous-v0", {"use_full_observation": True}),
    ("TagContinuous-v0", {"fixed_start": True, "runner_exits_game_after_tagged": False}),
    ("TagGridworld-v0", {"use_full_observation": False}),
    ("VMASFootball-v0", {"ai_red_agents": False, "enable_shooting": True, "continuous_actions": False}),
    ("VMASNavigation-v0", {"collisions": False, "observe_all_goals": True, "continuous_actions": False}),
    ("CoinGame-v0", {"cnn": True, "egocentric": True, "shared_rewards": True}),
    ("CommonsHarvest-v0", {"shared_rewards": False, "cnn": True}),
    ("Connector-v0", {"generator": "uniform", "shared_rewards": True, "cnn": True}),
    ("LevelBasedForaging-v0", {"grid_observation": True}),
    ("LevelBasedForaging-v0", {"action_mask": False, "time_limit": "termination", "observe_agent_levels": False}),
    ("Pursuit-v0", {"surround": False, "shared_reward": False, "obs_range": 4, "constraint_window": 0.9, "cnn": True}),
    ("RobotWarehouse-v0", {"msg_bits": 0, "time_limit": "termination", "reward_type": "global"}),
    ("RobotWarehouse-v0", {"observation_type": "image_dict", "image_observation_layers": ("requests", "agent_load")}),
    ("Overcooked-v0", {"random_start_pos": True, "channels_first": True}),
    ("OvercookedV2-v0", {"agent_view_size": None, "channels_first": True, "indicate_successful_delivery": True}),
    ("OneStepEconomy-v0", {"agent_reward_type": "isoelastic_coin_minus_labor", "mask_first_step": False}),
    ("OneStepEconomy-v0", {"disable_taxes": True, "planner_reward_type": "inv_income_weighted_utility"}),
    ("OneStepEconomy-v0", {"tax_model": "saez", "period": 1, "pareto_weight_type": "uniform"}),
    ("SMAX-v0", {"enemy": "heuristic", "attack_mode": "random", "smacv2_position_generation": True}),
    ("SMAX-v0", {"action_type": "continuous", "observation_type": "conic", "use_self_play_reward": True}),
    ("GatherTradeBuild-v0", {"disable_taxes": True, "full_observability": True, "mobile_agent_observation_range": 5}),
    ("GatherTradeBuild-v0", {"tax_model": "saez", "period": 1, "planner_gets_spatial_info": True}),
    ("GatherTradeBuild-v0", _RANDOM_LAYOUT | {"scenario_name": "quadrant", "multi_action_mode_agents": True}),
    ("Hanabi-v0", {"observation_type": "minimal", "keep_score": True, "max_information_tokens": 0}),
    ("Hanabi-v0", {"observation_type": "seer", "players": 2}),
)


@cache
def small_definition(env_id):
    return configured_definition(env_id, None, SMALL[env_id])[2]


def group_of(env_id):
    """Return a group of agents with equal spaces, to play with."""
    return GROUPS.get(env_id) or next(iter(small_definition(env_id).groups))


def lenient(env_id):
    """Return settings under which unmasked random actions are allowed: in turn-based games an illegal action loses."""
    return {"illegal_actions": "loss"} if small_definition(env_id).rules.turn_based else {}


def refuses_illegal(env_id):
    """Return whether an illegal action is an error in views, too: agents do not take turns, so that none loses."""
    rules = small_definition(env_id).rules
    return rules.masked and not rules.turn_based and not rules.illegal_noop
