"""Comparison with Gymnasium's environments: one step from many states, whole episodes, starts."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch

from gpu_envs.runtime.factory import make_core

FOREVER = 10**6


def put(env: Any, motion: np.ndarray) -> None:
    """Lay a state into one of Gymnasium's classic environments, in the precision that it keeps itself."""
    env = env.unwrapped
    single = type(env).__name__ == "Continuous_MountainCarEnv"
    env.state = np.array(motion, np.float32 if single else np.float64)
    env.steps_beyond_terminated = None  # CartPole warns of steps after the end


@dataclass
class Steps:
    """Compare one step from each of N states with the reference."""

    obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    their_obs: np.ndarray
    their_reward: np.ndarray
    their_terminated: np.ndarray

    def hold(self, tolerance: float, doubtful: np.ndarray | bool = False) -> None:
        """Assert that all agrees; ``doubtful`` says where rounding may decide whether an episode ends."""
        obs = np.abs(self.obs - self.their_obs).max()
        assert obs < tolerance, f"largest error of an observation {obs:.1e}"
        sure = ~np.broadcast_to(doubtful, len(self.obs))
        assert sure.mean() > 0.999
        reward = np.abs(self.reward - self.their_reward)[sure].max()
        assert reward < tolerance, f"largest error of a reward {reward:.1e}"
        np.testing.assert_array_equal(self.terminated[sure], self.their_terminated[sure])


def step(
    env_id: str,
    motion: np.ndarray,
    action: np.ndarray,
    settings: dict[str, Any] | None = None,
    attributes: dict[str, Any] | None = None,
    illegal_actions: str = "error",
) -> Steps:
    """Play one step from every state, in a batch in gpu-envs and one by one in the original.

    Args:
        env_id: "CartPole-v1", ...
        motion: (N, S) float32.
        action: (N,) int64 or (N, 1) float32.
        settings: Settings of the environment of gpu-envs.
        attributes: What says the same there; arguments that exist there are handed over, the rest is assigned.
        illegal_actions: See :class:`gpu_envs.runtime.core.Core`.
    """
    core = make_core(
        env_id, len(motion), "cpu", seed=0, max_episode_steps=FOREVER, illegal_actions=illegal_actions,
        autoreset="disabled",
        **settings or {},
    )  # fmt: skip
    core.reset()
    core.world_state["motion"].copy_(torch.from_numpy(motion))
    obs, reward, terminated, truncated, _ = core.step(torch.from_numpy(action).view_as(core.action_buffer))
    assert not truncated.any()
    theirs = gymnasium.make(env_id).unwrapped
    for name, value in (attributes or {}).items():
        assert hasattr(theirs, name), name
        setattr(theirs, name, value)
    theirs.reset(seed=0)
    results = []
    for start, choice in zip(motion, action, strict=True):
        put(theirs, start)
        results.append(theirs.step(choice)[:3])
    their_obs, their_reward, their_terminated = (np.array(part) for part in zip(*results, strict=True))
    return Steps(
        obs[:, 0].numpy(), reward[:, 0].numpy(), terminated[:, 0].numpy(), their_obs, their_reward, their_terminated
    )


def spaces_match(env_id: str) -> None:
    """Assert that spaces, with bounds and dtypes, and specifications are equal."""
    core, theirs = make_core(env_id, 1, "cpu"), gymnasium.make(env_id)
    assert core.possible_agents == ("agent_0",)
    assert core.observation_spaces["agent_0"] == theirs.observation_space
    assert core.action_spaces["agent_0"] == theirs.action_space
    ours, spec = gymnasium.spec(f"gpu_envs/{env_id}"), gymnasium.spec(env_id)
    assert ours.max_episode_steps == spec.max_episode_steps == core.definition.max_episode_steps
    assert ours.reward_threshold == spec.reward_threshold
    assert core.render_fps == theirs.metadata["render_fps"]


def episode(env_id: str, policy: Any, tolerance: float) -> tuple[int, bool, float]:
    """Play one episode of the reference, gymnasium.make and the core, with the state copied before every step.

    Returns:
        Its length, whether it terminated, and the return.
    """
    ours, theirs = gymnasium.make(f"gpu_envs/{env_id}"), gymnasium.make(env_id)
    core = make_core(env_id, 1, "cpu", autoreset="disabled")
    obs, _ = ours.reset(seed=3)
    theirs.reset(seed=3)
    core.reset(seed=3)
    state = ours.unwrapped.core.world_state["motion"]
    total, length = 0.0, 0
    while True:
        action = policy(obs)
        put(theirs, state[0].numpy())
        core.world_state["motion"].copy_(state)
        obs, reward, terminated, truncated, _ = ours.step(action)
        their_obs, their_reward, their_terminated, their_truncated, _ = theirs.step(action)
        np.testing.assert_allclose(obs, their_obs, atol=tolerance, rtol=0)
        assert abs(reward - their_reward) < tolerance
        assert (terminated, truncated) == (their_terminated, their_truncated)
        flags = core.step(torch.as_tensor(action).view_as(core.action_buffer))[2:4]
        assert (flags[0].item(), flags[1].item()) == (terminated, truncated and not terminated)
        total, length = total + reward, length + 1
        if terminated or truncated:
            return length, terminated, total


def starts(env_id: str, worlds: int = 20_000) -> np.ndarray:
    """First observations (E, D) of many worlds, and of their second episodes."""
    core = make_core(env_id, worlds, "cpu", seed=7, max_episode_steps=1)
    first = core.reset()[0][:, 0]
    second = core.step(core.sample_actions())[0][:, 0]
    return torch.cat([first, second]).numpy()


def uniform(values: np.ndarray, low: float, high: float) -> None:
    """Assert that values are spread evenly over a range (Kolmogorov and Smirnov, 0.1 %)."""
    assert low <= values.min()
    assert values.max() < high
    ranks = np.arange(1, len(values) + 1) / len(values)
    share = (np.sort(values) - low) / (high - low)
    distance = max(np.abs(ranks - share).max(), np.abs(ranks - 1 / len(values) - share).max())
    assert distance * len(values) ** 0.5 < 1.95


def independent(values: np.ndarray) -> None:
    """Assert that columns (N, K) are uncorrelated, and the first half of the rows with the second."""
    half = len(values) // 2
    together = np.corrcoef(np.concatenate([values[:half], values[half:]], 1).T)
    assert np.abs(together - np.eye(len(together))).max() < 5 / half**0.5
