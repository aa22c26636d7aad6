"""Pairs of a tensor wrapper and Gymnasium's wrapper of arrays."""

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from small_environments import SMALL, group_of

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = [NEXT_STEP, SAME_STEP, DISABLED]
FALLS = {"max_episode_steps": 25}  # of CartPole: long enough that some fall, short enough that some are cut
before_1_4 = tuple(map(int, gymnasium.__version__.split(".")[:2])) < (1, 4)


def rows(env_id, num_envs=6, mode=NEXT_STEP, **settings):
    settings = {"group": group_of(env_id), "device": "cpu", **SMALL[env_id], **settings}
    return gymnasium.make_vec(f"gpu_envs/{env_id}", num_envs=num_envs, autoreset_mode=mode, **settings)


class Pair:
    """A wrapper of tensors and Gymnasium's wrapper of arrays over the same worlds, played alike."""

    def __init__(self, env_id, mode, ours, theirs, **settings):
        self.mode, self.plain = mode, rows(env_id, mode=mode, **settings)
        self.ours, self.theirs = ours(self.plain), theirs(rows(env_id, mode=mode, to_numpy=True, **settings))
        self.waiting = np.zeros(self.plain.num_envs, bool)

    def reset(self, seed=None):
        return self.ours.reset(seed=seed)[0], self.theirs.reset(seed=seed)[0]

    def steps(self, count):
        """Yield the results of both packages for every step; with DISABLED, reset finished worlds two steps later."""
        for t in range(count):
            action = self.plain.sample_actions()
            left, right = self.ours.step(action), self.theirs.step(action.numpy())
            yield left, right
            if self.mode is DISABLED:
                self.waiting |= right[2] | right[3]
                if t % 3 == 2 and self.waiting.any():
                    self.ours.reset(options={"reset_mask": torch.as_tensor(self.waiting)})
                    self.theirs.reset(options={"reset_mask": self.waiting.copy()})
                    self.waiting[:] = False


def close(tensor, array, tolerance=1e-5):
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)
