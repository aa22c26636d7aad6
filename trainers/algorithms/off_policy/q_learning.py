"""What DQN, VDN and QMIX share: settings, exploration, targets, and the schedule of gradient steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from gpu_envs.utils.settings import setting
from trainers.algorithms.off_policy.hidden_states import WindowConfig
from trainers.algorithms.off_policy.replay_learner import ReplayLearner
from trainers.base.gradients import Schedule, find_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, set_learning_rate
from trainers.base.random_streams import Stream, uniform
from trainers.models.action_heads import legal


@dataclass(frozen=True)
class QConfig(WindowConfig):
    """Settings of DQN, VDN and QMIX. A "step" is one step of one world, with all its agents."""

    activation: str = setting("relu", choices=("tanh", "relu"))
    """Activation function of the hidden layers: "tanh" or "relu"."""
    rollout_length: int = setting(8, ge=1)
    """Steps per world between two updates."""
    updates: int = setting(8, ge=1)
    """Gradient steps per update. Raise it to learn more from each step of the environment."""
    batch_size: int = setting(128, ge=1)
    """Steps per gradient step, each with all its agents; with a GRU, windows of steps."""
    replay_size: int = setting(100_000, ge=1)
    """Capacity of the replay [steps of worlds]. Lower it if memory is short."""
    learning_starts: int = setting(1_000, ge=0)
    """Steps before the first gradient step."""
    learning_rate: float = setting(1e-3, gt=0)
    """Step size of Adam at the start. Lower it if training is unstable."""
    learning_rate_final: float = setting(1e-4, ge=0)
    """Step size of Adam after `total_steps`, reached along `schedule`."""
    schedule: str = setting("linear", choices=("linear",), by_name=True)
    """Way of every setting NAME to NAME_final: "linear", or "module:NAME", a function from progress in [0, 1] to the
    share of the way."""
    gamma: float = setting(0.99, ge=0, le=1)
    """Discount per step, in [0, 1]. Raise it for longer horizons."""
    double: bool = True
    """Use double Q-learning: the learning network selects the action that the target network values."""
    tau: float = setting(0.01, gt=0, le=1)
    """Share of the way that the target network moves towards the learning network, in (0, 1]; 1 copies it."""
    target_every: int = setting(1, ge=1)
    """Gradient steps between two moves of the target network."""
    epsilon: float = setting(1.0, ge=0, le=1)
    """Probability of a random action at the start."""
    epsilon_final: float = setting(0.05, ge=0, le=1)
    """Probability of a random action at the end."""
    epsilon_fraction: float = setting(0.3, gt=0, le=1)
    """Fraction of `total_steps` over which `epsilon` falls linearly to `epsilon_final`."""
    max_grad_norm: float | None = setting(10.0, gt=0)
    """Largest global norm of gradients; longer ones are scaled down. None: no limit."""
    normalize_obs: bool = True
    """Normalize observations and global states by running statistics."""
    reward_scale: float = setting(1.0, gt=0)
    """Factor of rewards before learning. Choose it so that returns are of order 1: DQN's loss is linear beyond 1."""
    truncation_capacity: float | None = setting(None, gt=0)
    """Mean number of truncations per agent and rollout that the buffer of final observations holds.
    Fractions are rounded up. None: one more than the time limit causes, at least 2. Raise it if a rollout overflows."""


class QLearner(ReplayLearner):
    """Learner of action values. A subclass defines `_minibatch_step`."""

    def __init__(self, config: QConfig, spec: LearnerSpec) -> None:
        """Set the device, the random streams and the probability of random actions."""
        super().__init__(config, spec)
        self.scheduled: Schedule = find_schedule("learner.schedule", config.schedule)
        # on the device, so that captured rollouts see its changes
        self.epsilon: Tensor = torch.full((), config.epsilon, device=self.device)

    def _optimize(self, parameters: Iterable[nn.Parameter]) -> None:
        c, captured = self.config, self.learner_spec.captured
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            "adam": make_adam(parameters, c.learning_rate, captured, eps=1e-5)
        }

    def _begin_learning(self, progress: float) -> dict[str, Tensor]:
        c = self.config
        set_learning_rate(self.optimizers["adam"], self.scheduled(c.learning_rate, c.learning_rate_final, progress))
        return {"epsilon": self.epsilon.clone()}

    def _schedule(self) -> None:
        c, progress = self.config, self.steps / self.total_steps
        self.epsilon.fill_(self.scheduled(c.epsilon, c.epsilon_final, progress / c.epsilon_fraction))

    def _learn(self) -> dict[str, Tensor]:
        """Take one gradient step, and move the target networks if it is due; both are captured on a GPU."""
        self.gradient_steps += 1
        moves_target = self.gradient_steps % self.config.target_every == 0
        return self.updates.captured(f"target {moves_target}", partial(self._minibatch_step, moves_target))()

    @abstractmethod
    def _minibatch_step(self, move_target: bool) -> dict[str, Tensor]:
        """Take one step of Adam on sampled steps, and move the target networks if `move_target` is set."""


def explore(values: Tensor, mask: Tensor | None, epsilon: Tensor, stream: Stream) -> Tensor:
    """Return epsilon-greedy actions without a host sync.

    Args:
        values: (..., choices) action values.
        mask: (..., choices), True = legal; None: all actions are legal.
        epsilon: Probability of a random action, a scalar on the device, whose changes a captured rollout sees.
        stream: Random stream.

    Returns:
        (...) int64: a uniformly random legal action with probability `epsilon`, else the best legal action.
    """
    draws = uniform(values, stream)
    coin = uniform(values[..., 0], stream)
    return torch.where(coin < epsilon, legal(draws, mask).argmax(-1), legal(values, mask).argmax(-1))


def best_value(values: Tensor, prefer: Tensor, mask: Tensor | None) -> Tensor:
    """Return the value (...) in `values` (..., choices) of the legal action with the largest entry in `prefer`.

    With the learning network's values as `prefer` and the target network's as `values` this is double Q-learning (van
    Hasselt et al. 2016, eq. 4). With the target network's values for both it is the original algorithm.
    """
    return values.gather(-1, legal(prefer, mask).argmax(-1, keepdim=True)).squeeze(-1)
