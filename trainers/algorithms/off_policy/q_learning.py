"""What algorithms that learn action values have in common: settings, exploration, target networks."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from trainers.bodies import BodyConfig
from trainers.categories import legal
from trainers.learner import linear
from trainers.settings import setting
from trainers.streams import Stream, uniform

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class QConfig(BodyConfig):
    """Settings of DQN, VDN and QMIX. A "step" is one step of one world, whatever the number of its agents."""

    activation: str = setting("relu", ("tanh", "relu"))
    """"tanh" or "relu"."""
    rollout_length: int = setting(8, ">= 1")
    """Steps per world between two updates, T."""
    updates: int = setting(8, ">= 1")
    """Gradient steps per update."""
    batch_size: int = setting(128, ">= 1")
    """Steps of worlds per gradient step, each with all its agents; with a GRU, windows of steps."""
    replay_size: int = setting(100_000, ">= 1")
    """Steps of worlds that are kept to learn from; the oldest leave."""
    learning_starts: int = setting(1_000, ">= 0")
    """Steps before the first gradient step."""
    learning_rate: float = setting(1e-3, "> 0")
    """Adam's step size at the start."""
    learning_rate_end: float = setting(1e-4, ">= 0")
    """Adam's step size after `total_steps`; linear in between."""
    gamma: float = setting(0.99, "in [0, 1]")
    """Discount per step."""
    double: bool = True
    """The target network values the action that the learning network prefers (van Hasselt et al. 2016)."""
    tau: float = setting(0.01, "in (0, 1]")
    """Share of the way that the target network goes towards the learning one; 1 copies it."""
    target_every: int = setting(1, ">= 1")
    """Gradient steps between two moves of the target network."""
    epsilon: float = setting(1.0, "in [0, 1]")
    """Probability of a random action at the start."""
    epsilon_end: float = setting(0.05, "in [0, 1]")
    """Probability of a random action in the end."""
    epsilon_fraction: float = setting(0.3, "in (0, 1]")
    """Part of `total_steps` over which the one goes linearly to the other."""
    max_grad_norm: float | None = setting(10.0, "> 0")
    """Gradients are scaled down to this global norm; as they are if None."""
    normalize_obs: bool = True
    """Normalise observations, and global states, by running statistics over valid rows."""
    reward_scale: float = setting(1.0, "> 0")
    """Multiplies rewards before learning: choose it so that returns are of order 1, as errors beyond 1 count less
    in DQN's loss."""
    truncation_capacity: float | None = setting(None, "> 0")
    """Truncations per agent and rollout that the buffer of final observations has room for, on average over agents;
    if None, one more than the time limit can bring about, and at least 2."""

    def epsilon_at(self, progress: float) -> float:
        """Probability of a random action after a share of `total_steps`."""
        return linear(self.epsilon, self.epsilon_end, progress / self.epsilon_fraction)


def explore(values: Tensor, mask: Tensor | None, epsilon: Tensor, stream: Stream) -> Tensor:
    """Epsilon-greedy actions without a host sync.

    Args:
        values: (..., choices).
        mask: (..., choices) True = legal; None: all are.
        epsilon: One element on the device: a captured rollout sees it change.
        stream: Of the random actions.

    Returns:
        (...) int64: with probability `epsilon` a legal action, each as likely as the others, else the best legal one.
    """
    draws = uniform(values, stream)
    coin = uniform(values[..., 0], stream)
    return torch.where(coin < epsilon, legal(draws, mask).argmax(-1), legal(values, mask).argmax(-1))


def best_value(values: Tensor, prefer: Tensor, mask: Tensor | None) -> Tensor:
    """The value (...) in `values` (..., choices) of the legal action that `prefer` rates highest.

    With the learning network's values as `prefer` and the target network's as `values` it is double Q-learning (van
    Hasselt et al. 2016, eq. 4), with the target network's for both the original.
    """
    return values.gather(-1, legal(prefer, mask).argmax(-1, keepdim=True)).squeeze(-1)


def frozen(net: M) -> M:
    """A copy that has no gradients: a target network."""
    return copy.deepcopy(net).requires_grad_(False)
