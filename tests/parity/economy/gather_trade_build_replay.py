"""Steps of ai-economist and of GatherTradeBuild-v0 from one state with one set of random numbers."""

from pathlib import Path

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core
from parity.traces import read_arrays, select_arrays

TRACE = Path(__file__).with_name("gather_trade_build.npz.xz")
STEP = 1  # purpose of random numbers
ISLAND = ("S W S ", " @@ W ", "W    S", "SW@S W")
SQUARE = (" W S ", "S@ W ", "  WS ", "WS @S", " W   ")
TRACED = (
    {"env_layout": ISLAND, "mobile_agent_observation_range": 2, "period": 10, "episode_length": 60, "max_bid_ask": 3,
     "fixed_four_skill_and_loc": False, "starting_agent_coin": 20.0, "resource_regen_prob": 0.2},
    {"env_layout": ISLAND, "mobile_agent_observation_range": 1, "n_agents": 3, "period": 2, "episode_length": 400,
     "fixed_four_skill_and_loc": False, "starting_agent_coin": 15.0, "resource_regen_prob": 0.3, "tax_model": "saez",
     "bracket_spacing": "linear", "n_brackets": 3, "top_bracket_cutoff": 20.0, "max_bid_ask": 2},
    {"env_layout": SQUARE, "full_observability": True, "period": 7, "episode_length": 50, "order_duration": 4,
     "tax_model": "us-federal-single-filer-2018-scaled", "resource_regen_prob": 0.3, "max_bid_ask": 4,
     "energy_warmup_constant": 9.0, "energy_warmup_method": "auto", "gather_skill_dist": "lognormal",
     "tax_annealing_schedule": (-100.0, 0.002), "usd_scaling": 4000.0},
    {"env_layout": ISLAND, "mobile_agent_observation_range": 2, "planner_gets_spatial_info": True, "period": 8,
     "episode_length": 40, "fixed_four_skill_and_loc": False, "starting_agent_coin": 9.0, "resource_regen_prob": 0.3,
     "rate_disc": 0.2, "rate_max": 0.8, "tax_annealing_schedule": (0.0, 0.5), "max_bid_ask": 5,
     "planner_reward_type": "inv_income_weighted_utility", "build_skill_dist": "lognormal"},
    {"scenario_name": "quadrant", "world_size": (7, 8), "mobile_agent_observation_range": 2, "episode_length": 60,
     "fixed_four_skill_and_loc": False, "starting_agent_coin": 9.0, "max_bid_ask": 3, "period": 7,
     "multi_action_mode_agents": True, "starting_wood_coverage": 9, "starting_stone_coverage": 0.2,
     "wood_max_health": 3, "wood_regen_halfwidth": 1, "wood_regen_weight": 0.6, "stone_regen_weight": 0.4},
    {"scenario_name": "uniform", "world_size": (6, 5), "full_observability": True, "episode_length": 40,
     "fixed_four_skill_and_loc": False, "starting_agent_coin": 5.0, "max_bid_ask": 2, "disable_taxes": True,
     "checker_source_blocks": True, "starting_wood_coverage": 0.15, "starting_stone_coverage": 0.1,
     "stone_regen_weight": 0.3, "wood_regen_weight": 0.2},
    {"scenario_name": "split_layout", "env_layout": SQUARE, "mobile_agent_observation_range": 1, "episode_length": 30,
     "fixed_four_skill_and_loc": False, "skill_rank_of_top_agents": (1, 3), "resource_regen_prob": 0.3,
     "starting_agent_coin": 5.0, "max_bid_ask": 2, "period": 5},
)  # fmt: skip
"""Settings of the recorded traces; the seed is the index."""
EPISODES = (2, 1, 2, 3, 2, 2, 2)
"""Episodes of every trace."""
LAYOUTS = (
    {"scenario_name": "uniform", "world_size": (14, 12), "starting_wood_coverage": 0.06},
    {"scenario_name": "quadrant", "world_size": (13, 14), "starting_stone_coverage": 9, "wood_clumpiness": 0.8},
    {"scenario_name": "multi_zone", "world_size": (12, 15), "num_partitions_row": 4, "num_partitions_col": 5,
     "num_wood_zones": 2, "num_stone_zones": 3, "num_wood_and_stone_zones": 1, "checker_source_blocks": True,
     "starting_wood_coverage": 0.05, "starting_stone_coverage": 0.07, "stone_clumpiness": 0.9},
)  # fmt: skip
"""Settings of the recorded random layouts."""
COMPONENTS = ("Build", "ContinuousDoubleAuction", "Gather")
"""Components of the original that have actions."""
TOLERANCE = 1e-5
_TABLES = ("source", "land", "terrain", "start", "start_payment", "chance", "coverage", "cutoff", "table")
CONSTANT = (*_TABLES, "bin", "turn", "gain", "price_curve", "noise", "zone")
"""Fields of State that a trace need not have."""


