"""What learners with a replay have in common: settings, storage, and small functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpu_envs.errors import ConfigError
from trainers.bodies import BodyConfig
from trainers.heads import Head
from trainers.learner import Descent, State
from trainers.nets import ACTIVATIONS, masked_mean
from trainers.problem import Problem
from trainers.replay import Fields, Replay
from trainers.rollout import Rollout, final_rows
from trainers.settings import check_settings, setting
from trainers.streams import One, of_rows

AS_DRAWN = ("reward", "terminated", "valid", "which")
"""Of drawn steps, what losses read as it is; "which" see `Experience.draw`."""


@dataclass(frozen=True)
class ReplayConfig(BodyConfig):
    """Settings of every learner with a replay. A "step" is one step of one world, whatever the number of its agents."""

    names = "learners with a replay"
    """What users call the algorithms with these settings, for messages. Not a setting: it has no type."""
    hidden: tuple[int, ...] = setting((256, 256), "in [1, 2**16]")
    """Widths of the hidden layers."""
    activation: str = setting("relu", tuple(ACTIVATIONS))
    """"tanh" or "relu"."""
    rollout_length: int = setting(8, ">= 1")
    """Steps per world between two updates, T."""
    updates: int = setting(8, ">= 1")
    """Gradient steps of the critic per update."""
    replay_size: int = setting(1_000_000, ">= 1")
    """Steps that the replay keeps."""
    batch_size: int = setting(256, ">= 1")
    """Steps per gradient step, each with all agents of the policy."""
    learning_starts: int = setting(5_000, ">= 0")
    """Steps of uniformly random actions before the first gradient step."""
    learning_rate: float = setting(1e-3, "> 0")
    """Adam's step size."""
    gamma: float = setting(0.99, "in [0, 1]")
    """Discount per step."""
    tau: float = setting(0.005, "in [0, 1]")
    """How far target networks move towards their networks, per step of the policy."""
    max_grad_norm: float | None = setting(None, "> 0")
    """Gradients are scaled down to this global norm; never if None."""
    normalize_obs: bool = False
    """Normalise observations by running statistics over valid rows; the replay keeps them as they were."""
    reward_scale: float = setting(1.0, "> 0")
    """Multiplies rewards before learning: choose it so that returns are of order 1 to 100."""
    truncation_capacity: float | None = setting(None, "> 0")
    """Truncations per agent and rollout that the buffer of final observations has room for, on average over agents;
    if None, one more than the time limit can bring about, and at least 2."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")
        if self.body == "gru":
            raise ConfigError(f"learner.body = 'gru': expected mlp or cnn; {self.names}: learned from single steps")


class Experience:
    """The rollout under way and the replay that it goes to.

    The replay keeps steps as the environment gave them: observations and actions are normalised when they are drawn.
    Invalid rows are stored as zeros, so that nothing of them is ever read.
    """

    replay: Replay
    """Steps of earlier rollouts, on the learner's device."""

    def __init__(self, config: ReplayConfig, problem: Problem, head: Head) -> None:
        """Allocates both.

        Raises:
            ConfigError: The replay does not fit into memory, or agents take turns.
        """
        if problem.turns:
            raise ConfigError(
                f"{config.names}: expected agents that all move at every step, here they take turns; use ppo or dqn"
            )
        shape = (problem.num_envs, problem.num_agents)
        self.config, self.device = config, torch.device(problem.device)
        self.rollout = Rollout(
            config.rollout_length,
            shape,
            problem.obs_width,
            head.action_shape,
            head.action_dtype,
            capacity=final_rows(
                config.rollout_length, problem.time_limit, shape[0] * shape[1], config.truncation_capacity
            ),
            device=self.device,
        )
        self._allocate(problem, head)

    def _allocate(self, problem: Problem, head: Head) -> None:
        """Makes the replay."""
        row = (problem.num_agents,)
        fields: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"reward": (row, torch.float32)}
        fields |= dict.fromkeys(("terminated", "valid"), (row, torch.bool))
        fields |= dict.fromkeys(("obs", "next_obs"), ((*row, problem.obs_width), torch.float32))
        fields["action"] = ((*row, *head.action_shape), head.action_dtype)
        if problem.masked:
            fields |= dict.fromkeys(("mask", "next_mask"), ((*row, head.num_params), torch.bool))
        self.replay = self._ring(problem, fields)

    def _ring(self, problem: Problem, fields: Fields) -> Replay:
        c = self.config
        return Replay(c.replay_size, problem.num_envs, fields, self.device, c.rollout_length, problem.shard)

    def keep(self) -> None:
        """Moves the rollout to the replay (one host sync, see `Rollout.check`)."""
        r = self.rollout
        r.check()
        obs, next_obs = clean(r.obs, r.valid), clean(r.next_obs(), r.valid & ~r.terminated)
        steps = {"obs": obs, "next_obs": next_obs, "action": clean(r.action, r.valid), **self.outcome()}
        if r.mask is not None:
            # which actions were legal where an episode was cut is not known: such a step has no target
            steps["valid"] = r.valid & ~(r.truncated & ~r.terminated)
            steps |= {"mask": r.mask[:-1], "next_mask": r.mask[1:]}
        self.replay.add(steps)
        r.clear()

    def outcome(self) -> dict[str, Tensor]:
        """What the rollout's steps brought to its agents, (T, E, n) by name."""
        r = self.rollout
        reward = (self.config.reward_scale * r.reward).masked_fill(~r.valid, 0.0)
        return {"reward": reward, "terminated": r.terminated, "valid": r.valid}

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Steps drawn uniformly from the replay, tensors (batch_size, ...) by name.

        Where other ranks have drawn the same they are those of this rank's worlds, and "which" are their indices.
        """
        time, env, which = self.replay.here(*self.replay.draw(self.config.batch_size, generator))
        drawn = self.replay.at(time, env)
        return drawn if which is None else {**drawn, "which": which}

    def stream(self, generator: torch.Generator, drawn: dict[str, Tensor]) -> One:
        """A generator's stream for noise on drawn steps, tensors (B, ...) by name."""
        return of_rows(generator, self.config.batch_size, drawn.get("which"))

    def state_dict(self) -> State:
        """The replay, between two rollouts."""
        return self.replay.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Puts the replay back, and begins a rollout; CheckpointError where it does not fit."""
        self.replay.load_state_dict(state)
        self.rollout.clear()


def adam(net: Iterable[nn.Parameter], config: ReplayConfig) -> torch.optim.Optimizer:
    """The optimiser of some parameters."""
    return torch.optim.Adam(net, lr=config.learning_rate, fused=True)


def values_of(critics: nn.ModuleList, situation: Tensor, code: Tensor | None = None) -> Tensor:
    """What C critics say of situations (B, n, ...): values (C, B, n) of codes, or (C, B, n, choices) of all choices."""
    if code is None:
        return torch.stack([critic(situation) for critic in critics])
    judged = torch.cat([situation, code], -1)
    return torch.stack([critic(judged).squeeze(-1) for critic in critics])


def correct(
    values: Tensor, target: Tensor, valid: Tensor, descent: Descent, optimizer: torch.optim.Optimizer, c: ReplayConfig
) -> dict[str, Tensor]:
    """One gradient step of C critics, whose values are (C, B, n), on the squared distance to a target (B, n)."""
    count = descent.count(valid)
    loss = masked_mean((values - target).square().sum(0), valid, count)
    norm = descent(optimizer, loss, c.max_grad_norm)
    value = masked_mean(values.detach().mean(0), valid, count)
    return {"critic_loss": loss.detach(), "critic_grad_norm": norm, "value": value}


def clean(rows: Tensor, valid: Tensor) -> Tensor:
    """Rows (..., X) or (...) with zeros where they are not valid (...)."""
    return rows.masked_fill(~valid.view(*valid.shape, *[1] * (rows.dim() - valid.dim())), 0)


def means(found: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Means, scalars by name, over what several gradient steps found, not all of them the same names."""
    by_name: dict[str, list[Tensor]] = {}
    for each in found:
        for name, value in each.items():
            by_name.setdefault(name, []).append(value)
    return {name: torch.stack(values).mean() for name, values in by_name.items()}
