"""Replay of recorded steps of JaxMARL in SwitchRiddle-v0 and CoinGame-v0, and of Jumanji in Connector-v0.

A trace has the original's results from states of this library, with the random numbers that follow from these states,
so a replay draws the same ones.
"""

from pathlib import Path

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core
from parity.traces import read_arrays, select_arrays, write_arrays

HERE = Path(__file__).parent
PATHS = {
    "SwitchRiddle-v0": HERE / "games" / "switch_riddle.npz.xz",
    "CoinGame-v0": HERE / "grid" / "coin_game.npz.xz",
    "Connector-v0": HERE / "grid" / "connector.npz.xz",
}
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
}


def make(env_id, settings, num_envs, seed):
    """Return a core without autoreset."""
    core = make_core(env_id, num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    core.reset()
    return core


def snapshot(core):
    """Return the state of all worlds and their clocks in NumPy."""
    core_state = core.get_state()
    state = {name: values.numpy().copy() for name, values in core.world_state.items() if f"state.{name}" in core_state}
    return state | {"step": core.elapsed_steps.numpy().copy(), "episode": core_state["io.episode"].numpy().copy()}


def results(core, outcome):
    """Return the results of a step in NumPy, with the state after it."""
    obs, reward, terminated, truncated, info = outcome
    arrays = {"obs": obs, "reward": reward, "done": terminated, "truncated": truncated, "valid": info["valid"]}
    if "path_length" in info:
        total = info["path_length"].sum(1, keepdim=True)
        arrays |= {"action_mask": info["action_mask"], "total_length": total.expand(reward.shape)}
    return {name: values.numpy().copy() for name, values in arrays.items()} | snapshot(core)


def played(env_id, settings, num_envs, steps, seed):
    """Step worlds at random; yield the state before, the actions and the results of every step."""
    core = make(env_id, settings, num_envs, seed)
    for _ in range(steps):
        if not core.alive.any():
            core.reset()
        previous = snapshot(core)
        action = core.sample_actions()
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
                small = values.astype(np.float32 if name == "reward" else np.int64 if name == "key" else np.int16)
                np.testing.assert_array_equal(small, values)
                arrays[f"{index}.{part}.{name}"] = small
    path = (folder or PATHS[env_id].parent) / PATHS[env_id].name
    write_arrays(path, arrays)
    return path


def replay(env_id, index):
    """Take every step of a recorded trace, compare all results exactly, and return the rewards of valid worlds."""
    settings, num_envs, steps = TRACES[env_id][index]
    core, rewards = make(env_id, settings, num_envs, index), []
    trace = select_arrays(read_arrays(PATHS[env_id]), index)
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
                np.testing.assert_array_equal(mine, values[step][active].astype(mine.dtype), err_msg=name)
        rewards.append(after["reward"][active])
    return np.concatenate(rewards)