def philox(key, step, agent, purpose, draw):
    """Return four random words of an episode's key, for arrays of agents, (n, 4) uint32."""
    agent = np.atleast_1d(np.asarray(agent, np.uint64))
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [np.zeros_like(agent), np.zeros_like(agent), np.full_like(agent, step)]
    counter.append((agent << np.uint64(12)) | np.uint64(purpose << 8 | draw))
    key = np.uint64(key & (2**64 - 1))
    low, high = key & mask, key >> shift
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            (second >> shift) ^ counter[1] ^ low,
            second & mask,
            (first >> shift) ^ counter[3] ^ high,
            first & mask,
        ]
        low, high = (low + np.uint64(0x9E3779B9)) & mask, (high + np.uint64(0xBB67AE85)) & mask
    return np.stack(counter, -1).astype(np.uint32)


def unit(words):
    """Return random words as uniform numbers in [0, 1)."""
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


class Draws:
    """Random numbers of a step of one world."""

    def __init__(self, key, step):
        self.words = lambda agents, draw: philox(key, step, np.arange(agents), STEP, draw)

    def order(self, n):
        """Return the order in which agents move."""
        words, order = self.words(n, 0)[:, 0], np.arange(n)
        for index in range(n - 1, 0, -1):
            other = int(words[index]) * (index + 1) >> 32
            order[[index, other]] = order[[other, index]]
        return order

    def bonuses(self, n):
        """Return the number by agent that decides about its second unit."""
        return unit(self.words(n, 0)[:, 1])

    def growth(self, sources):
        """Return the number by source that decides about its growth."""
        return unit(self.words((sources + 3) // 4, 1)).ravel()[:sources]

    def rates(self, brackets):
        """Return the number by bracket of the random rates before the Saez formula."""
        return unit(self.words(brackets, 2)[:, 0]).astype(float)


def make(settings, num_envs, seed):
    """Return a core without autoreset."""
    return make_core("GatherTradeBuild-v0", num_envs, "cpu", seed=seed, autoreset="disabled", **settings)


def snapshot(core):
    """Return the state of all worlds in NumPy."""
    return {name: values.numpy().copy() for name, values in core.world_state.items()}


def results(core, obs, info, reward=None, ends=None):
    """Return observations, masks, rewards and ends in NumPy."""
    arrays = {"obs": obs.numpy().copy(), "mask": info["action_mask"].numpy().copy()}
    if reward is not None:
        arrays |= {"reward": reward.numpy().copy(), "done": ends.numpy().copy()}
    return arrays


def played(settings, num_envs, episodes, seed, components=COMPONENTS):
    """Play worlds at random; yield the state, the actions (None for a start) and the results of every step.

    Agents take actions of the named components only.
    """
    core, rng = make(settings, num_envs, seed), np.random.default_rng(seed)
    for _ in range(episodes):
        obs, info = core.reset()
        yield snapshot(core), None, results(core, obs, info), core
        while core.alive.any():
            action = _of_components(core, _lively(core, rng), components)
            previous = snapshot(core)
            obs, reward, terminated, truncated, info = core.step(action)
            after = results(core, obs, info, reward, terminated | truncated)
            yield previous, action.numpy(), after, core


def _lively(core, rng):
    """Return legal actions: half of them random, others build where that is possible, or collect what is near."""
    action, mask, config = core.sample_actions().clone(), core.action_mask, core.config
    width, state, n = config.layout.width, core.world_state, config.n_agents
    multi_action = config.multi_action_mode_agents
    moves, head = 2 + 4 * config.sizes.num_prices + 5 * multi_action, 5 * multi_action  # first move in the mask
    for world in range(core.num_envs):
        for agent in range(n):
            legal, cell = mask[world, agent], int(state["position"][world, agent])
            if legal[1] and rng.random() < 0.5:
                action[world, agent, 0] = 1
            elif rng.random() < 0.5:
                for move, offset in enumerate((-1, 1, -width, width)):
                    neighbor = cell + offset
                    if legal[moves + move] and int(state["cell"][world, neighbor]) & 4:
                        action[world, agent, head] = 1 + move if multi_action else moves + move
    return action


def _of_components(core, action, components):
    """Return actions that are the no-op in other components; agents have one action each."""
    if components == COMPONENTS:
        return action
    assert not core.config.multi_action_mode_agents
    moves = 2 + 4 * core.config.sizes.num_prices  # number of the first one
    numbers = {"Build": range(1, 2), "ContinuousDoubleAuction": range(2, moves), "Gather": range(moves, moves + 4)}
    allowed = torch.zeros_like(action[:, : core.config.n_agents, 0], dtype=torch.bool)
    for name in components:
        choice = action[:, : core.config.n_agents, 0]
        allowed |= (choice >= numbers[name].start) & (choice < numbers[name].stop)
    action[:, : core.config.n_agents, 0][~allowed] = 0
    return action


def layout_statistics(kinds):
    """Return numbers about layouts of kinds of terrain (N, H, W), (N, 10): of stone, then of wood.

    They are the number of sources, the number of pairs of neighbors, also diagonal ones, mean row and column, and
    whether cell 0 has one.
    """
    statistics = []
    for kind in (1, 2):
        mask = kinds == kind
        pairs = (mask[:, 1:] & mask[:, :-1]).sum((1, 2)) + (mask[:, :, 1:] & mask[:, :, :-1]).sum((1, 2))
        pairs += (mask[:, 1:, 1:] & mask[:, :-1, :-1]).sum((1, 2)) + (mask[:, 1:, :-1] & mask[:, :-1, 1:]).sum((1, 2))
        count = np.maximum(mask.sum((1, 2)), 1)
        row = (mask * np.arange(kinds.shape[1])[:, None]).sum((1, 2)) / count
        column = (mask * np.arange(kinds.shape[2])).sum((1, 2)) / count
        statistics += [mask.sum((1, 2)), pairs, row, column, mask[:, 0, 0]]
    return np.stack(statistics, 1).astype(float)


def compare_layouts(settings, theirs, num_envs=600):
    """Require means within 4 standard errors, and similar deviations, of the statistics of layouts."""
    core = make(settings | {"fixed_four_skill_and_loc": False}, num_envs, 0)
    core.reset()
    mine = layout_statistics((core.world_state["cell"].numpy() & 3).reshape(-1, *settings["world_size"]))
    theirs = layout_statistics(theirs)
    error = np.sqrt(theirs.var(0) / len(theirs) + mine.var(0) / num_envs)
    assert (np.abs(mine.mean(0) - theirs.mean(0)) <= 4 * error + 1e-9).all(), (mine.mean(0), theirs.mean(0), error)
    wide = theirs.std(0) > 0.3
    assert wide.sum() >= 8
    assert (np.abs(np.log(mine.std(0)[wide] / theirs.std(0)[wide])) < 0.35).all(), (mine.std(0), theirs.std(0))


def compare(mine, theirs, label):
    """Require equal masks and ends, and equal observations and rewards up to the tolerance."""
    for name in theirs:
        if name in ("mask", "done"):
            np.testing.assert_array_equal(mine[name], theirs[name], f"{name} {label}")
        else:
            np.testing.assert_allclose(mine[name], theirs[name], TOLERANCE, TOLERANCE, err_msg=f"{name} {label}")


def replay(index):
    """Replay a recorded trace; return the core at its end and the number of steps."""
    trace = select_arrays(read_arrays(TRACE), index)
    core, steps = make(TRACED[index], 1, index), 0
    for episode in range(EPISODES[index]):
        core.reset()
        for name, values in core.world_state.items():
            if name not in CONSTANT:
                values[0] = torch.from_numpy(np.asarray(trace[f"start.{name}"][episode]))
        while core.alive.any():
            obs, reward, terminated, truncated, info = core.step(torch.from_numpy(trace["action"][steps])[None])
            mine = results(core, obs, info, reward, terminated | truncated)
            at = steps + episode + 1  # observations and masks of starts lie between those of steps
            theirs = {name: trace[name][None, at] for name in ("obs", "mask")}
            theirs |= {name: trace[name][None, steps] for name in ("reward", "done")}
            compare(mine, theirs, f"trace {index}, step {steps}")
            steps += 1
    return core, steps
