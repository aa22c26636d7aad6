"""Classic control against EnvPool, transition by transition, so that `make bench` compares equal rules.

EnvPool accepts no state, so the states of its own episodes are copied to gpu-envs. Its Pendulum is not compared: it
turns by the speed before the bound is applied.
"""

import subprocess

import numpy as np
import pytest
import torch

from benchmarks.peers import process
from gpu_envs.runtime.factory import make_core

WORLDS, STEPS = 64, 120
PLAY = f"""
import sys
import envpool
import numpy as np

game, path = sys.argv[1:]
env = envpool.make(game, env_type="gymnasium", num_envs={WORLDS}, seed=3)
draw = np.random.default_rng(0)
space = env.action_space
kept = dict(obs=[], action=[], after=[], reward=[], terminated=[], truncated=[])
obs, _ = env.reset()
for _ in range({STEPS}):
    if hasattr(space, "n"):
        action = draw.integers(space.n, size={WORLDS})
    else:
        action = draw.uniform(space.low, space.high, ({WORLDS}, 1)).astype(np.float32)
    after, reward, terminated, truncated, _ = env.step(action)
    for name, value in dict(
        obs=obs, action=action, after=after, reward=reward, terminated=terminated, truncated=truncated
    ).items():
        kept[name].append(value.copy())
    obs = after
np.savez(path, **kept)
"""


def angles(obs):
    """Return the state of Acrobot from its observation: cosine and sine of each angle, then speeds."""
    cosine_1, sine_1, cosine_2, sine_2, *speeds = obs.T
    return np.stack([np.arctan2(sine_1, cosine_1), np.arctan2(sine_2, cosine_2), *speeds], 1).astype(np.float32)


@pytest.mark.skipif(process.missing("envpool") is not None, reason="envpool is not installed: make bench-peers")
@pytest.mark.parametrize(
    ("env_id", "state", "tolerance"),
    [
        ("CartPole-v1", np.asarray, 1e-6),
        ("MountainCar-v0", np.asarray, 1e-6),
        ("MountainCarContinuous-v0", np.asarray, 1e-6),
        ("Acrobot-v1", angles, 1e-5),
    ],
)
def test_transitions_equal_envpool(tmp_path, env_id, state, tolerance):
    command = [str(process.python("envpool")), "-c", PLAY, env_id, str(tmp_path / "kept.npz")]
    subprocess.run(command, check=True, capture_output=True)
    trace = np.load(tmp_path / "kept.npz")
    # The step after the end of an episode is the reset of the next one.
    ended = trace["terminated"] | trace["truncated"]
    first = np.concatenate([np.zeros((1, WORLDS), bool), ended[:-1]])
    theirs = {name: trace[name][~first] for name in trace.files}
    core = make_core(env_id, len(theirs["obs"]), "cpu", seed=0, autoreset="disabled", max_episode_steps=10**6)
    core.reset()
    core.world_state["motion"].copy_(torch.from_numpy(state(theirs["obs"])))
    obs, reward, terminated, *_ = core.step(torch.from_numpy(theirs["action"]).view_as(core.action_buffer))
    assert np.abs(obs[:, 0].numpy() - theirs["after"]).max() < tolerance
    assert np.abs(reward[:, 0].numpy() - theirs["reward"]).max() < tolerance
    assert (terminated.numpy().reshape(-1) == theirs["terminated"]).all()
    assert len(theirs["obs"]) > 0.9 * WORLDS * STEPS
