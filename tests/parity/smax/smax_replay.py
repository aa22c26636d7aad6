"""Replay of recorded steps of JaxMARL's SMAX in SMAX-v0.

A trace has JaxMARL's results from states of this library, with the random numbers that follow from these states, so a
replay draws the same ones.
"""

from pathlib import Path

import numpy as np
import torch

from gpu_envs.runtime.factory import make_core
from parity.traces import read_arrays, select_arrays, write_arrays

PATH = Path(__file__).parent / "smax.npz.xz"
# Settings, worlds and steps of every trace; the seed is the index.
TRACES = (
    ({"scenario": "2s3z", "max_steps": 30}, 2, 40),
    ({"scenario": "3s_vs_5z", "enemy": "self_play", "use_self_play_reward": True, "see_enemy_actions": False}, 3, 60),
    ({"num_allies": 3, "num_enemies": 2, "action_type": "continuous", "walls_cause_death": False}, 3, 30),
    (
        {"scenario": "smacv2_5_units", "observation_type": "conic", "attack_mode": "random", "map_width": 20.0},
        1,
        30,
    ),
)
STATE = ("pos", "health", "cooldown", "kind", "move", "attack", "goal", "victim", "key", "step", "episode")
TOLERANCE = 1e-5


def make(settings, num_envs, seed):
    """Return a core without autoreset."""
    core = make_core("SMAX-v0", num_envs, "cpu", seed=seed, autoreset="disabled", **settings)
    core.reset()
    return core


def snapshot(core):
    """Return the state of all worlds and their clocks in NumPy."""
    state = {name: values.numpy().copy() for name, values in core.world_state.items()}
    clocks = {"step": core.elapsed_steps, "episode": core.episode_index}
    return {name: state[name] if name in state else clocks[name].numpy().copy() for name in (*STATE, "won", "lives")}


def results(core, outcome):
    """Return the results of a step in NumPy, with the state after it."""
    obs, reward, terminated, truncated, info = outcome
    arrays = {"obs": obs, "reward": reward, "done": terminated | truncated, "valid": info["valid"]}
    arrays["world_state"] = core.state()
    if core.action_mask is not None:
        arrays["mask"] = core.action_mask
    return {name: values.numpy().copy() for name, values in arrays.items()} | snapshot(core)


def play(core, rng, rows):
    """Return actions: attacks if possible, otherwise mostly moves toward the other side; some are illegal."""
    worlds, agents = core.alive.shape
    if core.action_mask is None:
        action = rng.random((worlds, agents, 4)).astype(np.float32)
        action[..., 3] = np.where(rng.random((worlds, agents)) < 0.6, 0.04 * action[..., 3], action[..., 3])
        action[..., 1] = action[..., 1] ** 2
        return action
    mask = core.action_mask.numpy()
    width = (core.num_choices[:, 0] - 5).numpy()
    ahead = np.where(np.arange(agents) < rows, 1, 3)
    action = np.where(rng.random((worlds, agents)) < 0.6, ahead, rng.integers(0, 5, (worlds, agents)))
    best = mask[..., 5:] * rng.random(mask[..., 5:].shape)
    shoots = mask[..., 5:].any(-1) & (rng.random((worlds, agents)) < 0.8)
    action = np.where(shoots, 5 + best.argmax(-1), action)
    wrong = rng.random((worlds, agents)) < 0.03
    return np.where(wrong, 5 + rng.integers(0, width, (worlds, agents)), action)


def played(settings, num_envs, steps, seed):
    """Step worlds; yield the state before, the actions and the results of every step."""
    core, rng = make(settings, num_envs, seed), np.random.default_rng(seed)
    for _ in range(steps):
        ended = ~core.alive.any(1)
        if ended.any():
            core.reset(reset_mask=ended)
        previous = snapshot(core)
        action = play(core, rng, len(core.config.units.allies))
        yield previous, action, results(core, core.step(torch.from_numpy(action)))


def write(stories, path):
    """Write the transitions of all traces."""
    arrays = {}
    for index, story in enumerate(stories):
        for part, moments in zip(("before", "action", "after"), zip(*story, strict=True), strict=True):
            moments = [moment if isinstance(moment, dict) else {"": moment} for moment in moments]
            for name in moments[0]:
                values = np.stack([moment[name] for moment in moments])
                kind = values.dtype.kind
                small = bool if kind == "b" else np.int16 if kind == "i" and name != "key" else values.dtype
                arrays[f"{index}.{part}.{name}"] = values.astype(np.float32 if kind == "f" else small)
    write_arrays(path, arrays)


def compare(mine, theirs, label):
    """Compare integers exactly and floats with a tolerance; masks only where the episode continues."""
    plays = ~theirs["done"].any(1)
    for name, values in theirs.items():
        if name == "mask":
            np.testing.assert_array_equal(mine[name][plays], values[plays], err_msg=f"{name} {label}")
        elif values.dtype.kind == "f":
            np.testing.assert_allclose(mine[name], values, TOLERANCE, TOLERANCE, err_msg=f"{name} {label}")
        else:
            np.testing.assert_array_equal(mine[name], values.astype(mine[name].dtype), err_msg=f"{name} {label}")


def replay(index):
    """Take every step of a recorded trace, compare all results, and return the rewards."""
    settings, num_envs, steps = TRACES[index]
    core, rewards = make(settings, num_envs, index), []
    trace = select_arrays(read_arrays(PATH), index)
    for step in range(steps):
        state = core.get_state()
        for name, values in trace.items():
            if name.startswith("before."):
                field = name.removeprefix("before.")
                key = f"io.{field}" if field in ("step", "episode") else f"state.{field}"
                state[key] = torch.from_numpy(values[step]).to(state[key].dtype)
        state["io.alive"] = torch.ones_like(state["io.alive"])
        state["io.over"] = torch.zeros_like(state["io.over"])
        core.set_state(state)
        action = torch.from_numpy(trace["action."][step])
        after = results(core, core.step(action if action.is_floating_point() else action.long()))
        theirs = {name[6:]: values[step] for name, values in trace.items() if name.startswith("after.")}
        compare(after, theirs, (index, step))
        rewards.append(after["reward"])
    return np.concatenate(rewards)
