"""Replay of recorded steps of JaxMARL, Jumanji and SocialJax.

JaxMARL plays SwitchRiddle-v0, CoinGame-v0 and OvercookedV2-v0, Jumanji Connector-v0, SocialJax CommonsHarvest-v0.
A trace has the original's results from states of this library, with the random numbers that follow from these states,
so a replay draws the same ones.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch

from gpu_envs.envs.kitchen.overcooked_v2.layouts import LAYOUTS
from gpu_envs.runtime.factory import make_core
from parity.traces import read_arrays, select_arrays, write_arrays
from warp_kernels.kitchen.overcooked_v2.items import GOAL, POT

HERE = Path(__file__).parent
PATHS = {
    "SwitchRiddle-v0": HERE / "games" / "switch_riddle.npz.xz",
    "CoinGame-v0": HERE / "grid" / "coin_game.npz.xz",
    "CommonsHarvest-v0": HERE / "grid" / "commons_harvest.npz.xz",
    "Connector-v0": HERE / "grid" / "connector.npz.xz",
    "OvercookedV2-v0": HERE / "kitchen" / "overcooked_v2.npz.xz",
}


def kitchen_settings(index, layout):
    """Return settings of a layout in which the numbered traces take turns, all with random starts."""
    turns = {
        "agent_view_size": (2, None, 1)[index % 3],
        "start_cooking_interaction": index % 2 == 1,
        "negative_rewards": index % 3 != 1,
        "sample_recipe_on_delivery": index % 4 < 2,
        "indicate_successful_delivery": index % 4 == 1,
        "reward_shaping_factor": index % 3 / 2,
    }
    order = {"op_ingredient_permutations": (0, 1)} if index % 4 == 3 and "1" in LAYOUTS[layout][0] else {}
    return {"layout": layout, "max_steps": 8, "random_reset": True, "time_limit": "termination"} | turns | order


CROWD = {
    "layout_grid": ("WWPRWWW", "0 A A X", "1A   AB", "2 W4W L", "WXWPWWW"),
    "random_reset": True,
    "max_steps": 8,
    "agent_view_size": 2,
    "sample_recipe_on_delivery": True,
    "op_ingredient_permutations": (0, 2, 4),
    "time_limit": "termination",
}
"""Four agents in one room, and an ingredient that no agent can take."""
TINY = CROWD | {
    "layout_grid": ("WP0PW", "LAA R", "WB1XW"),
    "agent_view_size": 1,
    "negative_rewards": True,
    "op_ingredient_permutations": (0, 1),
}
"""Three cells, beside which everything is."""
TERMINATED = {"num_inner_steps": 20, "time_limit": "termination"}
"""Short episodes whose ends are those of the original."""
ORCHARD = {
    **TERMINATED,
    "layout_grid": ("AA  AA", "A WPAA", "PPPPPA", " AQP A", "AA PAA"),
    "num_agents": 6,
    "shared_rewards": False,
}
"""Apples at all borders, and little room."""
# Settings, worlds and steps of every trace; the seed is the index.
TRACES = {
    "SwitchRiddle-v0": (
        ({}, 60, 12),
        ({"num_agents": 5, "initial_bulb_state": True, "reward_all_die": -3.0, "reward_all_live": 0.5}, 40, 28),
    ),
    "CoinGame-v0": (
        ({}, 24, 30),
        ({"num_inner_steps": 4, "num_outer_steps": 3, "egocentric": True, "cnn": True}, 24, 24),
        (
            {"num_inner_steps": 3, "shared_rewards": True, "payoff_matrix": ((2.0, 3.0, -1.0), (4.0, 5.0, -7.0))},
            24,
            30,
        ),
    ),
    "CommonsHarvest-v0": (
        ({**TERMINATED, "layout": "open"}, 2, 24),
        ({**TERMINATED, "layout": "closed", "cnn": True}, 2, 24),
        ({**TERMINATED, "layout": "partnership", "shared_rewards": False}, 2, 24),
        (ORCHARD, 16, 40),
    ),
    "Connector-v0": (
        ({"grid_size": 6, "num_agents": 6, "max_episode_steps": 12}, 16, 24),
        (
            {
                "grid_size": 4,
                "num_agents": 5,
                "generator": "uniform",
                "connected_reward": 2.0,
                "timestep_reward": -0.25,
                "shared_rewards": True,
            },
            16,
            20,
        ),
    ),
    "OvercookedV2-v0": (
        (CROWD, 4, 24),
        *((kitchen_settings(index, layout), 3, 16) for index, layout in enumerate(LAYOUTS)),
        (TINY, 16, 24),
        (TINY | {"start_cooking_interaction": True}, 24, 24),
    ),
}
COMPACT = ("CommonsHarvest-v0", "OvercookedV2-v0")
"""Environments whose traces have digests of observations instead of them."""
MEASURES = {"efficiency", "equality", "sustainability", "peace"}
"""Fields that every step writes and none reads."""


def make(env_id, settings, num_envs, seed):
    """Return a core without autoreset."""
    core = make_core(env_id, num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    core.reset()
    return core


def snapshot(core):
    """Return the state of all worlds without constant tables, and their clocks, in NumPy."""
    hidden = {*core.definition.initial, *core.definition.scratch, *MEASURES}
    state = {name: values.numpy().copy() for name, values in core.world_state.items() if name not in hidden}
    core_state = core.get_state()
    return state | {"step": core.elapsed_steps.numpy().copy(), "episode": core_state["io.episode"].numpy().copy()}


def results(core, outcome):
    """Return the results of a step in NumPy, with the state after it."""
    obs, reward, terminated, truncated, info = outcome
    arrays = {"obs": obs, "reward": reward, "done": terminated, "truncated": truncated, "valid": info["valid"]}
    if "path_length" in info:
        total = info["path_length"].sum(1, keepdim=True)
        arrays |= {"action_mask": info["action_mask"], "total_length": total.expand(reward.shape)}
    return {name: values.numpy().copy() for name, values in arrays.items()} | snapshot(core)


def eager(core, action, rng):
    """Let most agents of a kitchen turn to something beside them that is of use for what they hold, and use it."""
    kitchen, state = core.config.kitchen, core.world_state
    position, facing, inventory = (state[name].numpy() for name in ("position", "facing", "inventory"))
    beside = kitchen.kinds[
        position[..., None] + np.array([-kitchen.width, kitchen.width, 1, -1])
    ]  # up, down, right, left
    hands_full = inventory[..., None] > 0
    is_dish = (inventory[..., None] & 2) > 0
    useful = np.where(is_dish, beside == GOAL, np.where(hands_full, beside == POT, beside > GOAL))
    ahead = np.take_along_axis(useful, facing[..., None], -1)[..., 0]
    turn = np.array([3, 1, 0, 2])[useful.argmax(-1)]
    chosen = np.where(ahead, 5, np.where(useful.any(-1), turn, action.numpy()))
    return torch.from_numpy(np.where(rng.random(chosen.shape) < 0.7, chosen, action.numpy()))


def digests(obs):
    """Return a digest of the observations of every step, (T, 8) uint8."""
    rows = [hashlib.blake2b(values.astype(np.int16).tobytes(), digest_size=8).digest() for values in obs]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 8)


def packed(arrays):
    """Return arrays joined by dtype, which is shorter, and the JSON of their names and shapes."""
    by_dtype, order = {}, sorted(arrays, key=lambda name: name.partition(".")[::-1])
    for name in order:
        by_dtype.setdefault(str(arrays[name].dtype), []).append(arrays[name].ravel())
    index = [(name, str(arrays[name].dtype), arrays[name].shape) for name in order]
    return {name: np.concatenate(values) for name, values in by_dtype.items()} | {"index": np.array(json.dumps(index))}


def unpacked(arrays):
    """Return the arrays that ``packed`` has joined."""
    if "index" not in arrays:
        return arrays
    result, offsets = {}, dict.fromkeys(arrays, 0)
    for name, dtype, shape in json.loads(str(arrays["index"])):
        end = offsets[dtype] + int(np.prod(shape))
        result[name] = arrays[dtype][offsets[dtype] : end].reshape(shape)
        offsets[dtype] = end
    return result


def played(env_id, settings, num_envs, steps, seed):
    """Step worlds at random; yield the state before, the actions and the results of every step."""
    core, rng = make(env_id, settings, num_envs, seed), np.random.default_rng(seed)
    for _ in range(steps):
        if not core.alive.any():
            core.reset()
        previous = snapshot(core)
        action = core.sample_actions()
        if env_id == "OvercookedV2-v0":
            action = eager(core, action, rng)
        outcome = results(core, core.step(action))
        yield previous, action[..., 0].numpy() if action.ndim == 3 else action.numpy(), outcome


def write(env_id, stories, folder=None):
    """Write the transitions of all traces of an environment; return the path."""
    arrays = {}
    for index, story in enumerate(stories):
        for part, moments in zip(("before", "action", "after"), zip(*story, strict=True), strict=True):
            moments = [moment if isinstance(moment, dict) else {"": moment} for moment in moments]
            for name in moments[0]:
                values = np.stack([moment[name] for moment in moments])
                if name == "obs" and env_id in COMPACT:
                    arrays[f"{index}.{part}.{name}"] = digests(values)
                    continue
                small = values.astype(np.float32 if name == "reward" else np.int64 if name == "key" else np.int16)
                np.testing.assert_array_equal(small, values)
                arrays[f"{index}.{part}.{name}"] = small
    path = (folder or PATHS[env_id].parent) / PATHS[env_id].name
    write_arrays(path, packed(arrays) if env_id in COMPACT else arrays)
    return path


def replay(env_id, index):
    """Take every step of a recorded trace, compare all results exactly, and return the rewards of valid worlds."""
    settings, num_envs, steps = TRACES[env_id][index]
    core, rewards = make(env_id, settings, num_envs, index), []
    trace = select_arrays(unpacked(read_arrays(PATHS[env_id])), index)
    for step in range(steps):
        state = core.get_state()
        for name, values in trace.items():
            if name.startswith("before."):
                field = name.removeprefix("before.")
                key = f"io.{field}" if field in ("step", "episode") else f"state.{field}"
                state[key] = torch.from_numpy(values[step]).to(state[key].dtype)
        valid = torch.from_numpy(trace["after.valid"][step] != 0)
        state["io.alive"], state["io.over"] = valid.clone(), ~valid.any(1)
        core.set_state(state)
        after = results(core, core.step(torch.from_numpy(trace["action."][step]).long()))
        active = valid.any(1).numpy()
        for name, values in trace.items():
            if name.startswith("after."):
                mine = after[name.removeprefix("after.")][active]
                if name == "after.obs" and env_id in COMPACT:
                    assert digests(mine[None])[0].tolist() == values[step].tolist(), f"observations of step {step}"
                    continue
                np.testing.assert_array_equal(mine, values[step][active].astype(mine.dtype), err_msg=name)
        rewards.append(after["reward"][active])
    return np.concatenate(rewards)
